"""Solver of MTFL by the alternating direction method of multipliers.

    V ← argmin loss(V) + ρ/2 ‖V − W + U‖²      (each task alone)
    W ← argmin γ‖W‖² + ρ/2 ‖W − V' − U‖²       (a prox),  V' = a V + (1 − a) W
    U ← U + V' − W

ρU is always in γ∂‖W‖². So residuals R with 2XᵀR = ρU have the dual norm that W needs, and their
dual value is as close to the optimum as the value of W. That of the residuals of W is not: all
singular values of their XᵀR are nearly the same, so the error of the largest is of first order.

It is for tasks with more rows than columns, none nearly dependent; others have the bound by the
residuals of W. A matrix of each task is inverted once, in O(T d³); a step costs O(T d²) and a
decomposition of W.

Reference: Boyd, Parikh, Chu, Peleato, Eckstein, *Distributed optimization and statistical learning
via the alternating direction method of multipliers*, 2011, doi:10.1561/2200000016
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.mtfl.square import (
    SquareProblem,
    lower_bound,
    objective,
    relative_gap,
    residuals_of,
)
from algorithms.numerics.eigen import inverse_of_definite
from algorithms.numerics.stacks import Stacks

Array = NDArray[np.float64]

#: a, of the range in which the method converges, (0, 2); the reference recommends 1.5 to 1.8.
RELAXATION = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class ADMMState(LoopState):
    """State of the iteration.

    Parameters
    ----------
    W, U : (T, d)
        Coefficients, and multipliers divided by ρ.
    """

    W: Array
    U: Array

    def final(self) -> Self:
        """Return the state without multipliers."""
        return replace(self, U=self.U[:0])


def alternate_directions(
    problem: SquareProblem,
    W: Array | None,
    *,
    trace: Trace,
    loop: str,
    max_iter: int,
    tolerance: float,
) -> ADMMState:
    """Iterate from W (T, d) until the relative duality gap is below the tolerance.

    Without W the start is the least-squares fit of each task, or 0 if it is not unique.
    """
    if W is None:
        W = _least_squares_fit(problem.stacks)
    rho = _penalty(problem)
    fit = _ProximalFit.of(problem, rho)

    def state(W: Array, U: Array, size: float) -> ADMMState:
        value = objective(problem, residuals_of(problem, W), size)
        gap = relative_gap(value, _bound(problem, W, rho / 2 * U))
        return ADMMState(objective=value, residual=gap, W=W, U=U)

    def step(before: ADMMState) -> ADMMState:
        V = fit(before.W - before.U)
        total = RELAXATION * V + (1 - RELAXATION) * before.W + before.U
        W, size = problem.norm.shrink_with_norm(total, problem.gamma / rho, power=2)
        return state(W, total - W, size)

    slope = problem.stacks.adjoint(residuals_of(problem, W))
    start = state(W, 2 / rho * slope, problem.norm.norm(W))
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


@dataclass(frozen=True, slots=True, eq=False)
class _ProximalFit:
    """The map from W (T, d) to argmin loss(V) + ρ/2 ‖V − W‖².

    Parameters
    ----------
    inverses
        (2 XᵀX + ρI)⁻¹ of every block, (g, d, d) for each stack.
    target : (T, d)
        2 X_tᵀy_t.
    """

    stacks: Stacks
    inverses: list[Array]
    target: Array
    rho: float

    @classmethod
    def of(cls, problem: SquareProblem, rho: float) -> Self:
        stacks = problem.stacks
        ridge = rho * np.eye(stacks.n_features)
        inverses = [np.empty_like(G) for G in stacks.grams]
        for of_stack, G in zip(inverses, stacks.grams, strict=True):
            for t, one in enumerate(G):
                of_stack[t] = inverse_of_definite(2 * one + ridge)
        return cls(stacks, inverses, 2 * stacks.adjoint([part.Y for part in stacks.parts]), rho)

    def __call__(self, W: Array) -> Array:
        V, goal = np.empty_like(W), self.target + self.rho * W
        for part, M in zip(self.stacks.parts, self.inverses, strict=True):
            V[part.columns] = part.gather(goal) @ M
        return V


def _least_squares_fit(stacks: Stacks) -> Array:
    W = np.zeros((stacks.n_columns, stacks.n_features))
    if stacks.inverses is not None:
        for part, inverse in zip(stacks.parts, stacks.inverses, strict=True):
            W[part.columns] = np.swapaxes(inverse @ part.Y, 1, 2)
    return W


def _bound(problem: SquareProblem, W: Array, Z: Array) -> float:
    """Return the dual value of residuals with XᵀR = Z, or of those of W if there may be none."""
    stacks = problem.stacks
    if stacks.inverses is None:
        residuals = residuals_of(problem, W)
        return lower_bound(problem, residuals, stacks.adjoint(residuals))
    residuals = [
        np.swapaxes(part.gather(Z) @ inverse, 1, 2)
        for part, inverse in zip(stacks.parts, stacks.inverses, strict=True)
    ]
    return lower_bound(problem, residuals, Z)


def _penalty(problem: SquareProblem) -> float:
    """Return ρ: the geometric mean of the arithmetic and the harmonic mean of the curvatures.

    Without inverses some curvatures are 0, and it is the arithmetic mean.
    """
    stacks = problem.stacks
    total = sum(float(np.vdot(part.X, part.X)) for part in stacks.parts)
    n = stacks.n_features * sum(len(part.X) for part in stacks.parts)
    if stacks.inverses is None:
        return 2 * total / n if total > 0 else 1.0
    return 2 * math.sqrt(total / sum(float(np.vdot(one, one)) for one in stacks.inverses))
