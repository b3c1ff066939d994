"""Algorithm 1 of the paper, corrected: alternate between W in the metric D, and D by eq. 9.

The paper prints the update of D after the loop, but it belongs inside. The update is (WᵀW + εI)^½,
divided by its trace. Without ε, a direction that D has lost could not return, because W is always
in the range of D. The perturbed objective Σ loss + γ(tr(WᵀW + εI)^½)² decreases in every step; when
it stalls, ε is divided by ten, starting from (‖W‖/d)². This is the paper's solver, but it is slow:
the objective comes within 1e-6 of the optimum, while small directions that should grow are
multiplied by a factor close to 1 in each step. With few rows per task, the final duality gap is
between 1e-6 and 1e-4.
"""

from dataclasses import dataclass

import numpy as np

from algorithms.interface.trace import LoopState, Trace
from algorithms.mtfl.square import (
    SquareProblem,
    fit_in_metric,
    lower_bound,
    objective,
    relative_gap,
    residuals_of,
)
from algorithms.numerics.arrays import Array

#: Initial ε, in units of (‖W‖/d)².
EPSILON = 1.0
#: ε decreases if a step gains less than this, relative to the gap. If it decreases too early,
#: needed directions stay small: with 1e-3 the final gap on the School data was 4e-4.
STALL_RTOL = 1e-6
#: The loop stalls if ε contributes less than this to the objective, relative to the tolerance.
MIN_EXCESS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternationState(LoopState):
    """W (T, d), the root U of D, and ε.

    Parameters
    ----------
    epsilon
        Infinite before the first W.
    perturbed
        The objective with ε; infinite if ε has just changed.
    """

    W: Array
    U: Array
    epsilon: float
    perturbed: float


def alternate(
    problem: SquareProblem, U: Array, *, trace: Trace, loop: str, max_iter: int, tolerance: float
) -> AlternationState:
    """Iterate from a root of D until the relative duality gap is below the tolerance.

    Parameters
    ----------
    U : (d, r) or (d,)
        Root of D, D = UUᵀ.
    loop
        Name of the loop in the trace.
    """

    def step(state: AlternationState) -> AlternationState:
        norm = problem.norm
        W = fit_in_metric(problem, state.U)
        residuals = residuals_of(problem, W)
        value = objective(problem, residuals, norm.norm(W))
        gap = relative_gap(
            value, lower_bound(problem, residuals, problem.stacks.adjoint(residuals))
        )
        unit = (norm.norm(W) / problem.stacks.n_features) ** 2
        epsilon = state.epsilon if np.isfinite(state.epsilon) else EPSILON * unit
        excess = problem.gamma * _excess(problem, W, epsilon)
        perturbed = value + excess
        is_slow = state.perturbed - perturbed <= STALL_RTOL * gap * perturbed
        return AlternationState(
            objective=value,
            residual=gap,
            is_stalled=is_slow and excess <= MIN_EXCESS * tolerance * value,
            W=W,
            U=norm.root(W, epsilon),
            epsilon=epsilon / 10 if is_slow else epsilon,
            perturbed=np.inf if is_slow else perturbed,
        )

    W = np.zeros((problem.stacks.n_columns, problem.stacks.n_features))
    start = AlternationState(
        objective=objective(problem, residuals_of(problem, W), 0.0),
        residual=1.0,
        W=W,
        U=U,
        epsilon=np.inf,
        perturbed=np.inf,
    )
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _excess(problem: SquareProblem, W: Array, epsilon: float) -> float:
    """Return (tr(WᵀW + εI)^½)² − ‖W‖²."""
    values = problem.norm.values(W)
    n_rest = problem.stacks.n_features - len(values)
    perturbed = float(np.sqrt(values**2 + epsilon).sum()) + n_rest * float(np.sqrt(epsilon))
    return perturbed**2 - float(values.sum()) ** 2
