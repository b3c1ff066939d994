"""Common parameters of all discriminant algorithms."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Folds, Grid, Params

Dimension = Annotated[int, Field(ge=1, le=100_000)]
Ridge = Annotated[float, Field(ge=0.0, le=1e6)]

#: Dimensions; more dimensions than a task has are the same as all of them.
DEFAULT_D_GRID = (1, 2, 4, 8, 16, 32, 64)
#: In units of the mean variance of a feature. Tasks with many features and few rows need large
#: values, because their variance is in few directions and the mean over all features is small.
DEFAULT_GAMMA_GRID = (0.01, 0.1, 1.0, 10.0)


class ProjectionParams(Params):
    """Parameters of a projection with a classifier in the projected space."""

    GRIDS: ClassVar = {"d": "d_grid"}

    d: Dimension = Field(
        2,
        title="Dimensions",
        description="Dimension of the projected space. At most c - 1 directions separate c "
        "classes. Lowered with a warning for a task that has fewer dimensions.",
    )
    standardise: Literal["center", "scale", "features"] = Field(
        "scale",
        title="Standardisation",
        description="Standardisation of each task. 'center': subtract the mean. 'scale': also "
        "divide the task by one number, so that its total variance is 1 and results do not depend "
        "on units. 'features': divide each column by its standard deviation.",
    )
    classifier: Literal["nearest-neighbour", "nearest-centroid"] = Field(
        "nearest-neighbour",
        title="Classifier",
        description="Classifier in the projected space: the label of the nearest training row, or "
        "of the nearest class mean. Among equally near ones, the nearest before the "
        "projection counts, then the label that sorts first.",
    )
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Selection of parameters",
        description="'given': use the given parameters. 'cv': select the parameters that have a "
        "grid by cross-validation of the training rows, then fit on all of them.",
    )
    n_folds: Folds = Field(
        3,
        description="Number of folds of the cross-validation. A class with one row is never held "
        "out.",
    )
    d_grid: Grid[Dimension] = Field(
        DEFAULT_D_GRID,
        max_length=100,
        title="Grid of dimensions",
        description="Values of 'd' to try if 'selection' is 'cv'.",
    )


class ScatterRidgeParams(ProjectionParams):
    """Parameters of a projection with a ridge on the total scatter."""

    GRIDS: ClassVar = {"d": "d_grid", "gamma": "gamma_grid"}

    gamma: Ridge = Field(
        0.1,
        title="Shrinkage gamma",
        description="gamma·tr(S_t)/n_features is added to the diagonal of the total scatter S_t. "
        "0: no shrinkage, which overfits with few rows. With a large value only the between-class "
        "scatter matters.",
    )
    gamma_grid: Grid[Ridge] = Field(
        DEFAULT_GAMMA_GRID,
        max_length=100,
        title="Grid of gamma",
        description="Values of 'gamma' to try if 'selection' is 'cv'.",
    )
