"""Riemannian Newton iteration for the coupled subspaces: one trust-region step, and its loop."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.coupled_traces import CoupledTraces

Array = NDArray[np.float64]

#: Length of the first step at most: a turn of this many radians of every basis vector, in the mean.
FIRST_RADIUS = 0.25
LARGEST_RADIUS = 1.0
#: A trust region below this moves nothing at working precision.
SMALLEST_RADIUS = 1e-12
#: Relative change of J below which J has no digits left and the gradient decides.
NOISE = 1e-13
#: Share of the gradient that the first steps of conjugate gradients may leave.
LOOSEST_FORCING = 0.3
#: Smallest share of the predicted rise that a step must bring.
SUFFICIENT_RISE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewtonState(LoopState):
    """Point of the iteration.

    Parameters
    ----------
    U, F : layout of the objective
        Bases, and U_t (C_t + λG).
    radius
        Radius of the trust region.
    """

    U: Array
    F: Array
    radius: float


def start_at(objective: CoupledTraces, U: Array) -> NewtonState:
    """Return the first state, at bases U (T, k, d)."""
    point = objective.pack(U)
    J, residual, F = objective.evaluate(point)
    return NewtonState(objective=J, residual=residual, U=point, F=F, radius=FIRST_RADIUS)


def newton_step(objective: CoupledTraces, state: NewtonState, *, rtol: float) -> NewtonState:
    """Return the state after one trust-region step; J does not fall but by rounding."""
    # superlinear in the end, but no better than the tolerance asks
    forcing = max(min(LOOSEST_FORCING, state.residual**0.5), min(0.3 * rtol / state.residual, 0.5))
    move = objective.trial_step(state.U, state.F, radius=state.radius, forcing=forcing)
    J, residual, F = move.value
    noise = NOISE * abs(state.objective) + objective.noise
    rise = J - state.objective
    if move.predicted <= noise:
        is_better = rise >= -noise and residual < state.residual
        ratio = 1.0 if is_better else 0.0
    else:
        ratio = (rise + noise) / (move.predicted + noise)
    radius = _next_radius(state.radius, ratio=ratio, length=move.length, clipped=move.is_clipped)
    if ratio >= SUFFICIENT_RISE:
        return NewtonState(objective=J, residual=residual, U=move.point, F=F, radius=radius)
    return NewtonState(
        objective=state.objective,
        residual=state.residual,
        is_stalled=move.predicted <= noise or radius < SMALLEST_RADIUS,
        U=state.U,
        F=state.F,
        radius=radius,
    )


def climb(
    objective: CoupledTraces,
    start: NewtonState,
    *,
    loop: str,
    max_iter: int,
    rtol: float,
    trace: Trace,
) -> NewtonState:
    """Return the critical point of J that Newton's iteration reaches from a start."""
    return trace.run(
        loop,
        lambda state: newton_step(objective, state, rtol=rtol),
        start,
        max_iter=max_iter,
        tolerance=rtol,
    )


def _next_radius(radius: float, *, ratio: float, length: float, clipped: bool) -> float:
    if ratio < 0.25:
        return 0.25 * min(length, radius)
    if ratio > 0.75 and clipped:
        return min(2.0 * radius, LARGEST_RADIUS)
    return radius
