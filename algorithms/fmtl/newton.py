"""Solver for smooth losses, p = 2 and features: Newton's method on the primal problem for each θ.

With W = Aθ^{1/2}, the machines for one θ minimise Σ w L(y, xᵀW_t) + ½‖A‖² over A (q, T). Each
Newton system is solved by conjugate gradients on blocks X_tᵀ H_t X_t (q, q), at O(T q² + q T²) per
step, independent of n. The preconditioner is the exact inverse for the mean block in the
eigenvectors of θ. For n ≫ q and a large C, where dual methods need hundreds of passes.
"""

from dataclasses import dataclass, replace

import numpy as np

from algorithms.families.kernel_machines.building import Solution
from algorithms.families.kernel_machines.problem import Problem
from algorithms.fmtl.iterate import (
    eigenvalue_floor,
    next_exponent,
    penalty_gap,
    psd_power,
    solution_at,
)
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import relative_gap

#: Exponent of the outer step until a step increases the gap.
INITIAL_EXPONENT = 0.5
#: Maximum numbers of Newton steps, of conjugate-gradient steps, and of halvings of a step.
MAX_NEWTON = 50
MAX_INNER = 500
MAX_HALVINGS = 40
#: Relative accuracy of a Newton step; high, because directions with small θ must converge, too.
INNER_RTOL = 1e-10
#: Share of the allowed gap for the inner iteration.
INNER_GAP_FRACTION = 0.05
#: Additional factor for the gradient, because the gradient is small in directions with small θ.
GRADIENT_FACTOR = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class NewtonState(LoopState):
    """An estimate of θ, with the kernel machines that are optimal for it.

    Parameters
    ----------
    theta : (T, T)
    A : (q, T)
        Weights of the machines, Wθ^{-1/2}.
    kappa : (n,)
        Dual variables of the machines.
    dual
        Best dual value so far, divided by C.
    gap
        Duality gap, divided by C.
    exponent
        Exponent of the next step.
    """

    theta: Array
    A: Array
    kappa: Array
    dual: float
    gap: float
    exponent: float


def solve_newton(problem: Problem, *, max_iter: int, tolerance: float, trace: Trace) -> Solution:
    """Return the solution for a smooth loss, p = 2 and features."""
    e, loss, C, s = problem.examples, problem.loss, problem.kernel.C, problem.kernel.rule[2]
    T = e.n_outputs

    def state(theta: Array, A: Array, best: float) -> NewtonState:
        half = psd_power(theta, 0.5)
        goal = INNER_GAP_FRACTION * tolerance * max(best, 1e-6 * zero)
        A, kappa, U, gradient_term = _machines(problem, half, A, goal=goal)
        g = U.T @ U
        dual = float(loss.gains(e.y, kappa, e.w).sum()) - s / 4.0 * float(np.vdot(g, g))
        primal = dual + gradient_term + penalty_gap(theta, g, s=s)
        best = max(best, dual)
        gap = relative_gap(primal, primal - best)
        return NewtonState(
            objective=C * best,
            residual=gap,
            theta=theta,
            A=A,
            kappa=kappa,
            dual=best,
            gap=primal - best,
            exponent=INITIAL_EXPONENT,
        )

    def step(before: NewtonState) -> NewtonState:
        # θ^½ g θ^½ = AᵀA and θgθ = WᵀW avoid products of residuals, which cancel for large C
        W = before.A @ psd_power(before.theta, 0.5)
        if before.exponent == INITIAL_EXPONENT:
            theta = psd_power(s * (before.A.T @ before.A), INITIAL_EXPONENT)
        else:
            theta = psd_power(s * (W.T @ W), before.exponent)
        floor = eigenvalue_floor(np.diag(theta), before.gap, s=s, rank=e.X.shape[1])
        theta = theta + floor * np.eye(T)
        after = state(theta, W @ _inverse(psd_power(theta, 0.5)), before.dual)
        return replace(after, exponent=next_exponent(before, after))

    kappa = loss.kappas(e.y, np.zeros_like(e.y), e.w)
    zero = float(loss.values(e.y, np.zeros_like(e.y), e.w).sum())
    U = problem.products(kappa).T
    # Θ = 0 is a stationary point, so start from a τI that explains about half of all losses
    size = max(float(np.vdot(U, U)) / T, 1e-300)
    tau = min(s * size, zero / (T * size))
    end = trace.run(
        "newton", step, state(tau * np.eye(T), np.zeros_like(U), -np.inf), max_iter=max_iter,
        tolerance=tolerance,
    )  # fmt: skip
    W = end.A @ psd_power(end.theta, 0.5)
    return solution_at(problem, end.kappa, end.theta, reason=trace.stop_reason, W=W)


