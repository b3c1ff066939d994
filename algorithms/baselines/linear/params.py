"""Common parameters of the linear baselines."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.families.linear.bases import Standardise
from algorithms.interface.params import Grid, Params
from algorithms.interface.target_scales import ScaleTargetsField

#: Grid of gamma with logarithmic steps, in units of the mean variance of a column.
DEFAULT_GRID = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)

Gamma = Annotated[float, Field(ge=1e-9, le=1e9)]
GammaGrid = Annotated[
    Grid[Gamma],
    Field(max_length=200, title="Grid of gamma", description="Values of gamma to try."),
]
#: Standardisation of columns.
Columns = Annotated[
    Standardise,
    Field(
        title="Standardisation",
        description="'features': each column is scaled to mean 0 and standard deviation 1 over the "
        "rows of all tasks. 'none': no standardisation.",
    ),
]


class LinearParams(Params):
    """Base class of the parameters of linear baselines."""

    GRIDS: ClassVar = {"gamma": "grid"}

    gamma: Gamma = Field(
        1.0,
        title="Regularisation gamma",
        description="Weight of the squared norm of the coefficients relative to the sum of losses, "
        "in units of the mean variance of a column. Used if 'selection' is 'given'.",
    )
    grid: GammaGrid = DEFAULT_GRID
    standardise: Columns = "features"
    fit_intercept: bool = Field(
        default=True,
        title="Intercepts",
        description="Whether there is an intercept, which is not penalised.",
    )


class PooledParams(LinearParams):
    """Parameters of a method that trains each task alone or all tasks as one."""

    form: Literal["task", "pooled"] = Field(
        "task",
        title="Form",
        description="'task': each task from its own rows. 'pooled': one function for all tasks, "
        "from all rows, up to the intercepts and scales of the tasks.",
    )
    intercept: Literal["task", "common"] = Field(
        "task",
        title="Intercepts of pooled tasks",
        description="For form 'pooled': 'task' gives each task an intercept, drawn to that of all "
        "tasks as much as leave-one-out errors ask for, and, if deviations of numeric targets "
        "differ widely, a scale. 'common': the same function for all tasks.",
    )
    selection_scope: Literal["all", "task"] = Field(
        "all",
        title="Scope of the selection of gamma",
        description="For form 'task': 'all' selects one gamma for all tasks, 'task' selects a "
        "gamma for each task by its own rows. A new task gets the common gamma.",
    )

    @property
    def has_task_intercepts(self) -> bool:
        """Whether pooled tasks have intercepts of their own."""
        return self.form == "pooled" and self.fit_intercept and self.intercept == "task"

    @property
    def is_chosen_per_task(self) -> bool:
        """Whether gamma is selected for each task."""
        return self.form == "task" and self.selection_scope == "task"


class LeaveOneOutParams(LinearParams):
    """Parameters of a method with a leave-one-out error in closed form."""

    INNER_SELECTION: ClassVar = "loo"

    selection: Literal["given", "loo"] = Field(
        "loo",
        title="Choice of gamma",
        description="'given': use 'gamma'. 'loo': select from 'grid' by the mean squared "
        "leave-one-out error over all rows, in closed form.",
    )
    scale_targets: ScaleTargetsField = "moderated"


class RidgeParams(PooledParams, LeaveOneOutParams):
    """Parameters of ridge regression."""
