"""The common parameter of all kinds of PCA."""

from pydantic import Field

from algorithms.interface.params import Params


class SubspaceParams(Params):
    """Parameters of a subspace."""

    k: int = Field(
        2,
        ge=1,
        le=100_000,
        title="Dimensions",
        description="Dimension of the subspaces, at most the number of features.",
    )
