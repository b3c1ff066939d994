"""The parameters of RMT-PCA."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.families.subspaces.params import SubspaceParams
from algorithms.interface.params import Folds, Grid, Iterations

#: 13 log-spaced couplings: 0.03 is close to PCA per task, 100 is close to common PCA.
DEFAULT_GRID = (0.03, 0.06, 0.12, 0.23, 0.45, 0.9, 1.7, 3.4, 6.7, 13.0, 26.0, 51.0, 100.0)

#: On the relative scale; the middle of the range that works for related tasks with few rows.
DEFAULT_COUPLING = 5.0

#: On the absolute scale λ has the unit of a variance, and variances up to 1e100 are allowed.
Coupling = Annotated[float, Field(ge=0.0, le=1e100)]


class RMTPCAParams(SubspaceParams):
    """Parameters of RMT-PCA."""

    GRIDS: ClassVar = {"lam": "grid"}

    lam: Coupling = Field(
        DEFAULT_COUPLING,
        title="Coupling λ",
        description="Strength of the coupling between the subspaces of the tasks: 0 is PCA per "
        "task, and large values approach one common subspace. Ignored when 'selection' is 'cv'.",
    )
    lam_scale: Literal["relative", "absolute"] = Field(
        "relative",
        title="Scale of λ",
        description="'relative': λ is this number times the mean variance of a feature, "
        "divided by the number of other tasks; useful values are then 0.03 to 100 for any data. "
        "'absolute': λ of equation 4 of the paper.",
    )
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Choice of λ",
        description="'given': use 'lam'. 'cv': choose from 'grid' by cross-validation of the "
        "retained variance ratio on held-out samples, then fit on all samples. The choice is the "
        "coupling nearest to 5 (relative) within one standard error of the best one. With five or "
        "more tasks of ten rows it is reliably better than one common subspace. If the tasks are "
        "known to be related, 'lam' = 5 is as good or better; use 'cv' if that is uncertain. "
        "For unrelated tasks use PCA per task.",
    )
    grid: Grid[Coupling] = Field(
        DEFAULT_GRID,
        max_length=200,
        title="Grid of λ",
        description="Couplings to try when 'selection' is 'cv', on the scale 'lam_scale'.",
    )
    ends: Literal["none", "common", "both"] = Field(
        "both",
        title="Ends of the range",
        description="Whether cross-validation also tries the common subspace (λ = ∞), or that "
        "and PCA per task (λ = 0).",
    )
    n_folds: Folds = Field(
        2, description="Parts into which the samples of each task are split for cross-validation."
    )
    starts: Literal["single", "many"] = Field(
        "single",
        title="Starting points",
        description="The objective has local optima. 'single': optimise from the best of three "
        "informed starting points; misses the best known optimum in 1 to 3 % of random problems, "
        "by up to 2 % of the objective. 'many': optimise from ten starting points (three "
        "informed, two from block-wise sweeps, five random) and keep the best result.",
    )
    max_iter: Iterations = Field(
        200, description="Maximum number of Newton iterations per starting point."
    )
    rtol: float = Field(
        5e-9,
        ge=1e-13,
        le=1e-2,
        title="Tolerance",
        description="Stop when the gradient of every task is below this fraction of the task's "
        "total variance plus its coupling.",
    )
