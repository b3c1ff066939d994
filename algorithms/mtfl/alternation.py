"""Algorithm 1 of the paper, mended: fit the tasks in the metric D, then D by (9), to the end.

As printed the update of D stands behind the loop; it belongs inside. D = (WᵀW + εI)^½/tr keeps
directions alive that a step has made small, since w ∈ range D could never leave again; the
perturbed objective Σ loss + γ(tr(WᵀW + εI)^½)² falls with every step, and where it stalls ε is
divided by ten, from (‖W‖/d)² down. The faithful solver, and the slow one: its objective comes to
within 1e-6 of the optimum, but a direction that is small and should grow does so by a factor close
to 1, and the certified gap ends between 1e-6 and 1e-4 where tasks have few rows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.mtfl.square import (
    SquareProblem,
    fit_in_metric,
    lower_bound,
    objective,
    relative_gap,
    residuals_of,
)

Array = NDArray[np.float64]

#: ε at the start, in units of (‖W‖/d)².
EPSILON = 1.0
#: It is lowered where a step gains less than this part of the gap. Too early, and directions that
#: are needed stay small for ever: at 1e-3 the gap on the school data ended at 4e-4.
STALL_RTOL = 1e-6
#: Where ε adds less than this part of the tolerance to the objective, a stall is the end.
LEAST_EXCESS = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternationState(LoopState):
    """W (T, d), the root U of D, and ε.

    Parameters
    ----------
    epsilon
        Infinite before the first W has set its scale.
    perturbed
        The objective with ε; infinite where ε is new.
    """

    W: Array
    U: Array
    epsilon: float
    perturbed: float


def alternate(
    problem: SquareProblem, U: Array, *, trace: Trace, loop: str, max_iter: int, tolerance: float
) -> AlternationState:
    """Return W at which the relative duality gap is below the tolerance, from a root of D."""

    def step(state: AlternationState) -> AlternationState:
        norm = problem.norm
        W = norm.lift(fit_in_metric(problem, state.U).V, state.U)
        residuals = residuals_of(problem, W)
        value = objective(problem, residuals, W)
        gap = relative_gap(
            value, lower_bound(problem, residuals, problem.stacks.adjoint(residuals))
        )
        unit = (norm.norm(W) / problem.stacks.n_features) ** 2
        epsilon = state.epsilon if np.isfinite(state.epsilon) else EPSILON * unit
        excess = problem.gamma * _excess(problem, W, epsilon)
        perturbed = value + excess
        is_late = state.perturbed - perturbed <= STALL_RTOL * gap * perturbed
        return AlternationState(
            objective=value,
            residual=gap,
            is_stalled=is_late and excess <= LEAST_EXCESS * tolerance * value,
            W=W,
            U=norm.root(W, epsilon),
            epsilon=epsilon / 10 if is_late else epsilon,
            perturbed=np.inf if is_late else perturbed,
        )

    W = np.zeros((problem.stacks.n_columns, problem.stacks.n_features))
    start = AlternationState(
        objective=objective(problem, residuals_of(problem, W), W),
        residual=1.0,
        W=W,
        U=U,
        epsilon=np.inf,
        perturbed=np.inf,
    )
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _excess(problem: SquareProblem, W: Array, epsilon: float) -> float:
    """Return by how much (tr(WᵀW + εI)^½)² is above ‖W‖²."""
    values = problem.norm.values(W)
    n_rest = problem.stacks.n_features - len(values)
    perturbed = float(np.sqrt(values**2 + epsilon).sum()) + n_rest * float(np.sqrt(epsilon))
    return perturbed**2 - float(values.sum()) ** 2
