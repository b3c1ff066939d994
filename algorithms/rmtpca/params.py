"""The parameters of RMT-PCA."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from algorithms.interface.params import Folds, Grid, Iterations
from algorithms.subspaces.params import SubspaceParams

#: Thirteen couplings, evenly spaced in logarithm: 0.03 hardly couples, 100 is nearly C-PCA.
DEFAULT_GRID = (0.03, 0.06, 0.12, 0.23, 0.45, 0.9, 1.7, 3.4, 6.7, 13.0, 26.0, 51.0, 100.0)

#: On the relative scale. In the middle of what is good for related tasks of few rows.
DEFAULT_COUPLING = 5.0

#: On the absolute scale λ has the units of a variance, which goes up to 1e100.
Coupling = Annotated[float, Field(ge=0.0, le=1e100)]


class RMTPCAParams(SubspaceParams):
    """Parameters of RMT-PCA."""

    GRIDS: ClassVar = {"lam": "grid"}

    lam: Coupling = Field(
        DEFAULT_COUPLING,
        title="Coupling λ",
        description="How strongly the subspaces of the tasks are drawn together: 0 is PCA per "
        "task, a large value one common subspace. Not used when 'selection' is 'cv'.",
    )
    lam_scale: Literal["relative", "absolute"] = Field(
        "relative",
        title="Scale of λ",
        description="'relative': the coupling is the given number times the mean variance of a "
        "feature, divided by the number of other tasks; good values then lie in 0.03 to 100 "
        "for any data. 'absolute': λ of the paper's equation 4.",
    )
    selection: Literal["given", "cv"] = Field(
        "given",
        title="Choice of λ",
        description="'given': take 'lam'. 'cv': choose from 'grid' by cross-validation of the "
        "retained variance ratio on held-out samples, then fit on all. Taken is the coupling "
        "nearest to 5 (relative) that is within one standard error of the best one. From some five "
        "tasks of ten rows on it beats one common subspace reliably. For tasks known to be related "
        "'lam' = 5 is as good or better; the choice pays where they may be related less or more, "
        "and unrelated tasks want PCA per task, so compare.",
    )
    grid: Grid[Coupling] = Field(
        DEFAULT_GRID,
        max_length=200,
        title="Grid of λ",
        description="Couplings to try when 'selection' is 'cv', on the scale 'lam_scale'.",
    )
    ends: Literal["none", "common", "both"] = Field(
        "both",
        title="Ends of the grid",
        description="Whether cross-validation also tries the common subspace (λ = ∞), or that "
        "and PCA per task (λ = 0).",
    )
    n_folds: Folds = Field(
        2, description="Parts into which the samples of each task are split for cross-validation."
    )
    starts: Literal["single", "many"] = Field(
        "single",
        title="Starts",
        description="The objective has local optima. 'single': climb from the best of three "
        "good starts; misses the best known optimum in 1 to 3 % of random problems, by up to "
        "2 % of the objective. 'many' (quality mode): climb from ten starts, three good, two "
        "by block-wise sweeps, five random, and keep the best.",
    )
    max_iter: Iterations = Field(200, description="Most Newton iterations from one start.")
    rtol: float = Field(
        5e-9,
        ge=1e-13,
        le=1e-2,
        title="Tolerance",
        description="Stop when the gradient of every task is below this fraction of the task's "
        "total variance plus coupling.",
    )
