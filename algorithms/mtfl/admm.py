"""Solver of MTFL by the alternating direction method of multipliers.

    V ← argmin loss(V) + ρ/2 ‖V − W + U‖²      (each task alone)
    W ← argmin γ‖W‖² + ρ/2 ‖W − V' − U‖²       (a prox),  V' = a V + (1 − a) W
    U ← U + V' − W

Any residuals give a lower bound. Of tasks with more rows than columns, none nearly dependent, they
are the R with 2XᵀR = ρU. As ρU is always in γ∂‖W‖², they have the dual norm that W needs, and their
dual value is as close to the optimum as the value of W. Other problems have the bound by the
residuals of V, whose error is of first order.

ρ is adapted until primal and dual residuals, each relative to its variables, are about equal.
Without that, problems with few rows or a small γ need thousands of steps. It may change after 4, 8,
16, ... steps: so rarely that new inverses cost little, and that the method converges as for a fixed
ρ. A change costs O(T d² min(n, d)), a step O(T d min(n, d)) and a decomposition of W.

Reference: Boyd, Parikh, Chu, Peleato, Eckstein, *Distributed optimization and statistical learning
via the alternating direction method of multipliers*, 2011, doi:10.1561/2200000016; Wohlberg, *ADMM
penalty parameter selection by residual balancing*, 2017, arXiv:1704.06209 (relative residuals)
"""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from algorithms.interface.trace import LoopState, Trace
from algorithms.mtfl.square import (
    SquareProblem,
    lower_bound,
    objective,
    relative_gap,
    residuals_of,
)
from algorithms.numerics.arrays import Array
from algorithms.numerics.eigen import inverse_of_definite
from algorithms.numerics.stacks import Stacks

TINY = np.finfo(float).tiny
#: a, of the range in which the method converges, (0, 2); the reference recommends 1.5 to 1.8.
RELAXATION = 1.6
#: Number of steps before ρ changes first: well-conditioned problems are nearly solved by then.
FIRST_CHANGE = 4
#: Smallest factor of ρ, or of its inverse, that is worth new inverses, and the largest.
MIN_CHANGE, MAX_CHANGE = 1.3, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ADMMState(LoopState):
    """State of the iteration.

    Parameters
    ----------
    W, U : (T, d)
        Coefficients, and multipliers divided by ρ.
    bound
        Largest lower bound.
    """

    W: Array
    U: Array
    rho: float
    bound: float
    n_steps: int

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

    Parameters
    ----------
    loop
        Name of the loop in the trace.
    """
    if W is None:
        W = _least_squares_fit(problem.stacks)
    fit = _ProximalFit.of(problem, _penalty(problem.stacks))

    def step(before: ADMMState) -> ADMMState:
        nonlocal fit
        if fit.rho != before.rho:
            fit = _ProximalFit.of(problem, before.rho)
        V, residuals = fit(before.W - before.U)
        total = RELAXATION * V + (1 - RELAXATION) * before.W + before.U
        W, size = problem.norm.shrink_with_norm(total, problem.gamma / fit.rho, power=2)
        U, n_steps = total - W, before.n_steps + 1
        value = objective(problem, residuals_of(problem, W), size)
        bound = max(before.bound, _bound(problem, residuals, fit.rho / 2 * U))
        factor = 1.0
        if n_steps >= FIRST_CHANGE and n_steps.bit_count() == 1:
            factor = _change_of_penalty(V, W, before.W, U)
        return ADMMState(
            objective=value,
            residual=relative_gap(value, bound),
            W=W,
            U=U / factor,
            rho=fit.rho * factor,
            bound=bound,
            n_steps=n_steps,
        )

    residuals = residuals_of(problem, W)
    slope = problem.stacks.adjoint(residuals)
    value = objective(problem, residuals, problem.norm.norm(W))
    bound = _bound(problem, residuals, slope)
    start = ADMMState(
        objective=value,
        residual=relative_gap(value, bound),
        W=W,
        U=2 / fit.rho * slope,
        rho=fit.rho,
        bound=bound,
        n_steps=0,
    )
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


@dataclass(frozen=True, slots=True, eq=False)
class _ProximalFit:
    """The map from W (T, d) to argmin loss(V) + ρ/2 ‖V − W‖².

    Parameters
    ----------
    inverses
        (2 XᵀX + ρI)⁻¹ of every block, (g, d, d) for each stack; (2 XXᵀ + ρI)⁻¹, (g, n, n), if it
        has fewer rows than columns.
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
        inverses = []
        for G in stacks.inner_products:
            ridge = rho * np.eye(G.shape[-1])
            of_stack = np.empty_like(G)
            for t, gram in enumerate(G):
                of_stack[t] = inverse_of_definite(2 * gram + ridge)
            inverses.append(of_stack)
        return cls(stacks, inverses, 2 * stacks.adjoint([part.Y for part in stacks.parts]), rho)

    def __call__(self, W: Array) -> tuple[Array, list[Array]]:
        """Return V (T, d), and its residuals (g, n, m) for each stack, unless it has inverses."""
        V, residuals = np.empty_like(W), []
        for part, M in zip(self.stacks.parts, self.inverses, strict=True):
            w = part.gather(W)
            if part.X.shape[1] < self.stacks.n_features:
                R = self.rho * M @ (part.Y - part.X @ np.swapaxes(w, 1, 2))
                V[part.columns] = w + 2 / self.rho * (np.swapaxes(R, 1, 2) @ part.X)
                residuals.append(R)  # y − X V would cancel for few rows and a small γ
            else:
                v = (part.gather(self.target) + self.rho * w) @ M
                V[part.columns] = v
                if self.stacks.inverses is None:
                    residuals.append(part.Y - part.X @ np.swapaxes(v, 1, 2))
        return V, residuals


