"""Accelerated proximal gradient under the trace, for any loss of constant curvature bound.

    W⁺ = prox(V − gradient/L),  V = W + momentum·(W − W before)

with a restart of the momentum where it points uphill.

Reference: Beck, Teboulle, *A fast iterative shrinkage-thresholding algorithm*, 2009,
doi:10.1137/080716542; O'Donoghue, Candès, *Adaptive restart*, 2015, doi:10.1007/s10208-013-9150-3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]


class Judged(NamedTuple):
    """The gradient of a quadratic loss at W, the objective, and its relative duality gap."""

    gradient: Array
    objective: float
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximalState(LoopState):
    """Where the descent is.

    Parameters
    ----------
    W, gradient : (T, d)
    W_before, gradient_before : (T, d)
        Those of the step before. The gradient is affine: momentum needs no product of its own.
    weight
        The t of FISTA.
    """

    W: Array
    gradient: Array
    W_before: Array
    gradient_before: Array
    weight: float


def descend(
    judge: Callable[[Array], Judged],
    shrink: Callable[[Array, float], Array],
    W: Array,
    *,
    L: float,
    trace: Trace,
    loop: str,
    max_iter: int,
    tolerance: float,
) -> ProximalState:
    """Return W at which the relative duality gap is below the tolerance.

    Parameters
    ----------
    judge
        For a loss that is a quadratic function of W.
    shrink
        The prox of a step: argmin_V ½‖V − W‖² + step·penalty(V), for W and step.
    L
        No less than the largest curvature of the loss.
    """
    L = max(L, float(np.finfo(float).tiny))

    def step(state: ProximalState) -> ProximalState:
        weight = (1 + np.sqrt(1 + 4 * state.weight**2)) / 2
        momentum = (state.weight - 1) / weight
        V = state.W + momentum * (state.W - state.W_before)
        slope = state.gradient + momentum * (state.gradient - state.gradient_before)
        W = shrink(V - slope / L, 1 / L)
        if np.vdot(V - W, W - state.W) > 0:
            weight = 1.0
        return _state(W, judge(W), state.W, state.gradient, float(weight))

    first = judge(W)
    start = _state(W, first, W, first.gradient, 1.0)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _state(
    W: Array, judged: Judged, W_before: Array, gradient_before: Array, weight: float
) -> ProximalState:
    return ProximalState(
        objective=judged.objective,
        residual=judged.gap,
        W=W,
        gradient=judged.gradient,
        W_before=W_before,
        gradient_before=gradient_before,
        weight=weight,
    )
