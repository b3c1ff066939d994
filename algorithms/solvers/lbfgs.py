"""Limited-memory BFGS, one step at a time, so that a trace can count, cancel and resume it.

Nocedal, Wright, *Numerical Optimization*, 2006, chapter 7.2, with a line search for the weak Wolfe
conditions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]
#: Gives the value and the gradient at a point; infinity where there is none.
Objective = Callable[[Array], tuple[float, Array]]

N_PAIRS = 10
#: Share of the predicted decrease that a step must bring, and of the slope that it may leave.
SUFFICIENT_DECREASE, CURVATURE = 1e-4, 0.9
#: Largest change of a coordinate in one step: of a logarithm, or in units of the first latents.
LONGEST_STEP = 2.0
#: Evaluations in one line search.
MOST_TRIALS = 25
#: Relative decrease below which nothing is gained at working precision.
NOISE = 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class LbfgsState(LoopState):
    """Point of the iteration.

    Parameters
    ----------
    z, gradient : (n,)
    steps, changes : (N_PAIRS, n)
        Latest changes of z and of the gradient, the newest last; the first ``n_pairs`` from the
        end are set.
    n_evaluations
        Of the objective so far.
    """

    z: Array
    gradient: Array
    steps: Array
    changes: Array
    n_pairs: int
    n_evaluations: int


def minimise(
    objective: Objective,
    z: Array,
    *,
    trace: Trace,
    loop: str,
    max_iter: int,
    tolerance: float,
    scale: float = 1.0,
) -> LbfgsState:
    """Give the state at which the descent from z stops.

    Parameters
    ----------
    tolerance
        Of the largest entry of the gradient, divided by ``scale``.
    """
    return trace.run(
        loop,
        lambda state: descend(objective, state, scale=scale),
        start_at(objective, z, scale=scale),
        max_iter=max_iter,
        tolerance=tolerance,
    )


def start_at(objective: Objective, z: Array, *, scale: float = 1.0) -> LbfgsState:
    """Give the first state."""
    value, gradient = objective(z)
    return LbfgsState(
        objective=value,
        residual=float(np.abs(gradient).max()) / scale,
        z=z,
        gradient=gradient,
        steps=np.zeros((N_PAIRS, z.size)),
        changes=np.zeros((N_PAIRS, z.size)),
        n_pairs=0,
        n_evaluations=1,
    )


def descend(objective: Objective, state: LbfgsState, *, scale: float = 1.0) -> LbfgsState:
    """Give the state after one step; the objective does not rise."""
    found = _line_search(objective, state, _direction(state))
    n_evaluations = state.n_evaluations + found.n_trials
    if found.step is None:
        # without memory the direction is the gradient's: nothing is left to try
        return _with(state, n_pairs=0, is_stalled=state.n_pairs == 0, n_evaluations=n_evaluations)
    z = state.z + found.step
    change = found.gradient - state.gradient
    steps, changes, n_pairs = state.steps, state.changes, state.n_pairs
    if found.step @ change > np.finfo(float).eps * (change @ change):
        steps = np.concatenate([steps[1:], found.step[np.newaxis]])
        changes = np.concatenate([changes[1:], change[np.newaxis]])
        n_pairs = min(n_pairs + 1, N_PAIRS)
    gained = state.objective - found.value
    return LbfgsState(
        objective=found.value,
        residual=float(np.abs(found.gradient).max()) / scale,
        is_stalled=gained <= NOISE * abs(found.value),
        z=z,
        gradient=found.gradient,
        steps=steps,
        changes=changes,
        n_pairs=n_pairs,
        n_evaluations=n_evaluations,
    )


def _direction(state: LbfgsState) -> Array:
    """Give -H g from the compact form of H: theorem 2.2 of Byrd, Nocedal, Schnabel (1994).

    With S, Y the pairs as rows, R the upper triangle of SYᵀ, E its diagonal and γ the curvature
    of the newest: H = γI + Sᵀ(R⁻ᵀ(E + γYYᵀ)R⁻¹)S - γSᵀR⁻ᵀY - γYᵀR⁻¹S. The recursion in common use
    gives the same by forty products of vectors, which cost as much as the objective.
    """
    g, first = state.gradient, N_PAIRS - state.n_pairs
    if first == N_PAIRS:
        return -g / max(float(np.linalg.norm(g)), np.finfo(float).tiny)
    S, Y = state.steps[first:], state.changes[first:]
    SY, YY = S @ Y.T, Y @ Y.T
    gamma = SY[-1, -1] / YY[-1, -1]
    u, _ = dtrtrs(SY, S @ g)
    inner = np.diagonal(SY) * u + gamma * (YY @ u - Y @ g)
    v, _ = dtrtrs(SY, inner, trans=1)
    return np.asarray(gamma * (u @ Y - g) - v @ S)


@dataclass(frozen=True, slots=True)
class _Found:
    """Where a line search ended; no step where none goes down."""

    step: Array | None
    value: float
    gradient: Array
    n_trials: int


def _line_search(objective: Objective, state: LbfgsState, direction: Array) -> _Found:
    """Give a step that meets the weak Wolfe conditions, or the best that goes down enough."""
    longest = float(np.abs(direction).max())
    if longest > LONGEST_STEP:
        direction = direction * (LONGEST_STEP / longest)
    slope = float(state.gradient @ direction)
    best = _Found(None, state.objective, state.gradient, 0)
    if slope >= 0:
        return best
    low, high, t = 0.0, np.inf, 1.0
    value_low, slope_low = state.objective, slope
    for n_trials in range(1, MOST_TRIALS + 1):
        value, gradient = objective(state.z + t * direction)
        slope_t = float(gradient @ direction)
        if not value <= state.objective + SUFFICIENT_DECREASE * t * slope:
            high = t
            t = _between(low, high, value_low, slope_low, value)
            best = _Found(best.step, best.value, best.gradient, n_trials)
            continue
        best = _Found(t * direction, value, gradient, n_trials)
        if slope_t >= CURVATURE * slope or (np.isinf(high) and t * longest >= LONGEST_STEP):
            break
        low, value_low, slope_low = t, value, slope_t
        t = 2.0 * t if np.isinf(high) else 0.5 * (low + high)
    return best


def _between(low: float, high: float, value: float, slope: float, value_high: float) -> float:
    """Give the minimum of the parabola through both ends, well inside; the middle failing that."""
    width = high - low
    curvature = (value_high - value - slope * width) / width**2
    t = -0.5 * slope / curvature if np.isfinite(curvature) and curvature > 0 else 0.5 * width
    return low + float(np.clip(t, 0.1 * width, 0.9 * width))


def _with(state: LbfgsState, *, n_pairs: int, is_stalled: bool, n_evaluations: int) -> LbfgsState:
    return LbfgsState(
        objective=state.objective,
        residual=state.residual,
        is_stalled=is_stalled,
        z=state.z,
        gradient=state.gradient,
        steps=state.steps,
        changes=state.changes,
        n_pairs=n_pairs,
        n_evaluations=n_evaluations,
    )