def _inverse(half: Array) -> Array:
    return np.asarray(np.linalg.pinv(half, rcond=1e-8, hermitian=True))


def _machines(
    problem: Problem, half: Array, A: Array, *, goal: float
) -> tuple[Array, Array, Array, float]:
    """Return A (q, T), κ, U (q, T), and half the squared gradient norm, for θ = half²."""
    value, kappa, U, curvature = _evaluate(problem, half, A)
    for _ in range(MAX_NEWTON):
        gradient = A - U @ half
        gradient_term = 0.5 * float(np.vdot(gradient, gradient))
        if gradient_term <= GRADIENT_FACTOR * goal:
            break
        D = _newton_step(problem, half, gradient, curvature)
        decrease = float(np.vdot(gradient, D))
        length = 1.0
        for _ in range(MAX_HALVINGS):
            trial = _evaluate(problem, half, A - length * D)
            if trial[0] <= value - 1e-4 * length * decrease:
                break
            length /= 2.0
        else:
            break  # no step decreases the value at working precision
        A = A - length * D
        value, kappa, U, curvature = trial
    gradient = A - U @ half
    return A, kappa, U, 0.5 * float(np.vdot(gradient, gradient))


def _evaluate(problem: Problem, half: Array, A: Array) -> tuple[float, Array, Array, Array]:
    """Return the loss plus ½‖A‖², κ (n,), U (q, T) and the curvatures of the loss (n,) at A."""
    e, loss = problem.examples, problem.loss
    W = A @ half
    F = np.concatenate([e.X[e.rows[r]] @ W[:, r] for r in range(e.n_outputs)])
    value = float(loss.values(e.y, F, e.w).sum()) + 0.5 * float(np.vdot(A, A))
    kappa = loss.kappas(e.y, F, e.w)
    return value, kappa, problem.products(kappa).T, loss.curvatures(e.y, F, e.w)


def _newton_step(problem: Problem, half: Array, gradient: Array, curvature: Array) -> Array:
    """Return D, which solves (Hessian) D = gradient by preconditioned conjugate gradients."""
    e = problem.examples
    blocks = np.stack([
        (e.X[e.rows[r]] * curvature[e.parts[r], np.newaxis]).T @ e.X[e.rows[r]]
        for r in range(e.n_outputs)
    ])  # fmt: skip
    theta_values, V = np.linalg.eigh(half)
    S, Q = np.linalg.eigh(blocks.mean(axis=0))
    damping = 1.0 + np.outer(np.maximum(S, 0.0), theta_values**2)

    def hessian(D: Array) -> Array:
        rotated = D @ half
        pushed = np.matmul(blocks, rotated.T[:, :, np.newaxis])[:, :, 0].T
        return np.asarray(D + pushed @ half)

    def precondition(R: Array) -> Array:
        return np.asarray(Q @ ((Q.T @ R @ V) / damping) @ V.T)

    D, R = np.zeros_like(gradient), gradient.copy()
    Z = precondition(R)
    P, rho = Z, float(np.vdot(R, Z))
    first = float(np.vdot(R, R))
    for _ in range(MAX_INNER):
        if float(np.vdot(R, R)) <= INNER_RTOL**2 * first:
            break
        AP = hessian(P)
        step = rho / float(np.vdot(P, AP))
        D = D + step * P
        R = R - step * AP
        Z = precondition(R)
        rho, old = float(np.vdot(R, Z)), rho
        P = Z + (rho / old) * P
    return D
