"""The parameters of the weighted ensemble."""

from pydantic import Field

from algorithms.interface.params import Folds, Params


class EnsembleParams(Params):
    """Parameters of the weighted ensemble."""

    single: bool = Field(
        default=False,
        title="One method",
        description="Whether the model is the one method with the smallest mean error on held-out "
        "rows, which is easier to explain and a few percent worse on average.",
    )
    budget_s: float = Field(
        60.0,
        gt=0.0,
        le=1e7,
        title="Time budget",
        description="Processor time of all methods together, in seconds. Methods that would exceed "
        "it are left out, those that are rarely needed first; one method is always fitted.",
    )
    n_folds: Folds = Field(5, description="Number of folds whose rows are held out in turn.")
