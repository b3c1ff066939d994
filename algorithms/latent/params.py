"""Parameters that all latent variable models have."""

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
        description="Dimension of the latent space. Lowered, with a warning, to the rank of the "
        "rows it is learned from.",
    )
    r: int = Field(
        40,
        ge=1,
        le=2000,
        title="Active rows r",
        description="Rows of each task that the Gaussian process keeps, chosen as an informative "
        "vector machine does; all rows of a task that has fewer. More is better and slower: the "
        "cost of a step grows with r³.",
    )
    kernel: Literal["rbf", "linear"] = Field(
        "rbf",
        title="Covariance function",
        description="'rbf': a·exp(-g/2 ‖x - x'‖²). 'linear': a·xᵀx', which is probabilistic PCA.",
    )
    projection: Literal["robust", "nll"] = Field(
        "robust",
        title="Projection of a row",
        description="'robust': a row may have more noise than the model, at its best value; "
        "reconstructs better. 'nll': from there on to the most likely latent under the model's "
        "own noise; the nearest neighbour is right more often where lighting is hard.",
    )
    floor: float = Field(
        0.01,
        ge=1e-8,
        le=10.0,
        title="Noise floor",
        description="Least noise variance, for data of unit variance. Keeps covariances regular "
        "and active rows from being learned by heart.",
    )
    n_init: int = Field(
        1,
        ge=1,
        le=100,
        title="Starts",
        description="Descents for each latent variable model: the first from the principal "
        "components, the others from there at random distances. The best is kept.",
    )
    max_iter: Iterations = Field(
        50_000,
        description="Most steps of each descent, a limit on time: what ends a descent is its "
        "tolerance. At a low noise floor thousands of steps are needed.",
    )
    tolerance: float = Field(
        1e-4,
        ge=1e-12,
        le=1.0,
        title="Tolerance",
        description="A descent ends when no entry of the gradient, divided by the number of "
        "values in the active rows, is larger; or when 1,000 steps at the rate of the last 100 "
        "would lower the objective, so divided, by less.",
    )
