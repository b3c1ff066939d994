"""One Gaussian-process latent variable model: rows in, latents of active rows and θ out.

    min  L(X_I, θ) = (D r/2) ln 2π + (D/2) ln|K| + ½ tr(K⁻¹ Y_I Y_Iᵀ)   over X_I, θ   (eq. 10)

X starts at the principal components, I is chosen there, and one descent goes over X_I and θ
together; the other rows are projected afterwards. Cost of a step: O(r³ + r² min(r, D)).

Reference: Lawrence, *Probabilistic Non-linear Principal Component Analysis with Gaussian Process
Latent Variable Models*, JMLR 2005, https://jmlr.org/papers/v6/lawrence05a.html
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task
from algorithms.interface.trace import LoopState, Trace
from algorithms.latent.objective import LatentObjective, pack, unpack
from algorithms.latent.params import LatentParams
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

Array = NDArray[np.float64]

#: Standard deviation of a restart about the principal components, whose mean square norm is 1.
RESTART_SPREAD = 0.3
#: Rows projected in one step of the trace, or at once for a caller.
BLOCK = 2000
#: First word of the names of loops that project rows.
PROJECTION = "project"
#: Singular values below this part of the largest are rounding.
RANK_RTOL = 1e-10
#: Mean variances outside lose digits to overflow or underflow when they are squared.
SCALE_RANGE = (1e-100, 1e100)


@dataclass(frozen=True, slots=True, eq=False)
class LatentGP:
    """A latent variable model of active rows.

    Parameters
    ----------
    theta : (3,)
    X : (r, L)
    Y : (r, D)
        The active rows, centred and scaled, the most informative first.
    value
        L at the end.
    """

    theta: Array
    X: Array
    Y: Array
    value: float

    def predictor(self, params: LatentParams) -> Predictor:
        """Return the process that has seen the active rows."""
        return predictor(params.kernel, self.theta, self.X, self.Y, floor=params.floor)


def centred_rows(task: Task) -> tuple[Array, Array]:
    """Return the rows of a task about their mean, zero in flat columns, and that mean."""
    return centre_columns(task.X), column_means(task.X)


def row_scale(Y: Array, *, task: str) -> float:
    """Return the root of the mean variance of the columns of centred rows.

    Raises
    ------
    InvalidData
        The rows are all alike, or too large or small to compute with.
    """
    largest = float(np.abs(Y).max())
    low, high = SCALE_RANGE
    if not low <= largest <= high:
        what = "has rows that are all alike" if largest == 0 else f"has values up to {largest:.3g}"
        raise InvalidData(
            f"task '{task}' {what} about their mean; a latent variable model needs a spread of "
            f"{low:g} to {high:g} in the rows it is learned from, so rescale them",
            task=task,
        )
    return largest * float(np.sqrt(np.mean((Y / largest) ** 2)))


def principal_latents(Y: Array, *, L: int) -> Array:
    """Return the L leading principal components of centred rows, or all there are.

    Scaled by one number to mean square norm 1, at which θ = 0 is a good start.

    Parameters
    ----------
    Y : (n, D)

    Returns
    -------
    (n, min(L, rank))
    """
    # of many rows, the triangle has the same right vectors and is small
    R = np.linalg.qr(Y, mode="r") if len(Y) > Y.shape[1] else Y
    _, values, right = np.linalg.svd(R, full_matrices=False)
    L = min(L, int(np.count_nonzero(values > RANK_RTOL * values[0])))
    X = Y @ fix_signs(right[:L]).T
    return np.asarray(X / np.sqrt(np.mean(np.sum(X**2, axis=1))))


def fit_latent_gp(
    Y: Array, params: LatentParams, *, trace: Trace, loop: str, rng: np.random.Generator
) -> LatentGP:
    """Return the latent variable model of centred and scaled rows Y (n, D); n_init loops."""
    X = principal_latents(Y, L=params.L)
    drawn = [RESTART_SPREAD * rng.standard_normal(X.shape) for _ in range(params.n_init - 1)]
    starts = [X, *(X + noise for noise in drawn)]
    found = [
        _descend(Y, start, params, trace=trace, loop=loop if i == 1 else f"{loop}, start {i}")
        for i, start in enumerate(starts, start=1)
    ]
    return min(found, key=lambda gp: gp.value)


def _descend(Y: Array, X: Array, params: LatentParams, *, trace: Trace, loop: str) -> LatentGP:
    """Return the model at the local minimum below latents X of all rows and θ = 0."""
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
    """Latents X (n, L) and f (n,) of all rows, of which the first ``n_done`` have settled."""

    X: Array
    values: Array
    n_done: int


def project_rows_traced(
    process: Predictor, Y: Array, *, is_robust: bool, trace: Trace, loop: str
) -> Array:
    """Return the latents (n, L) of centred and scaled rows, block by block under the trace.

    The objective is the sum of f over all rows, at their start where they have not settled yet.
    """
    X, values = initial_latents(process, Y, is_robust=is_robust)
    n_blocks = -(-len(Y) // BLOCK)

    def step(state: _Projection) -> _Projection:
        rows = slice(state.n_done, state.n_done + BLOCK)
        moved, values = state.X.copy(), state.values.copy()
        moved[rows], values[rows] = _settled(
            process, Y[rows], state.X[rows], state.values[rows], is_robust=is_robust
        )
        return _state(moved, values, min(state.n_done + BLOCK, len(Y)))

    start = _state(X, values, 0)
    return trace.run(loop, step, start, max_iter=n_blocks, tolerance=0.0).X


def project(process: Predictor, Y: Array, *, is_robust: bool) -> Array:
    """Return the latents (n, L) of centred and scaled rows (n, D), NaN where a value is missing."""
    X = np.full((len(Y), process.active.shape[1]), np.nan)
    for first in range(0, len(Y), BLOCK):
        rows = slice(first, first + BLOCK)
        start, values = initial_latents(process, Y[rows], is_robust=is_robust)
        X[rows], _ = _settled(process, Y[rows], start, values, is_robust=is_robust)
    return X


def _settled(
    process: Predictor, Y: Array, X: Array, values: Array, *, is_robust: bool
) -> tuple[Array, Array]:
    """Return latents and f: the robust descent first, then where wanted the one of the model's f.

    No row ends above its start: one that would is let down from there without the detour.
    """
    if is_robust:
        return refine_latents(process, Y, X, is_robust=True)
    settled, _ = refine_latents(process, Y, X, is_robust=True, tolerance=ROBUST_TOLERANCE)
    settled, found = refine_latents(process, Y, settled, is_robust=False)
    worse = found > values
    if worse.any():
        settled[worse], found[worse] = refine_latents(process, Y[worse], X[worse], is_robust=False)
    return settled, found


def _state(X: Array, values: Array, n_done: int) -> _Projection:
    left = 1.0 - n_done / len(X)
    return _Projection(
        objective=float(values.sum()), residual=left, X=X, values=values, n_done=n_done
    )