def _change_of_penalty(V: Array, W: Array, W_before: Array, U: Array) -> float:
    """Return the factor of ρ that balances the residuals; 1 if they are nearly balanced."""
    primal = np.linalg.norm(V - W) / max(np.linalg.norm(V), np.linalg.norm(W), TINY)
    dual = np.linalg.norm(W - W_before) / max(np.linalg.norm(U), TINY)
    if primal == 0 or dual == 0:
        return 1.0
    factor = float(np.clip(math.sqrt(primal / dual), 1 / MAX_CHANGE, MAX_CHANGE))
    return factor if max(factor, 1 / factor) > MIN_CHANGE else 1.0


def _least_squares_fit(stacks: Stacks) -> Array:
    W = np.zeros((stacks.n_columns, stacks.n_features))
    if stacks.inverses is not None:
        for part, inverse in zip(stacks.parts, stacks.inverses, strict=True):
            W[part.columns] = np.swapaxes(inverse @ part.Y, 1, 2)
    return W


def _bound(problem: SquareProblem, residuals: list[Array], Z: Array) -> float:
    """Return the dual value of residuals with XᵀR = Z; of the given R if there may be none."""
    stacks = problem.stacks
    if stacks.inverses is None:
        return lower_bound(problem, residuals, stacks.adjoint(residuals))
    residuals = [
        np.swapaxes(part.gather(Z) @ inverse, 1, 2)
        for part, inverse in zip(stacks.parts, stacks.inverses, strict=True)
    ]
    return lower_bound(problem, residuals, Z)


def _penalty(stacks: Stacks) -> float:
    """Return the first ρ: the geometric mean of arithmetic and harmonic mean of the curvatures.

    Without inverses some curvatures are 0, and it is the arithmetic mean.
    """
    total = sum(float(np.vdot(part.X, part.X)) for part in stacks.parts)
    n = stacks.n_features * sum(len(part.X) for part in stacks.parts)
    if stacks.inverses is None:
        return 2 * total / n if total > 0 else 1.0
    return 2 * math.sqrt(total / sum(float(np.vdot(inv, inv)) for inv in stacks.inverses))
