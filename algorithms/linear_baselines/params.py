"""Parameters that the linear baselines have in common."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Grid, Params
from algorithms.interface.target_scales import ScaleTargetsField
from algorithms.linear.bases import Standardise

#: Evenly spaced in logarithm; in units of the mean variance of a column.
DEFAULT_GRID = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)

Gamma = Annotated[float, Field(ge=1e-9, le=1e9)]
#: What is done to columns before.
Columns = Annotated[
    Standardise,
    Field(
        title="Standardisation",
        description="'features': each column has mean 0 and deviation 1 over the rows of all "
        "tasks. 'none': columns as they are.",
    ),
]


class LinearParams(Params):
    """Parameters of every linear baseline."""

    GRIDS: ClassVar = {"gamma": "grid"}

    gamma: Gamma = Field(
        1.0,
        title="Regularisation gamma",
        description="Weight of the squared length of the coefficients, beside a sum of losses, in "
        "units of the mean variance of a column. Used when 'selection' is 'given'.",
    )
    grid: Grid[Gamma] = Field(
        DEFAULT_GRID,
        max_length=200,
        title="Grid of gamma",
        description="Values to try when gamma is chosen.",
    )
    standardise: Columns = "features"
    fit_intercept: bool = Field(
        default=True,
        title="Intercepts",
        description="Whether there is a constant outside the penalty.",
    )


class PooledParams(LinearParams):
    """Parameters of a method that learns the tasks alone or as one."""

    form: Literal["task", "pooled"] = Field(
        "task",
        title="Form",
        description="'task': each task from its own rows alone. 'pooled': one function for all "
        "tasks from all rows; their targets have one scale then.",
    )
    selection_scope: Literal["all", "task"] = Field(
        "all",
        title="Scope of the choice of gamma",
        description="Where gamma is chosen, for the form 'task'. 'all': one for all tasks. "
        "'task': each task has its own, by its own rows; a new task joins with the common one.",
    )

    @property
    def is_chosen_per_task(self) -> bool:
        """Whether each task has a gamma of its own."""
        return self.form == "task" and self.selection_scope == "task"


class LeaveOneOutParams(LinearParams):
    """Parameters of a method with a leave-one-out error in closed form."""

    INNER_SELECTION: ClassVar = "loo"

    selection: Literal["given", "loo"] = Field(
        "loo",
        title="Choice of gamma",
        description="'given': take 'gamma'. 'loo': from 'grid', by the mean squared leave-one-out "
        "error over all rows, in closed form.",
    )
    scale_targets: ScaleTargetsField = "moderated"


class RidgeParams(PooledParams, LeaveOneOutParams):
    """Parameters of ridge regression."""
