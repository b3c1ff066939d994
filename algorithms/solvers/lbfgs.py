"""Limited-memory BFGS under a trace, for objectives that have no value in some places.

The steps are those of :mod:`algorithms.numerics.lbfgs`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.lbfgs import Point, direction, length_of, remember, search

Array = NDArray[np.float64]
#: Gives the value and the gradient at a point; infinity where there is none.
Objective = Callable[[Array], tuple[float, Array]]

N_PAIRS = 10
#: Largest change of a coordinate in one step: of a logarithm, or in units of the first latents.
LONGEST_STEP = 2.0
#: Relative decrease below which nothing is gained at working precision.
NOISE = 1e-13
#: Steps over which the gain is measured: single steps may gain little on a long way down.
WINDOW = 100
#: The gain over that many steps is held against the tolerance.
HORIZON = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LbfgsState(LoopState):
    """Point of the iteration.

    Parameters
    ----------
    z, gradient : (n,)
    S, Y : (k, n)
        Latest changes of z and of the gradient, the newest last.
    values : (k,)
        Objective before each of the last steps, at most ``WINDOW``, the newest last.
    n_evaluations
        Of the objective so far.
    """

    z: Array
    gradient: Array
    S: Array
    Y: Array
    values: Array
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
    """Return the state at which the descent from z stops.

    Parameters
    ----------
    tolerance
        Of the largest entry of the gradient, or of what ``HORIZON`` steps would gain at the rate
        of the last ``WINDOW``; either is divided by ``scale``. The second ends the descent where a
        problem is so ill conditioned that the gradient is never small.
    """
    return trace.run(
        loop,
        lambda state: descend(objective, state, scale=scale),
        start_at(objective, z, scale=scale),
        max_iter=max_iter,
        tolerance=tolerance,
    )


def start_at(objective: Objective, z: Array, *, scale: float = 1.0) -> LbfgsState:
    """Return the first state."""
    value, gradient = objective(z)
    return LbfgsState(
        objective=value,
        residual=float(np.abs(gradient).max()) / scale,
        z=z,
        gradient=gradient,
        S=np.zeros((0, z.size)),
        Y=np.zeros((0, z.size)),
        values=np.zeros(0),
        n_evaluations=1,
    )


def descend(objective: Objective, state: LbfgsState, *, scale: float = 1.0) -> LbfgsState:
    """Return the state after one step; the objective does not rise."""
    trials: list[Point] = []

    def evaluate(z: Array) -> Point:
        trials.append(Point(z, *objective(z)))
        return trials[-1]

    along = direction(state.gradient, state.S, state.Y)
    if len(state.S) == 0:
        along = along / max(length_of(along), np.finfo(float).tiny)
    reach = LONGEST_STEP / max(float(np.abs(along).max()), np.finfo(float).tiny)
    if reach < 1:
        along, reach = reach * along, 1.0
    start = Point(state.z, state.objective, state.gradient)
    found = search(evaluate, start, along, longest=reach)
    n_evaluations = state.n_evaluations + len(trials)
    if found is None or found.value > state.objective:
        # without memory the direction is the gradient's: nothing is left to try
        return replace(
            state,
            is_stalled=len(state.S) == 0,
            S=state.S[:0],
            Y=state.Y[:0],
            values=_latest(state),
            n_evaluations=n_evaluations,
        )
    s, y = found.x - state.z, found.gradient - state.gradient
    S, Y = remember(state.S, state.Y, s, y, most=N_PAIRS)
    values = _latest(state)
    gained = values[0] - found.value if len(values) == WINDOW else np.inf
    outlook = HORIZON / WINDOW * gained
    return LbfgsState(
        objective=found.value,
        residual=float(min(np.abs(found.gradient).max(), outlook)) / scale,
        is_stalled=state.objective - found.value <= NOISE * abs(found.value),
        z=found.x,
        gradient=found.gradient,
        S=S,
        Y=Y,
        values=values,
        n_evaluations=n_evaluations,
    )


def _latest(state: LbfgsState) -> Array:
    """Return the objective before each of the last steps, the one from this state included."""
    return np.append(state.values, state.objective)[-WINDOW:]
