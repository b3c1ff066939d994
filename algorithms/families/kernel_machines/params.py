"""Common parameters of all kernel machines."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Folds, Grid, Iterations, Params
from algorithms.interface.target_scales import ScaleTargets, ScaleTargetsField

Loss = Literal[
    "auto", "squared", "huber", "hinge", "squared-hinge", "logistic", "epsilon-insensitive"
]
Strength = Annotated[float, Field(ge=1e-6, le=1e6)]

#: Grid of C, with logarithmic steps.
DEFAULT_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)


class KernelParams(Params):
    """Parameters of the input kernel."""

    kernel: Literal["linear", "rbf", "laplacian", "polynomial", "precomputed"] = Field(
        "rbf",
        title="Kernel",
        description="'linear': x·z. 'rbf': exp(-gamma ‖x - z‖²). 'laplacian': "
        "exp(-gamma ‖x - z‖₁). 'polynomial': (gamma x·z + coef0)^degree. 'precomputed': each row "
        "has the kernel values with all training rows, in the order of the tasks' names; rows to "
        "predict need the same columns.",
    )
    gamma: float = Field(
        1.0,
        gt=0.0,
        le=1e9,
        title="Width gamma",
        description="gamma of the kernels 'rbf', 'laplacian' and 'polynomial'. On the relative "
        "scale, its unit is 1 over the total variance of the features (for 'laplacian', 1 over the "
        "sum of their standard deviations).",
    )
    degree: int = Field(
        3, ge=1, le=20, title="Degree", description="Degree of the polynomial kernel."
    )
    coef0: float = Field(
        1.0,
        ge=0.0,
        le=1e6,
        title="Constant of the polynomial",
        description="Constant that is added to gamma x·z in the polynomial kernel.",
    )
    standardise: Literal["none", "center", "features"] = Field(
        "features",
        title="Standardisation",
        description="Standardisation of the rows of all tasks together. 'center': subtract the "
        "mean. 'features': also divide each column by its standard deviation.",
    )
    intercept: float = Field(
        1.0,
        ge=0.0,
        le=1e6,
        title="Scale of the intercept",
        description="Value of a constant feature, whose square is added to the kernel. For class "
        "labels only; numeric targets are centred instead. 0: no intercept, as in the paper.",
    )
    nystrom: int = Field(
        0,
        ge=0,
        le=100_000,
        title="Landmarks",
        description="Number of random training rows of a Nyström approximation, which needs no "
        "kernel matrix of all rows. 0: the exact kernel.",
    )
    indefinite: Literal["refuse", "shift"] = Field(
        "refuse",
        title="Indefinite kernel",
        description="What to do if a precomputed kernel has a negative eigenvalue. 'refuse': fail. "
        "'shift': add its absolute value to the diagonal (of training rows only).",
    )
    memory_gb: float = Field(
        8.0,
        ge=0.001,
        le=10_000.0,
        title="Memory bound",
        description="Maximum size of the kernel matrix in gigabytes; a job that needs more is "
        "rejected. A linear kernel needs no such matrix; with landmarks it has one column per "
        "landmark.",
    )


class MachineParams(KernelParams):
    """Parameters of the loss, the strength C, its selection, and stopping."""

    GRIDS: ClassVar = {"C": "grid"}
    ALTERNATIVES: ClassVar = {"kernel": ("rbf", "linear")}

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
        description="Errors up to ε have loss 0 under 'epsilon-insensitive'. On the relative "
        "scale, its unit is the scale of the targets.",
    )
    delta: float = Field(
        1.0,
        gt=0.0,
        le=1e6,
        title="Threshold δ",
        description="Errors above δ count linearly under the loss 'huber', which limits the "
        "influence of outliers. On the relative scale, its unit is the scale of the targets.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none",
        title="Class weights",
        description="'balanced': the losses of each class of a task have the same total weight.",
    )
    C: Strength = Field(
        1.0,
        title="Strength C",
        description="Weight of the losses relative to the penalty, as in a support vector machine. "
        "Ignored if 'selection' is 'cv'.",
    )
    scale: Literal["relative", "absolute"] = Field(
        "relative",
        title="Scale",
        description="'relative': the kernel is divided by its mean diagonal over the training "
        "rows, numeric targets are scaled by 'scale_targets', and the other parameters are set "
        "such that C means about the same as for a single task. 'absolute': the paper's formulas "
        "without any scaling.",
    )
    center_targets: Literal["task", "none"] = Field(
        "task",
        title="Centre of numeric targets",
        description="'task': the mean of each task is subtracted from its targets and added to its "
        "predictions.",
    )
    scale_targets: ScaleTargetsField = "moderated"
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Choice of C",
        description="'given': use C. 'cv': select C from 'grid' by cross-validation of the "
        "training rows (error rate, or mean squared error), then fit on all of them.",
    )
    grid: Grid[Strength] = Field(
        DEFAULT_GRID,
        max_length=200,
        title="Grid of C",
        description="Values of C to try if 'selection' is 'cv'.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    max_iter: Iterations = Field(
        300, description="Maximum number of passes over all examples, or of outer steps."
    )
    tolerance: float = Field(
        1e-3,
        ge=1e-12,
        le=0.5,
        title="Duality gap",
        description="Stop once the relative duality gap is below this.",
    )

    @property
    def target_scaling(self) -> ScaleTargets:
        """Scaling of numeric targets; "none" on the absolute scale."""
        return self.scale_targets if self.scale == "relative" else "none"


class PenaltyParams(MachineParams):
    """Parameters of machines that learn the output kernel under a penalty on its entries."""

    penalty: Literal["power", "exp", "cosh"] = Field(
        "power",
        title="Penalty of the output kernel",
        description="'power': Σ|Θ|^p with p = 2k/(2k - 1). 'exp': Θ = exp(G/2λ), which relates "
        "every task to every other. 'cosh': Θ = sinh(G/2λ), between 'power' and 'exp'.",
    )
    k: int = Field(
        1,
        ge=1,
        le=10,
        title="Power k",
        description="1: p = 2, 2: p = 4/3, 4: p = 8/7. A larger k makes relations sparser, but "
        "does not improve scores.",
    )
    lam: float = Field(
        1.0,
        ge=1e-6,
        le=1e6,
        title="Penalty weight λ",
        description="Used on the scale 'absolute' only. On the relative scale it follows from C, "
        "because the solution depends on one combination of both.",
    )
    v_scale: Literal["half", "table", "full"] = Field(
        "half",
        title="Scale of the penalty",
        description="On the scale 'absolute': V is ½Σ|Θ|^p ('half', Theorem 3), Σ|Θ|^p/p "
        "('table', Table 1) or Σ|Θ|^p ('full', the text).",
    )


#: Parameters that baselines copy, so that they solve the same problem.
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

#: Parameters of the penalty.
PENALTY_PARAMS = ("penalty", "k", "lam", "v_scale")
