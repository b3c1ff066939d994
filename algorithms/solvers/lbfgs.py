"""Limited-memory BFGS for objectives that are undefined at some points.

Directions and line search: :mod:`algorithms.numerics.lbfgs`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.lbfgs import Point, add_pair, direction, line_search, norm

#: Returns the value and the gradient at a point; the value is infinite where it is undefined.
Objective = Callable[[Array], tuple[float, Array]]

MAX_PAIRS = 10
#: Largest change of a coordinate in one step: of a logarithm, or in units of the first latents.
MAX_STEP = 2.0
#: Relative decrease below which a step is rounding error.
MIN_RELATIVE_DECREASE = 1e-13
#: Steps over which the decrease is measured: single steps may decrease little on slow problems.
WINDOW = 100
#: The decrease expected over this many steps is compared with the tolerance.
HORIZON = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LbfgsState(LoopState):
    """State of the iteration.

    Parameters
    ----------
    z, gradient : (n,)
    S, Y : (k, n)
        Latest changes of z and of the gradient, newest last.
    values : (k,)
        Objective before each of the last steps, at most ``WINDOW`` of them, newest last.
    n_evaluations
        Evaluations of the objective so far.
    """

    z: Array
    gradient: Array
    S: Array
    Y: Array
    values: Array
    n_evaluations: int

    def final(self) -> Self:
        """Return the state without the data of further steps."""
        empty = np.zeros(0)
        return replace(self, gradient=empty, S=empty, Y=empty, values=empty)


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
    """Minimise an objective from z and return the last state.

    Parameters
    ----------
    tolerance
        Bound on the largest entry of the gradient, or on the decrease that ``HORIZON`` more steps
        would achieve at the rate of the last ``WINDOW``; both are divided by ``scale``. The
        second criterion stops problems so ill conditioned that the gradient never becomes small.
    """
    return trace.run(
        loop,
        lambda state: lbfgs_step(objective, state, scale=scale),
        initial_state(objective, z, scale=scale),
        max_iter=max_iter,
        tolerance=tolerance,
    )


def initial_state(objective: Objective, z: Array, *, scale: float = 1.0) -> LbfgsState:
    """Return the state at the start z."""
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


def lbfgs_step(objective: Objective, state: LbfgsState, *, scale: float = 1.0) -> LbfgsState:
    """Return the state after one step, which never increases the objective."""
    trials: list[Point] = []

    def evaluate(z: Array) -> Point:
        trials.append(Point(z, *objective(z)))
        return trials[-1]

    along = direction(state.gradient, state.S, state.Y)
    if len(state.S) == 0:
        along = along / max(norm(along), np.finfo(float).tiny)
    max_length = MAX_STEP / max(float(np.abs(along).max()), np.finfo(float).tiny)
    if max_length < 1:
        along, max_length = max_length * along, 1.0
    start = Point(state.z, state.objective, state.gradient)
    point = line_search(evaluate, start, along, max_step=max_length)
    n_evaluations = state.n_evaluations + len(trials)
    if point is None or point.value > state.objective:
        # without pairs the direction was the negative gradient: no other direction is left
        return replace(
            state,
            is_stalled=len(state.S) == 0,
            S=state.S[:0],
            Y=state.Y[:0],
            values=_latest(state),
            n_evaluations=n_evaluations,
        )
    s, y = point.x - state.z, point.gradient - state.gradient
    S, Y = add_pair(state.S, state.Y, s, y, max_pairs=MAX_PAIRS)
    values = _latest(state)
    decrease = values[0] - point.value if len(values) == WINDOW else np.inf
    expected_decrease = HORIZON / WINDOW * decrease
    return LbfgsState(
        objective=point.value,
        residual=float(min(np.abs(point.gradient).max(), expected_decrease)) / scale,
        is_stalled=state.objective - point.value <= MIN_RELATIVE_DECREASE * abs(point.value),
        z=point.x,
        gradient=point.gradient,
        S=S,
        Y=Y,
        values=values,
        n_evaluations=n_evaluations,
    )


def _latest(state: LbfgsState) -> Array:
    """Return the objective before each of the last steps, this state's included."""
    return np.append(state.values, state.objective)[-WINDOW:]
