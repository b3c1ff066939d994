"""The parameters of the linear mixed model."""

from typing import Literal

from pydantic import Field

from algorithms.baselines.linear.params import Columns
from algorithms.interface.params import Iterations, Params
from algorithms.interface.target_scales import ScaleTargetsField


class MixedModelParams(Params):
    """Parameters of the linear mixed model."""

    random: Literal["intercepts", "slopes"] = Field(
        "slopes",
        title="Random effects",
        description="'intercepts': tasks differ by a constant. 'slopes': they differ by a constant "
        "and by the coefficient of every column.",
    )
    covariance: Literal["shared", "diagonal", "full"] = Field(
        "diagonal",
        title="Covariance of the random effects",
        description="'shared': one variance for all coefficients of columns, and one for the "
        "intercepts. 'diagonal': a variance for each column, and one for all levels of a category. "
        "'full': also correlations, up to 30 columns; for many more tasks than columns.",
    )
    standardise: Columns = "features"
    scale_targets: ScaleTargetsField = "all"
    tolerance: float = Field(
        1e-5,
        ge=1e-12,
        le=0.1,
        title="Tolerance",
        description="Stop once the derivatives of the restricted log-likelihood by the logarithms "
        "of the standard deviations are below this; for classes, whose likelihood is approximate, "
        "below a hundred times this.",
    )
    max_iter: Iterations = Field(500, description="Maximum number of quasi-Newton steps.")
