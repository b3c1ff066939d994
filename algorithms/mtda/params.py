"""The parameters of MTDA."""

from typing import Literal

from pydantic import Field

from algorithms.families.projections.params import Dimension, ScatterRidgeParams
from algorithms.interface.params import Iterations


class MTDAParams(ScatterRidgeParams):
    """Parameters of MTDA."""

    null: Literal["keep", "exclude"] = Field(
        "keep",
        title="Outside the span",
        description="What to do if fewer than d directions in the span of a task's rows increase "
        "the common ratio. 'keep': fill up with directions in which the training rows are "
        "constant, which is the optimum of the paper's problem and changes no prediction. "
        "'exclude': use the best directions of the span, a different and often better classifier.",
    )
    solver: Literal["exact", "alternating"] = Field(
        "exact",
        title="Solver",
        description="'exact': Newton's method on the common ratio, which reaches the global "
        "optimum in a few steps. 'alternating': the paper's procedure with a corrected "
        "Theorem 1, which reaches the same optimum and also computes the parts of U_i = W_i P.",
    )
    d_prime: Dimension = Field(
        300,
        title="Intermediate dimensions d'",
        description="Number of columns of W_i for the alternating solver; the optimum does not "
        "depend on it. Limited to the dimensions of every task, and at least 'd'.",
    )
    max_iter: Iterations = Field(
        100, description="Maximum number of Newton steps, or of rounds of the alternation."
    )
    tolerance: float = Field(
        1e-12,
        ge=1e-15,
        le=1e-2,
        title="Tolerance",
        description="Stop once the common ratio, a number from 0 to 1, changes by less.",
    )
