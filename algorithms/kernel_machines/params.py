"""Parameters that every kernel machine of several tasks has."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Folds, Grid, Iterations, Params
from algorithms.interface.target_scales import ScaleTargets, ScaleTargetsField

Loss = Literal[
    "auto", "squared", "huber", "hinge", "squared-hinge", "logistic", "epsilon-insensitive"
]
Strength = Annotated[float, Field(ge=1e-6, le=1e6)]

#: Evenly spaced in logarithm.
DEFAULT_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)


class KernelParams(Params):
    """How rows are compared."""

    kernel: Literal["linear", "rbf", "laplacian", "polynomial", "precomputed"] = Field(
        "rbf",
        title="Kernel",
        description="'linear': x·z. 'rbf': exp(-gamma ‖x - z‖²). 'laplacian': "
        "exp(-gamma ‖x - z‖₁). 'polynomial': (gamma x·z + coef0)^degree. 'precomputed': the row of "
        "an example holds its "
        "kernel values with all training rows, those of the tasks stacked in the order of the "
        "tasks' names; rows to predict hold the same columns.",
    )
    gamma: float = Field(
        1.0,
        gt=0.0,
        le=1e9,
        title="Width gamma",
        description="Of the kernels 'rbf', 'laplacian' and 'polynomial'. On the relative scale in "
        "units of 1 over the total variance of the features (for 'laplacian' 1 over the sum of "
        "their standard deviations).",
    )
    degree: int = Field(
        3, ge=1, le=20, title="Degree", description="Degree of the polynomial kernel."
    )
    coef0: float = Field(
        1.0,
        ge=0.0,
        le=1e6,
        title="Constant of the polynomial",
        description="Added to gamma x·z before the power.",
    )
    standardise: Literal["none", "center", "features"] = Field(
        "features",
        title="Standardisation",
        description="What is done to the rows of all tasks together before. 'center': their mean "
        "is taken off. 'features': each column is divided by its standard deviation as well.",
    )
    intercept: float = Field(
        1.0,
        ge=0.0,
        le=1e6,
        title="Scale of the intercept",
        description="The kernel plus this number squared: a constant feature. For class labels "
        "only; numeric targets are centred instead. 0: none, as in the paper.",
    )
    nystrom: int = Field(
        0,
        ge=0,
        le=100_000,
        title="Landmarks",
        description="0: the exact kernel. Otherwise so many random training rows span an "
        "approximation (Nyström), and no matrix of all rows is built.",
    )
    indefinite: Literal["refuse", "shift"] = Field(
        "refuse",
        title="Indefinite kernel",
        description="What to do with a precomputed kernel that has a negative eigenvalue: refuse "
        "it, or add to its diagonal what is missing (for the training rows only).",
    )
    memory_gb: float = Field(
        8.0,
        ge=0.001,
        le=10_000.0,
        title="Memory bound",
        description="Most gigabytes for the matrix of all rows; a job that needs more is refused "
        "beforehand. A linear kernel has no such matrix, landmarks one of as many columns.",
    )


class MachineParams(KernelParams):
    """Loss, strength, selection and stopping."""

    GRIDS: ClassVar = {"C": "grid"}

    loss: Loss = Field(
        "auto",
        title="Loss",
        description="'auto': squared for numbers, hinge for classes. 'squared': ½(y - f)², for "
        "both. 'hinge', 'squared-hinge' (½ its square), 'logistic': for classes. "
        "'huber' (½(y - f)² up to 'delta', linear beyond) and 'epsilon-insensitive': for numbers.",
    )
    epsilon: float = Field(
        0.1,
        ge=0.0,
        le=1e6,
        title="Tube ε",
        description="Errors below it are free under the loss 'epsilon-insensitive'; on the "
        "relative scale in units of the scale of the targets.",
    )
    delta: float = Field(
        1.0,
        gt=0.0,
        le=1e6,
        title="Threshold δ",
        description="Errors from here on count linearly under the loss 'huber', which outliers do "
        "not drag along; on the relative scale in units of the scale of the targets.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none",
        title="Class weights",
        description="'balanced': the losses of each class of a task weigh alike in sum.",
    )
    C: Strength = Field(
        1.0,
        title="Strength C",
        description="Weight of the losses against the penalty, as in a support vector machine; "
        "not used when 'selection' is 'cv'.",
    )
    scale: Literal["relative", "absolute"] = Field(
        "relative",
        title="Scale",
        description="'relative': the kernel is divided by the mean of its diagonal over the "
        "training rows, numbers by 'scale_targets', and the remaining parameters are chosen such "
        "that C means about what it means for a single task. 'absolute': all as in the paper's "
        "formulas, numbers not scaled.",
    )
    center_targets: Literal["task", "none"] = Field(
        "task",
        title="Centre of numeric targets",
        description="'task': the mean of each task is taken off its targets, and added to its "
        "predictions.",
    )
    scale_targets: ScaleTargetsField = "moderated"
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Choice of C",
        description="'given': take C. 'cv': choose from 'grid' by cross-validation inside the "
        "training rows (share of wrong labels, or mean squared error), then fit on all.",
    )
    grid: Grid[Strength] = Field(
        DEFAULT_GRID,
        max_length=200,
        title="Grid of C",
        description="Strengths to try when 'selection' is 'cv'.",
    )
    n_folds: Folds = Field(3, description="Folds of the cross-validation.")
    max_iter: Iterations = Field(300, description="Most passes over all examples, or outer steps.")
    tolerance: float = Field(
        1e-3,
        ge=1e-12,
        le=0.5,
        title="Duality gap",
        description="Stop when the certified gap between objective and dual bound is below this "
        "part of the objective.",
    )

    @property
    def target_scaling(self) -> ScaleTargets:
        """How numbers are scaled: on the absolute scale not at all."""
        return self.scale_targets if self.scale == "relative" else "none"


class PenaltyParams(MachineParams):
    """Parameters of machines whose output kernel is learned under a penalty of its entries."""

    penalty: Literal["power", "exp", "cosh"] = Field(
        "power",
        title="Penalty of the output kernel",
        description="'power': Σ|Θ|^p with p = 2k/(2k - 1). 'exp': Θ = exp(G/2λ), which ties "
        "every task to every other. 'cosh': Θ = sinh(G/2λ), between a power and 'exp'.",
    )
    k: int = Field(
        1,
        ge=1,
        le=10,
        title="Power k",
        description="1: p = 2, 2: p = 4/3, 4: p = 8/7. A larger k gives fewer relations, not "
        "better scores.",
    )
    lam: float = Field(
        1.0,
        ge=1e-6,
        le=1e6,
        title="Penalty weight λ",
        description="On the scale 'absolute' only; on the relative scale it follows from C, since "
        "the two are one parameter in effect.",
    )
    v_scale: Literal["half", "table", "full"] = Field(
        "half",
        title="Scale of the penalty",
        description="On the scale 'absolute': V is ½Σ|Θ|^p ('half', Theorem 3), Σ|Θ|^p/p "
        "('table', Table 1) or Σ|Θ|^p ('full', the text).",
    )


#: Parameters that two machines must have in common to answer the same question.
SHARED_PARAMS = (
    *KernelParams.model_fields,
    "loss",
    "epsilon",
    "delta",
    "class_weight",
    "scale",
    "center_targets",
    "scale_targets",
    "grid",
    "n_folds",
)

#: Those of the penalty.
PENALTY_PARAMS = ("penalty", "k", "lam", "v_scale")
