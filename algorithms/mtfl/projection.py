"""Solver of MTFL by variable projection: minimise over the root U of D, with exact fits for each U.

    h(U) = min_V Σ_t ‖y_t − X_tUv_t‖² + γ‖U‖²_F‖V‖²

is smooth and equals (7) with D = UUᵀ/tr(UUᵀ); it does not depend on the length of U. Its gradient
is −2 ZᵀV + 2γ‖V‖²U. h is not convex, but the duality gap certifies the result. Directions with
small weight in D are dropped during the iteration, and a direction is added back if the duality gap
of the full problem requires it.

Reference: Golub, Pereyra, *The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate*, 1973, doi:10.1137/0710036; Poon, Peyré, *Smooth bilevel
programming for sparse regularization*, NeurIPS 2021, arXiv:2106.01429 (for the plain norms).
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.mtfl.square import Fitted, SquareProblem, fit_in_metric
from algorithms.numerics import lbfgs

Array = NDArray[np.float64]

#: Number of exact alternating steps before quasi-Newton steps; they find the scale of D.
N_ALTERNATING = 3
#: Directions with less than this share of the trace of D may be dropped.
DROP_SHARE = 1e-3
#: Number of steps between changes of the rank.
RANK_INTERVAL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionState(LoopState):
    """State of the iteration.

    Parameters
    ----------
    U : (d, r) or (d,)
    gradient : shape of U
    V : (T, r) or (T, d)
    Z : (T, d)
        As in :class:`algorithms.mtfl.square.Fitted`.
    S, Y : (k, size of U)
        Pairs of :mod:`algorithms.numerics.lbfgs`.
    iteration
        Number of steps.
    """

    U: Array
    gradient: Array
    V: Array
    Z: Array
    S: Array
    Y: Array
    iteration: int

    def final(self) -> Self:
        """Return the state without what the quasi-Newton steps need."""
        empty = self.S[:0]
        return replace(self, gradient=self.gradient[:0], Z=self.Z[:0], S=empty, Y=empty)


def minimise_root(
    problem: SquareProblem, U: Array, *, trace: Trace, loop: str, max_iter: int, tolerance: float
) -> ProjectionState:
    """Minimise h from the root U of D until the relative duality gap is below the tolerance."""

    def step(state: ProjectionState) -> ProjectionState:
        if state.iteration < N_ALTERNATING:
            return _alternating_step(problem, state)
        after = _quasi_newton_step(problem, state)
        if state.U.ndim == 2 and (after.is_stalled or after.iteration % RANK_INTERVAL == 0):
            return _adapt_rank(problem, after)
        return after

    start = _state(problem, U, fit_in_metric(problem, U), iteration=0)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _alternating_step(problem: SquareProblem, state: ProjectionState) -> ProjectionState:
    """Return the state with D by eq. 9 from the current W."""
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
    point = lbfgs.line_search(evaluate, start, along, initial_step=first)
    if point is None:
        empty = state.S[:0]  # retry along the gradient; if it was the gradient, no step is left
        is_stalled = len(state.S) == 0
        return replace(
            state, iteration=state.iteration + 1, is_stalled=is_stalled, S=empty, Y=empty
        )
    fit = next(fit for fit in reversed(fits) if fit.value == point.value)
    S, Y = lbfgs.add_pair(state.S, state.Y, point.x - start.x, point.gradient - start.gradient)
    U = point.x.reshape(state.U.shape)
    return _state(problem, U, fit, iteration=state.iteration + 1, S=S, Y=Y)


def _adapt_rank(problem: SquareProblem, state: ProjectionState) -> ProjectionState:
    """Drop directions of U with small weight in D, or add one that the duality gap requires."""
    left, s, right = np.linalg.svd(state.U, full_matrices=False)
    share = s**2 / np.sum(s**2)
    gain = np.sum((state.Z @ left) ** 2, axis=0)  # −dh/dD along each direction, up to γ
    if _lacks_direction(problem, state, left):
        return _add_direction(problem, state)
    if state.is_stalled:
        return state
    is_kept = (share > DROP_SHARE) | (gain >= float(share @ gain))
    if is_kept.all():
        return state
    R = right[is_kept].T
    U = state.U @ R
    fit = fit_in_metric(problem, U)
    if fit.value > state.objective:
        return state
    S, Y = (_transformed(M, state.U.shape, R) for M in (state.S, state.Y))
    is_good = np.einsum("kp,kp->k", S, Y) > 0
    return _state(problem, U, fit, iteration=state.iteration, S=S[is_good], Y=Y[is_good])


def _lacks_direction(problem: SquareProblem, state: ProjectionState, left: Array) -> bool:
    """Return whether most of the gap is due to a direction outside the range of U."""
    if state.U.shape[1] >= min(state.Z.shape):
        return False
    inside, outside = (problem.norm.dual_norm(Z) for Z in (state.Z @ left, state.Z))
    # the lower bound depends on the square of the dual norm
    return (outside**2 - inside**2) * 2 > outside**2 - float(
        np.sum((state.Z @ state.U) ** 2) / np.sum(state.U**2)
    )


def _add_direction(problem: SquareProblem, state: ProjectionState) -> ProjectionState:
    """Add the direction with the largest gain to U, if that decreases the objective."""
    if state.U.shape[1] >= state.U.shape[0]:
        return state
    _, _, right = np.linalg.svd(state.Z, full_matrices=False)
    for length in np.linalg.norm(state.U) * 10.0 ** np.arange(-0.5, -6.0, -0.5):
        U = np.concatenate([state.U, length * right[:1].T], axis=1)
        fit = fit_in_metric(problem, U)
        if fit.value < state.objective:
            widen = np.eye(state.U.shape[1], U.shape[1])
            S, Y = (_transformed(M, state.U.shape, widen) for M in (state.S, state.Y))
            return _state(problem, U, fit, iteration=state.iteration, S=S, Y=Y)
    return state


def _transformed(M: Array, shape: tuple[int, ...], R: Array) -> Array:
    """Return the pairs (k, d r) with every (d, r) part multiplied by R (r, r')."""
    return (M.reshape(-1, *shape) @ R).reshape(len(M), -1)


def _gradient(problem: SquareProblem, U: Array, fit: Fitted) -> Array:
    correlation = problem.norm.correlate(fit.Z, fit.V)
    return -2 * correlation + 2 * problem.gamma * float(np.sum(fit.V**2)) * U


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
