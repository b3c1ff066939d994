"""Parameters that all discriminant algorithms have."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Folds, Grid, Params

Dimension = Annotated[int, Field(ge=1, le=100_000)]
Ridge = Annotated[float, Field(ge=0.0, le=1e6)]

#: Of few dimensions to many; more than a task has are the same as all it has.
DEFAULT_D_GRID = (1, 2, 4, 8, 16, 32, 64)
#: In units of the mean variance of a feature. Wide tasks of few rows want the upper end: their
#: variance lies in few directions, so that the mean over all features is small.
DEFAULT_GAMMA_GRID = (0.01, 0.1, 1.0, 10.0)


class ProjectionParams(Params):
    """Parameters of a projection with a classifier in the projected space."""

    GRIDS: ClassVar = {"d": "d_grid"}

    d: Dimension = Field(
        2,
        title="Dimensions",
        description="Dimension of the projected space. Of c classes at most c - 1 directions "
        "tell something. Lowered, with a warning, for a task that has fewer dimensions.",
    )
    standardise: Literal["center", "scale", "features"] = Field(
        "scale",
        title="Standardisation",
        description="What is done to each task before. 'center': its mean is taken off. 'scale': "
        "it is divided by one number as well, so that its total variance is 1; what tasks share "
        "then does not hang on their units. 'features': each column is divided by its own "
        "standard deviation.",
    )
    classifier: Literal["nearest-neighbour", "nearest-centroid"] = Field(
        "nearest-neighbour",
        title="Classifier",
        description="In the projected space: the label of the nearest training row, or of the "
        "nearest class mean. Ties go to the nearer one before projection, then to the label that "
        "sorts first.",
    )
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Choice of parameters",
        description="'given': take the parameters as they are. 'cv': choose those that have a "
        "grid by the error of stratified cross-validation inside the training rows, then fit on "
        "all of them.",
    )
    n_folds: Folds = Field(
        3,
        description="Folds of the cross-validation. A class of fewer rows is in as many folds "
        "as it has rows; a class of one row is never held out.",
    )
    d_grid: Grid[Dimension] = Field(
        DEFAULT_D_GRID,
        max_length=100,
        title="Grid of dimensions",
        description="Dimensions to try when 'selection' is 'cv'.",
    )


class RidgeParams(ProjectionParams):
    """Parameters of a projection whose total scatter is shrunk towards a sphere."""

    GRIDS: ClassVar = {"d": "d_grid", "gamma": "gamma_grid"}

    gamma: Ridge = Field(
        0.1,
        title="Shrinkage gamma",
        description="gamma·tr(S_t)/n_features is added to the diagonal of the total scatter S_t. 0 "
        "is the plain method, which with few rows fits noise; a large value looks at the between-"
        "class scatter alone.",
    )
    gamma_grid: Grid[Ridge] = Field(
        DEFAULT_GAMMA_GRID,
        max_length=100,
        title="Grid of gamma",
        description="Shrinkages to try when 'selection' is 'cv'.",
    )
