"""The parameters of clustered multi-task learning."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.baselines.linear.params import Columns, Gamma, GammaGrid
from algorithms.interface.params import Folds, GapTolerance, Grid, Intercepts, Iterations, Params
from algorithms.interface.target_scales import ScaleTargetsField

Clusters = Annotated[int, Field(ge=1, le=10_000)]


class CMTLParams(Params):
    """Parameters of clustered multi-task learning."""

    GRIDS: ClassVar = {"gamma": "grid", "n_clusters": "clusters_grid"}

    gamma: Gamma = Field(
        10.0,
        title="Regularisation gamma",
        description="Weight ε_W of the squared distances of functions within clusters, in units of "
        "the mean variance of a column. Used if 'selection' is 'given'.",
    )
    n_clusters: Clusters = Field(
        3,
        title="Clusters",
        description="Number of clusters of tasks, at most the number of tasks. 1: all functions "
        "are near their mean. Used if 'selection' is 'given'.",
    )
    between_share: float = Field(
        0.1,
        ge=1e-6,
        le=1.0,
        title="Between clusters",
        description="Weight ε_B of the squared distances between clusters, relative to gamma. "
        "1: clusters make no difference.",
    )
    common_share: float = Field(
        0.1,
        ge=1e-6,
        le=1e6,
        title="Common part",
        description="Weight ε_M of the squared mean of the functions, relative to gamma.",
    )
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Choice of parameters",
        description="'given': use 'gamma' and 'n_clusters'. 'cv': select both from their grids by "
        "cross-validation of the training rows.",
    )
    grid: GammaGrid = (1.0, 10.0, 100.0, 1000.0)
    clusters_grid: Grid[Clusters] = Field(
        (2, 4),
        max_length=100,
        title="Grid of clusters",
        description="Values of 'n_clusters' to try.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    standardise: Columns = "features"
    fit_intercept: Intercepts = True
    scale_targets: ScaleTargetsField = "moderated"
    tolerance: GapTolerance = 1e-5
    max_iter: Iterations = Field(5000, description="Maximum number of steps.")
