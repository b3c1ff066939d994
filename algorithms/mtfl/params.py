"""The parameters of multi-task feature learning."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Folds, Grid, Iterations, Params
from algorithms.interface.target_scales import ScaleTargetsField

#: Evenly spaced in logarithm; on the relative scale good values lay between on all data tried.
DEFAULT_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)

Gamma = Annotated[float, Field(ge=1e-12, le=1e12)]


class MTFLParams(Params):
    """Parameters of multi-task feature learning."""

    GRIDS: ClassVar = {"gamma": "grid"}
    INNER_SELECTION: ClassVar = "auto"

    gamma: Gamma = Field(
        0.3,
        title="Regularisation gamma",
        description="How strongly the tasks are held to few common features. Used when "
        "'selection' is 'given'.",
    )
    gamma_scale: Literal["relative", "absolute"] = Field(
        "relative",
        title="Scale of gamma",
        description="'relative': the given number times the weighted mean variance of the rows; "
        "good values then lie in 0.001 to 30. 'absolute': gamma of the paper's equation 7, where "
        "losses are summed.",
    )
    selection: Literal["auto", "given", "loo", "cv"] = Field(
        "auto",
        title="Choice of gamma",
        description="'given': take 'gamma'. 'loo': from 'grid', by the leave-one-out error in "
        "closed form with the features held fixed (square loss). 'cv': from 'grid', by "
        "cross-validation; slower, and honest where few rows choose the features. 'auto': 'loo' "
        "for the square loss with at least 20 rows per column over all tasks, else 'cv'.",
    )
    grid: Grid[Gamma] = Field(
        DEFAULT_GRID,
        max_length=200,
        title="Grid of gamma",
        description="Values to try when gamma is chosen, on the scale 'gamma_scale'.",
    )
    n_folds: Folds = Field(
        3, description="Folds of the cross-validation; each class is spread evenly."
    )
    features: Literal["learned", "selected"] = Field(
        "learned",
        title="Features",
        description="'learned': common features are combinations of columns (D is any matrix). "
        "'selected': they are columns (D is diagonal), a common choice of variables.",
    )
    loss: Literal["auto", "square", "logistic", "hinge"] = Field(
        "auto",
        title="Loss",
        description="'auto': 'square' for numbers, 'logistic' for classes. 'square' on classes "
        "fits ±1. 'hinge' is that of support vector machines. More than two classes in a task "
        "are learned one against the rest.",
    )
    kernel: Literal["linear", "rbf", "polynomial"] = Field(
        "linear",
        title="Kernel",
        description="'linear': functions of the columns. 'rbf', 'polynomial': functions of "
        "similarities to training rows, up to 5000 rows in all; features are then 'learned'.",
    )
    width: float = Field(
        1.0,
        ge=1e-3,
        le=1e3,
        title="Kernel width",
        description="Of the kernel 'rbf', exp(-distance²/(2 n_features width²)).",
    )
    degree: int = Field(
        2,
        ge=1,
        le=10,
        title="Kernel degree",
        description="Of the kernel 'polynomial', (1 + product/n_features)^degree.",
    )
    fit_intercept: bool = Field(
        default=True,
        title="Intercepts",
        description="Whether each task has a constant of its own, outside the penalty.",
    )
    standardise: Literal["none", "features"] = Field(
        "features",
        title="Standardisation",
        description="'features': each column has mean 0 and deviation 1 over the rows of all "
        "tasks, so that units do not decide what is shared. 'none': columns as they are.",
    )
    scale_targets: ScaleTargetsField = "moderated"
    solver: Literal["auto", "variable-projection", "proximal-gradient", "alternation"] = Field(
        "auto",
        title="Solver",
        description="Of the square loss; all reach the same optimum. 'auto': proximal gradient "
        "where every task is well conditioned, else variable projection. 'alternation': the "
        "paper's Algorithm 1, slow. The other losses have one solver, 'auto'.",
    )
    tolerance: float = Field(
        1e-6,
        ge=1e-12,
        le=0.1,
        title="Tolerance",
        description="Stop when the answer is certified to be within this part of the optimum "
        "(relative duality gap).",
    )
    max_iter: Iterations = Field(2000, description="Most iterations of the solver for one gamma.")
