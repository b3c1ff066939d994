"""The parameter that every kind of PCA has."""

from pydantic import Field

from algorithms.interface.params import Params


class SubspaceParams(Params):
    """The dimension of a subspace."""

    k: int = Field(
        2,
        ge=1,
        le=100_000,
        title="Dimensions",
        description="Dimension of a subspace; the number of features, its bound, retains all.",
    )
