"""Common parameters of all latent variable models."""

from typing import Literal

from pydantic import Field

from algorithms.interface.params import Iterations, Params


class LatentParams(Params):
    """Parameters of a Gaussian-process latent variable model."""

    L: int = Field(
        10,
        ge=1,
        le=1000,
        title="Latent dimensions L",
        description="Dimension of the latent space. If the rank of the rows is smaller, L is "
        "lowered to it with a warning.",
    )
    r: int = Field(
        40,
        ge=1,
        le=2000,
        title="Active rows r",
        description="Number of rows of each task that the Gaussian process keeps, selected by the "
        "informative vector machine; all rows if a task has fewer. More rows are better and "
        "slower: the cost of a step is O(r³).",
    )
    kernel: Literal["rbf", "linear"] = Field(
        "rbf",
        title="Covariance function",
        description="'rbf': a·exp(-g/2 ‖x - x'‖²). 'linear': a·xᵀx', which is probabilistic PCA.",
    )
    projection: Literal["robust", "nll"] = Field(
        "robust",
        title="Projection of a row",
        description="'robust': each row has additional noise, at its most likely value; it "
        "reconstructs better. 'nll': the most likely latent under the noise of the model, started "
        "from the robust one; it classified faces under difficult lighting better.",
    )
    floor: float = Field(
        0.01,
        ge=1e-8,
        le=10.0,
        title="Noise floor",
        description="Lower bound of the noise variance, for data of unit variance. It keeps "
        "covariances regular and prevents overfitting of the active rows.",
    )
    n_init: int = Field(
        1,
        ge=1,
        le=100,
        title="Starts",
        description="Number of optimisations of each latent variable model: the first starts at "
        "the principal components, the others at random points around them. The best is used.",
    )
    max_iter: Iterations = Field(
        50_000,
        description="Maximum number of steps of each optimisation. A low noise floor needs "
        "thousands of steps.",
    )
    tolerance: float = Field(
        1e-4,
        ge=1e-12,
        le=1.0,
        title="Tolerance",
        description="An optimisation stops when the largest entry of the gradient is below this, "
        "or when the expected decrease of the objective in the next 1,000 steps is, extrapolated "
        "from the last 100. Both are divided by the number of values in the active rows.",
    )
