"""Fit of a Gaussian-process latent variable model: latents of the active rows, and θ.

    min  L(X_I, θ) = (D r/2) ln 2π + (D/2) ln|K| + ½ tr(K⁻¹ Y_I Y_Iᵀ)   over X_I, θ   (eq. 10)

The active rows I are the r most informative ones. X starts at the principal components, for which
the active rows are selected. L-BFGS then optimises X_I and θ together, and the latents of the other
rows are computed with both fixed. Cost of a step: O(r³ + r² min(r, D)).

Reference: Lawrence, *Probabilistic Non-linear Principal Component Analysis with Gaussian Process
Latent Variable Models*, JMLR 2005, https://jmlr.org/papers/v6/lawrence05a.html
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from algorithms.families.latent.objective import LatentObjective, pack, unpack
from algorithms.families.latent.params import LatentParams
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import centre_columns, column_means
from algorithms.numerics.eigen import fix_signs
from algorithms.numerics.gp_covariances import COVARIANCES
from algorithms.numerics.gp_terms import compress_rows, negative_log_likelihood
from algorithms.numerics.informative_rows import informative_rows
from algorithms.numerics.latent_projection import (
    ROBUST_TOLERANCE,
    Predictor,
    initial_latents,
    predictor,
    refine_latents,
)
from algorithms.solvers.lbfgs import minimise

#: Standard deviation of restarts around the principal components, whose mean square norm is 1.
RESTART_SPREAD = 0.3
#: Number of rows that are projected in one step.
BLOCK = 2000
#: Singular values below this, relative to the largest, count as 0.
RANK_RTOL = 1e-10
#: Range of the largest deviation from the mean; squares outside may overflow or underflow.
SCALE_RANGE = (1e-100, 1e100)


@dataclass(frozen=True, slots=True, eq=False)
class LatentGP:
    """A fitted latent variable model.

    Parameters
    ----------
    theta : (3,)
    X : (r, L)
        Latents of the active rows.
    Y : (r, D)
        The active rows, centred and scaled, with the most informative first.
    value
        Value of the objective L.
    """

    theta: Array
    X: Array
    Y: Array
    value: float

    def predictor(self, params: LatentParams) -> Predictor:
        """Return the Gaussian process conditioned on the active rows."""
        return predictor(params.kernel, self.theta, self.X, self.Y, floor=params.floor)


def centred_rows(task: Task) -> tuple[Array, Array]:
    """Return the centred rows of a task, with zeros in constant columns, and their mean."""
    return centre_columns(task.X), column_means(task.X)


def row_scale(Y: Array, *, task: str) -> float:
    """Return the root mean square of centred rows.

    Raises
    ------
    InvalidData
        All rows are equal, or their values are too large or too small.
    """
    largest = float(np.abs(Y).max())
    low, high = SCALE_RANGE
    if not low <= largest <= high:
        if largest == 0:
            raise InvalidData(
                f"all rows of task '{task}' are equal; a latent variable model needs rows that "
                "differ",
                task=task,
            )
        raise InvalidData(
            f"rows of task '{task}' differ from their mean by up to {largest:.3g}; a latent "
            f"variable model needs differences from {low:g} to {high:g}: rescale the rows",
            task=task,
        )
    return largest * float(np.sqrt(np.mean((Y / largest) ** 2)))


def principal_latents(Y: Array, *, L: int) -> Array:
    """Return the L leading principal components of centred rows, or all if there are fewer.

    They are scaled by one number to mean square norm 1, for which θ = 0 is a good start.

    Parameters
    ----------
    Y : (n, D)

    Returns
    -------
    (n, min(L, rank))
    """
    # for many rows, the small triangular factor has the same right singular vectors
    R = np.linalg.qr(Y, mode="r") if len(Y) > Y.shape[1] else Y
    _, values, right = np.linalg.svd(R, full_matrices=False)
    L = min(L, int(np.count_nonzero(values > RANK_RTOL * values[0])))
    X = Y @ fix_signs(right[:L]).T
    return np.asarray(X / np.sqrt(np.mean(np.sum(X**2, axis=1))))


def fit_latent_gp(
    Y: Array, params: LatentParams, *, trace: Trace, loop: str, rng: np.random.Generator
) -> LatentGP:
    """Return the latent variable model of centred and scaled rows Y (n, D), in n_init loops.

    Parameters
    ----------
    loop
        Name of the first loop in the trace; the others add the number of their start.
    """
    X = principal_latents(Y, L=params.L)
    noises = [RESTART_SPREAD * rng.standard_normal(X.shape) for _ in range(params.n_init - 1)]
    starts = [X, *(X + noise for noise in noises)]
    fitted = [
        _optimise(Y, start, params, trace=trace, loop=loop if i == 1 else f"{loop}, start {i}")
        for i, start in enumerate(starts, start=1)
    ]
    return min(fitted, key=lambda gp: gp.value)


def _optimise(Y: Array, X: Array, params: LatentParams, *, trace: Trace, loop: str) -> LatentGP:
    """Return the model at a local minimum, started from latents X of all rows and θ = 0."""
    theta, D = np.zeros(3), Y.shape[1]
    covariance = COVARIANCES[params.kernel]
    active = informative_rows(covariance, X, theta, noise=1.0 + params.floor, r=params.r)
    terms = partial(negative_log_likelihood, Y=compress_rows(Y[active]), n_columns=D)
    objective = LatentObjective(covariance, terms, X.shape[1], params.floor)
    end = minimise(
        objective,
        pack(theta, X[active]),
        trace=trace,
        loop=loop,
        max_iter=params.max_iter,
        tolerance=params.tolerance,
        scale=D * len(active),
    )
    theta, latents = unpack(end.z, n_latents=X.shape[1])
    return LatentGP(theta, latents, Y[active], end.objective)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Projection(LoopState):
    """Latents X (n, L) and f (n,) of all rows; the first ``n_done`` rows are optimised."""

    X: Array
    values: Array
    n_done: int


def project_rows_traced(
    process: Predictor, Y: Array, *, is_robust: bool, trace: Trace, loop: str
) -> Array:
    """Return the latents (n, L) of centred and scaled rows, computed in a loop over blocks of rows.

    The objective of the loop is the sum over all rows of the objective f of a projection
    (:mod:`algorithms.numerics.latent_projection`); rows that are not optimised yet count with their
    initial value.
    """
    X, values = initial_latents(process, Y, is_robust=is_robust)
    n_blocks = -(-len(Y) // BLOCK)

    def step(state: _Projection) -> _Projection:
        rows = slice(state.n_done, state.n_done + BLOCK)
        X, values = state.X.copy(), state.values.copy()
        X[rows], values[rows] = _refined(
            process, Y[rows], state.X[rows], state.values[rows], is_robust=is_robust
        )
        return _state(X, values, min(state.n_done + BLOCK, len(Y)))

    start = _state(X, values, 0)
    return trace.run(loop, step, start, max_iter=n_blocks, tolerance=0.0).X


def project(process: Predictor, Y: Array, *, is_robust: bool) -> Array:
    """Return the latents (n, L) of centred and scaled rows (n, D); NaN marks missing values."""
    X = np.full((len(Y), process.active.shape[1]), np.nan)
    for first in range(0, len(Y), BLOCK):
        rows = slice(first, first + BLOCK)
        start, values = initial_latents(process, Y[rows], is_robust=is_robust)
        X[rows], _ = _refined(process, Y[rows], start, values, is_robust=is_robust)
    return X


def _refined(
    process: Predictor, Y: Array, X: Array, values: Array, *, is_robust: bool
) -> tuple[Array, Array]:
    """Return the latents that minimise f, and f there; started from X, where f is ``values``.

    For f and its robust form see :mod:`algorithms.numerics.latent_projection`. If f itself is
    minimised, this starts at the minimum of the robust form. If f is then larger than at X for some
    rows, their latents are optimised again, started from X.
    """
    if is_robust:
        return refine_latents(process, Y, X, is_robust=True)
    refined, _ = refine_latents(process, Y, X, is_robust=True, tolerance=ROBUST_TOLERANCE)
    refined, f = refine_latents(process, Y, refined, is_robust=False)
    worse = f > values
    if worse.any():
        refined[worse], f[worse] = refine_latents(process, Y[worse], X[worse], is_robust=False)
    return refined, f


def _state(X: Array, values: Array, n_done: int) -> _Projection:
    left = 1.0 - n_done / len(X)
    return _Projection(
        objective=float(values.sum()), residual=left, X=X, values=values, n_done=n_done
    )
