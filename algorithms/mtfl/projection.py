"""Variable projection: minimise over the root U of D, with the tasks fitted for every U.

    h(U) = min_V Σ_t ‖y_t − X_tUv_t‖² + γ‖U‖²_F‖V‖²

is smooth and equals (7) with D = UUᵀ/tr(UUᵀ); it does not change with the length of U. Its gradient
is −2 ZᵀV + 2γ‖V‖²U. h is not convex, but a stationary point of it is certified by the duality gap
like any other answer. Directions that D leaves are cut while running, and one is put back where
the gap of the full problem says that it is needed.

Reference: Golub, Pereyra, *The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate*, 1973, doi:10.1137/0710036; Poon, Peyré, *Smooth bilevel
programming for sparse regularization*, NeurIPS 2021, arXiv:2106.01429 (for the plain norms).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.mtfl.square import Fitted, SquareProblem, fit_in_metric
from algorithms.numerics import lbfgs

Array = NDArray[np.float64]

#: Exact alternating steps before quasi-Newton steps: they find the scale of D.
N_ALTERNATING = 3
#: Directions below this part of the trace of D may be cut.
CUT_SHARE = 1e-3
#: Steps between two looks at the rank.
LOOK_EVERY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionState(LoopState):
    """Where the descent is, and its memory.

    Parameters
    ----------
    U : (d, r) or (d,)
    gradient : as U
    Z : (T, d)
    S, Y : (k, size of U)
        Memory of :mod:`algorithms.numerics.lbfgs`.
    iteration
        Steps done.
    """

    U: Array
    gradient: Array
    V: Array
    Z: Array
    S: Array
    Y: Array
    iteration: int


def project_variables(
    problem: SquareProblem, U: Array, *, trace: Trace, loop: str, max_iter: int, tolerance: float
) -> ProjectionState:
    """Return the root U of D at which the relative duality gap is below the tolerance."""

    def step(state: ProjectionState) -> ProjectionState:
        if state.iteration < N_ALTERNATING:
            return _alternating_step(problem, state)
        moved = _quasi_newton_step(problem, state)
        if state.U.ndim == 2 and (moved.is_stalled or moved.iteration % LOOK_EVERY == 0):
            return _adapt_rank(problem, moved)
        return moved

    start = _state(problem, U, fit_in_metric(problem, U), iteration=0)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _alternating_step(problem: SquareProblem, state: ProjectionState) -> ProjectionState:
    """Take D by (9) from the W of this one."""
    norm = problem.norm
    U = norm.root(norm.lift(state.V, state.U), 0.0)
    return _state(problem, U, fit_in_metric(problem, U), iteration=state.iteration + 1)


def _quasi_newton_step(problem: SquareProblem, state: ProjectionState) -> ProjectionState:
    fits: list[Fitted] = []

    def evaluate(x: Array) -> lbfgs.Point:
        U = x.reshape(state.U.shape)
        fits.append(fit_in_metric(problem, U))
        return lbfgs.Point(x, fits[-1].value, _gradient(problem, U, fits[-1]).ravel())

    start = lbfgs.Point(state.U.ravel(), state.objective, state.gradient.ravel())
    along = lbfgs.direction(start.gradient, state.S, state.Y)
    first = lbfgs.initial_step_length(start, along, state.S)
    found = lbfgs.line_search(evaluate, start, along, initial_step=first)
    if found is None:
        empty = state.S[:0]  # the memory may be to blame; without one there is no way down
        is_stalled = len(state.S) == 0
        return replace(
            state, iteration=state.iteration + 1, is_stalled=is_stalled, S=empty, Y=empty
        )
    fit = next(fit for fit in reversed(fits) if fit.value == found.value)
    S, Y = lbfgs.add_pair(state.S, state.Y, found.x - start.x, found.gradient - start.gradient)
    U = found.x.reshape(state.U.shape)
    return _state(problem, U, fit, iteration=state.iteration + 1, S=S, Y=Y)


def _adapt_rank(problem: SquareProblem, state: ProjectionState) -> ProjectionState:
    """Cut directions of U that D leaves, or put one back that the certificate asks for."""
    left, s, right = np.linalg.svd(state.U, full_matrices=False)
    share = s**2 / np.sum(s**2)
    pull = np.sum((state.Z @ left) ** 2, axis=0)  # −dh/dD along each direction, up to γ
    if _is_missing(problem, state, left):
        return _restore(problem, state)
    if state.is_stalled:
        return state
    is_kept = (share > CUT_SHARE) | (pull >= float(share @ pull))
    if is_kept.all():
        return state
    R = right[is_kept].T
    U = state.U @ R
    fit = fit_in_metric(problem, U)
    if fit.value > state.objective:
        return state
    S, Y = (_turned(M, state.U.shape, R) for M in (state.S, state.Y))
    is_good = np.einsum("kp,kp->k", S, Y) > 0
    return _state(problem, U, fit, iteration=state.iteration, S=S[is_good], Y=Y[is_good])


def _is_missing(problem: SquareProblem, state: ProjectionState, left: Array) -> bool:
    """Whether most of the gap is due to a direction outside of the range of U."""
    if state.U.shape[1] >= min(state.Z.shape):
        return False
    inside, outside = (problem.norm.dual_norm(Z) for Z in (state.Z @ left, state.Z))
    # the bound goes with the square of the dual norm
    return (outside**2 - inside**2) * 2 > outside**2 - float(
        np.sum((state.Z @ state.U) ** 2) / np.sum(state.U**2)
    )


def _restore(problem: SquareProblem, state: ProjectionState) -> ProjectionState:
    """Add the direction in which D would gain most, as long as that lowers the objective."""
    if state.U.shape[1] >= state.U.shape[0]:
        return state
    _, _, right = np.linalg.svd(state.Z, full_matrices=False)
    for length in np.linalg.norm(state.U) * 10.0 ** np.arange(-0.5, -6.0, -0.5):
        U = np.concatenate([state.U, length * right[:1].T], axis=1)
        fit = fit_in_metric(problem, U)
        if fit.value < state.objective:
            widen = np.eye(state.U.shape[1], U.shape[1])
            S, Y = (_turned(M, state.U.shape, widen) for M in (state.S, state.Y))
            return _state(problem, U, fit, iteration=state.iteration, S=S, Y=Y)
    return state


def _turned(M: Array, shape: tuple[int, ...], R: Array) -> Array:
    """Return the memory (k, d r) with every U in it times R (r, r')."""
    return (M.reshape(-1, *shape) @ R).reshape(len(M), -1)


def _gradient(problem: SquareProblem, U: Array, fit: Fitted) -> Array:
    pull = problem.norm.correlate(fit.Z, fit.V)
    return -2 * pull + 2 * problem.gamma * float(np.sum(fit.V**2)) * U


def _state(
    problem: SquareProblem,
    U: Array,
    fit: Fitted,
    *,
    iteration: int,
    S: Array | None = None,
    Y: Array | None = None,
) -> ProjectionState:
    empty = np.zeros((0, U.size))
    return ProjectionState(
        objective=fit.value,
        residual=fit.gap,
        U=U,
        gradient=_gradient(problem, U, fit),
        V=fit.V,
        Z=fit.Z,
        S=empty if S is None else S,
        Y=empty if Y is None else Y,
        iteration=iteration,
    )
