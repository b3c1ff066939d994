"""Accelerated proximal gradient method for quadratic losses.

    W⁺ = prox(V − gradient/L),  V = W + momentum·(W − W_before)

with a restart where the momentum points uphill.

Reference: Beck, Teboulle, *A fast iterative shrinkage-thresholding algorithm*, 2009,
doi:10.1137/080716542; O'Donoghue, Candès, *Adaptive restart*, 2015, doi:10.1007/s10208-013-9150-3.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array


class ProximalTrial(NamedTuple):
    """Gradient of a quadratic loss at W, objective, and relative duality gap."""

    gradient: Array
    objective: float
    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProximalState(LoopState):
    """State of the iteration.

    Parameters
    ----------
    W, gradient : (T, d)
    W_before, gradient_before : (T, d)
        Values of the previous step. The gradient is affine in W, so the gradient at V is the same
        combination of both.
    weight
        t of FISTA.
    """

    W: Array
    gradient: Array
    W_before: Array
    gradient_before: Array
    weight: float

    def final(self) -> Self:
        """Return the state without gradients and the previous step."""
        empty = self.W[:0]
        return replace(self, gradient=empty, W_before=empty, gradient_before=empty)


def proximal_gradient(
    evaluate: Callable[[Array], ProximalTrial],
    prox: Callable[[Array, float], Array],
    W: Array,
    *,
    L: float,
    trace: Trace,
    loop: str,
    max_iter: int,
    tolerance: float,
) -> ProximalState:
    """Minimise loss + penalty until the relative duality gap is below the tolerance.

    Parameters
    ----------
    evaluate
        Evaluates W; the loss must be quadratic.
    prox
        Proximal operator: argmin_V ½‖V − W‖² + step·penalty(V), for W and step.
    L
        Upper bound on the curvature of the loss.
    """
    L = max(L, float(np.finfo(float).tiny))

    def step(state: ProximalState) -> ProximalState:
        weight = (1 + np.sqrt(1 + 4 * state.weight**2)) / 2
        momentum = (state.weight - 1) / weight
        V = state.W + momentum * (state.W - state.W_before)
        slope = state.gradient + momentum * (state.gradient - state.gradient_before)
        W = prox(V - slope / L, 1 / L)
        if np.vdot(V - W, W - state.W) > 0:
            weight = 1.0
        return _state(W, evaluate(W), state.W, state.gradient, float(weight))

    trial = evaluate(W)
    start = _state(W, trial, W, trial.gradient, 1.0)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _state(
    W: Array, trial: ProximalTrial, W_before: Array, gradient_before: Array, weight: float
) -> ProximalState:
    return ProximalState(
        objective=trial.objective,
        residual=trial.gap,
        W=W,
        gradient=trial.gradient,
        W_before=W_before,
        gradient_before=gradient_before,
        weight=weight,
    )
