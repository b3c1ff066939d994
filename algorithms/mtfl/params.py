"""The parameters of multi-task feature learning."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Folds, GapTolerance, Grid, Intercepts, Iterations, Params
from algorithms.interface.target_scales import ScaleTargetsField

#: Grid of gamma with logarithmic steps; on the relative scale it covered the best value on all data
#: that were tried.
DEFAULT_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

Gamma = Annotated[float, Field(ge=1e-12, le=1e12)]


class MTFLParams(Params):
    """Parameters of multi-task feature learning."""

    GRIDS: ClassVar = {"gamma": "grid"}
    INNER_SELECTION: ClassVar = "auto"

    gamma: Gamma = Field(
        0.3,
        title="Regularisation gamma",
        description="Regularisation towards few common features. Used if 'selection' is 'given'.",
    )
    gamma_scale: Literal["relative", "absolute"] = Field(
        "relative",
        title="Scale of gamma",
        description="'relative': gamma is multiplied by the weighted mean variance of the rows; "
        "good values are then from 0.001 to 30. 'absolute': gamma of the paper's equation 7, with "
        "summed losses.",
    )
    selection: Literal["auto", "given", "loo", "cv"] = Field(
        "auto",
        title="Choice of gamma",
        description="'given': use 'gamma'. 'loo': select from 'grid' by the leave-one-out error in "
        "closed form with fixed features (square loss). 'cv': select from 'grid' by "
        "cross-validation, which is slower, but unbiased if few rows determine the features. "
        "'auto': 'loo' for the square loss with at least 20 rows per column over all tasks, 'cv' "
        "otherwise.",
    )
    grid: Grid[Gamma] = Field(
        DEFAULT_GRID,
        max_length=200,
        title="Grid of gamma",
        description="Values of gamma to try, on the scale 'gamma_scale'.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    features: Literal["learned", "selected"] = Field(
        "learned",
        title="Features",
        description="'learned': common features are linear combinations of columns (D is any "
        "matrix). 'selected': they are columns (D is diagonal), a common selection of variables.",
    )
    loss: Literal["auto", "square", "logistic", "hinge"] = Field(
        "auto",
        title="Loss",
        description="'auto': 'square' for numbers, 'logistic' for classes. 'square' encodes "
        "classes as ±1. 'hinge': the loss of support vector machines. More than two classes are "
        "trained one against the rest.",
    )
    kernel: Literal["linear", "rbf", "polynomial"] = Field(
        "linear",
        title="Kernel",
        description="'linear': functions of the columns. 'rbf', 'polynomial': functions of kernel "
        "values with training rows, up to 5000 rows in total, with features 'learned' only.",
    )
    width: float = Field(
        1.0,
        ge=1e-3,
        le=1e3,
        title="Kernel width",
        description="Width of the kernel 'rbf', exp(-distance²/(2 n_features width²)).",
    )
    degree: int = Field(
        2,
        ge=1,
        le=10,
        title="Kernel degree",
        description="Degree of the kernel 'polynomial', (1 + product/n_features)^degree.",
    )
    fit_intercept: Intercepts = True
    standardise: Literal["none", "features"] = Field(
        "features",
        title="Standardisation",
        description="'features': each column is scaled to mean 0 and standard deviation 1 over the "
        "rows of all tasks, so that results do not depend on units. 'none': no standardisation.",
    )
    scale_targets: ScaleTargetsField = "moderated"
    solver: Literal["auto", "variable-projection", "admm", "proximal-gradient", "alternation"] = (
        Field(
            "auto",
            title="Solver",
            description="Solver for the square loss; all reach the same optimum. 'auto', 'admm': "
            "the alternating direction method of multipliers. 'alternation': the paper's Algorithm "
            "1, which is slow. 'variable-projection', 'proximal-gradient': former solvers, now the "
            "same as 'admm'. Other losses have one solver, 'auto'.",
        )
    )
    tolerance: GapTolerance = 1e-6
    max_iter: Iterations = Field(
        2000, description="Maximum number of iterations of the solver for one gamma."
    )
