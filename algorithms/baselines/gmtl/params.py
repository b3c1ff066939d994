"""The parameters of grouped multi-task feature learning."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.baselines.linear.params import Columns, Gamma, GammaGrid
from algorithms.interface.params import Folds, GapTolerance, Grid, Intercepts, Iterations, Params
from algorithms.interface.target_scales import ScaleTargetsField

Groups = Annotated[int, Field(ge=1, le=10_000)]


class GMTLParams(Params):
    """Parameters of grouped multi-task feature learning."""

    GRIDS: ClassVar = {"gamma": "grid", "n_groups": "groups_grid"}

    gamma: Gamma = Field(
        10.0,
        title="Regularisation gamma",
        description="Weight of the squared trace norm of the functions of each group, in units of "
        "the mean variance of a column. Used if 'selection' is 'given'.",
    )
    n_groups: Groups = Field(
        2,
        title="Groups",
        description="Largest number of groups of tasks. 1: all tasks share features, as in MTFL. "
        "Used if 'selection' is 'given'.",
    )
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Choice of parameters",
        description="'given': use 'gamma' and 'n_groups'. 'cv': select both from their grids by "
        "cross-validation of the training rows.",
    )
    grid: GammaGrid = (1.0, 10.0, 100.0, 1000.0)
    groups_grid: Grid[Groups] = Field(
        (1, 2, 3),
        max_length=100,
        title="Grid of groups",
        description="Values of 'n_groups' to try.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    n_starts: int = Field(
        5,
        ge=1,
        le=1000,
        title="Starts",
        description="Number of starts of the search for groups: two from clusters of functions, "
        "the others random. The best result is kept.",
    )
    standardise: Columns = "features"
    fit_intercept: Intercepts = True
    scale_targets: ScaleTargetsField = "moderated"
    tolerance: GapTolerance = 1e-5
    max_iter: Iterations = Field(5000, description="Maximum number of steps.")
