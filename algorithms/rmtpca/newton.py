"""Riemannian trust-region Newton method for the coupled subspaces."""

from dataclasses import dataclass

import numpy as np

from algorithms.interface.trace import LoopState, StoppingRule, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.coupled_traces import CoupledTraces

#: Radius of the first trust region: the mean rotation of a basis vector, in radians.
INITIAL_RADIUS = 0.25
MAX_RADIUS = 1.0
#: Steps within a smaller trust region are lost in rounding.
MIN_RADIUS = 1e-12
#: Relative change of J that is within rounding error; below it the gradient is compared instead.
ROUNDING = 1e-13
#: Maximum relative residual of the conjugate gradient solve, except close to convergence.
MAX_FORCING = 0.3
#: Minimum ratio of actual to predicted increase for a step to be accepted.
MIN_GAIN_RATIO = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustRegionState(LoopState):
    """State of the iteration.

    Parameters
    ----------
    U, F : (T, k, d)
        Bases, and U_t (C_t + λG).
    """

    U: Array
    F: Array
    radius: float


def start_at(objective: CoupledTraces, U: Array) -> TrustRegionState:
    """Return the initial state at bases U (T, k, d)."""
    U = np.ascontiguousarray(U)
    J, residual, F = objective.evaluate(U)
    return TrustRegionState(objective=J, residual=residual, U=U, F=F, radius=INITIAL_RADIUS)


def newton_step(
    objective: CoupledTraces, state: TrustRegionState, *, tolerance: float
) -> TrustRegionState:
    """Return the state after one trust-region step, which lowers J by rounding error at most."""
    # superlinear convergence, but no more accuracy than the tolerance requires
    superlinear = min(MAX_FORCING, state.residual**0.5)
    forcing = max(superlinear, min(0.3 * tolerance / state.residual, 0.5))
    trial = objective.trial_step(state.U, state.F, radius=state.radius, forcing=forcing)
    J, residual, F = trial.value
    noise = ROUNDING * abs(state.objective) + objective.noise
    gain = J - state.objective
    if trial.predicted <= noise:
        is_better = gain >= -noise and residual < state.residual
        ratio = 1.0 if is_better else 0.0
    else:
        ratio = (gain + noise) / (trial.predicted + noise)
    radius = _next_radius(
        state.radius, ratio=ratio, length=trial.length, is_clipped=trial.is_clipped
    )
    if ratio >= MIN_GAIN_RATIO:
        return TrustRegionState(objective=J, residual=residual, U=trial.point, F=F, radius=radius)
    return TrustRegionState(
        objective=state.objective,
        residual=state.residual,
        is_stalled=trial.predicted <= noise or radius < MIN_RADIUS,
        U=state.U,
        F=state.F,
        radius=radius,
    )


def trust_region_newton(
    objective: CoupledTraces,
    start: TrustRegionState,
    *,
    stopping: StoppingRule,
    trace: Trace,
    loop: str,
) -> TrustRegionState:
    """Return the state at the critical point of J that is reached from a starting point.

    Parameters
    ----------
    loop
        Name of the loop in the trace.
    """
    return trace.run(
        loop,
        lambda state: newton_step(objective, state, tolerance=stopping.tolerance),
        start,
        max_iter=stopping.max_iter,
        tolerance=stopping.tolerance,
    )


def _next_radius(radius: float, *, ratio: float, length: float, is_clipped: bool) -> float:
    if ratio < 0.25:
        return 0.25 * min(length, radius)
    if ratio > 0.75 and is_clipped:
        return min(2.0 * radius, MAX_RADIUS)
    return radius
