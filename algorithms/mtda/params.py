"""The parameters of MTDA."""

from typing import Literal

from pydantic import Field

from algorithms.interface.params import Iterations
from algorithms.projections.params import Dimension, RidgeParams


class MTDAParams(RidgeParams):
    """Parameters of MTDA."""

    null: Literal["keep", "exclude"] = Field(
        "keep",
        title="Outside the span",
        description="Where fewer than d directions in the span of a task's rows raise the common "
        "ratio. 'keep': fill up with directions in which the training rows are constant, which "
        "is the optimum of the paper's problem and changes no prediction. 'exclude': take the "
        "best directions of the span, a different and often better classifier.",
    )
    solver: Literal["exact", "alternating"] = Field(
        "exact",
        title="Solver",
        description="'exact': Newton's method on the common ratio, to the global optimum in "
        "four to seven steps. 'alternating': the paper's procedure, its Theorem 1 mended; it "
        "reaches the same optimum and also gives the parts W_i and P of U_i = W_i P.",
    )
    d_prime: Dimension = Field(
        300,
        title="Intermediate dimensions d'",
        description="Columns of W_i for the alternating solver; the optimum does not depend on "
        "it. Lowered to what every task has, and raised to 'd'.",
    )
    max_iter: Iterations = Field(
        100, description="Most Newton steps, or rounds of the alternation."
    )
    tolerance: float = Field(
        1e-12,
        ge=1e-15,
        le=1e-2,
        title="Tolerance",
        description="Stop when the common ratio, which lies in 0 to 1, changes by less.",
    )
