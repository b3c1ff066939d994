"""Solver for squared loss, p = 2, shared rows and few outputs, by conjugate gradients.

For θ = V diag(θ) Vᵀ the machines are T systems (I + θ_j K)κ̃_j = ỹ_j. Conjugate gradients solve
them together, with one product of K with all systems per step, and drop systems that have
converged. The preconditioner is the same Nyström approximation of K for every θ_j. The initial θ
solves the spectral problem of this approximation, which costs little and leaves one to three outer
steps. Products use single precision if that suffices for the gap.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from algorithms.families.kernel_machines.building import Solution
from algorithms.families.kernel_machines.problem import Problem
from algorithms.fmtl.iterate import (
    best_exponent,
    eigenvalue_floor,
    next_exponent,
    penalty_gap,
    solution_at,
    update_theta,
)
from algorithms.fmtl.spectral import TargetSpectrum, evaluate_theta, maximise_dual
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import ROUNDING, relative_gap

#: In single or double precision.
Matrix = NDArray[np.floating[Any]]

#: Maximum number of landmarks of the preconditioner.
MAX_LANDMARKS = 300
#: Number of rows per landmark.
ROWS_PER_LANDMARK = 8
#: Maximum number of conjugate-gradient steps for one θ.
MAX_INNER = 500
#: Share of the allowed gap for the inner residuals.
INNER_GAP_FRACTION = 0.05
#: Smallest tolerance, and number of rows, for single precision, whose products have errors of 1e-7.
SINGLE_TOLERANCE = 1e-5
MIN_SINGLE_ROWS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Preconditioner:
    """K ~ Q S Qᵀ + μ(I - QQᵀ).

    Parameters
    ----------
    Qt : (m, N)
        Orthonormal rows.
    S : (m,)
    mu
        Mean of the remaining eigenvalues.
    """

    Qt: Array
    S: Array
    mu: float

    def apply(self, R: Array, theta: Array) -> Array:
        """Return (I + θ_j K)⁻¹ R_j for the approximate K, row by row; R (T, N), theta (T,)."""
        outside = 1.0 / (1.0 + theta * self.mu)
        inside = 1.0 / (1.0 + np.outer(theta, self.S)) - outside[:, np.newaxis]
        result = ((R @ self.Qt.T) * inside) @ self.Qt
        result += outside[:, np.newaxis] * R
        return np.asarray(result)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternatingState(LoopState):
    """An estimate of θ, with the kernel machines that are optimal for it.

    Parameters
    ----------
    values : (T,)
        Eigenvalues of θ.
    V : (T, T)
        Eigenvectors of θ.
    kappa : (T, N)
        Dual variables of the machines.
    g : (T, T)
        Gram matrix of the outputs in the basis V, VᵀgV.
    dual
        Best dual value so far, divided by C.
    gap
        Duality gap, divided by C.
    """

    values: Array
    V: Array
    kappa: Array
    g: Array
    dual: float
    gap: float
    #: Exponent of the next step; 0 if not known yet.
    exponent: float = 0.0


def solve_alternating(
    problem: Problem, *, seed: int, max_iter: int, tolerance: float, trace: Trace
) -> Solution:
    """Return the solution for squared loss, p = 2 and shared rows."""
    e, C, s = problem.examples, problem.kernel.C, problem.kernel.rule[2]
    assert problem.K is not None
    Y = e.y.reshape(e.n_outputs, -1)
    is_single = tolerance >= SINGLE_TOLERANCE and len(e.X) >= MIN_SINGLE_ROWS
    rounding = SINGLE_TOLERANCE if is_single else ROUNDING
    K: Matrix = problem.K.astype(np.float32) if is_single else problem.K
    nystrom = nystrom_preconditioner(problem.K, rng=np.random.default_rng(seed))
    QY = nystrom.Qt @ Y.T
    spectrum = TargetSpectrum(nystrom.S, QY, Y @ Y.T - QY.T @ QY, nystrom.mu)
    first = maximise_dual(
        spectrum, s=s, C=C, max_iter=50, tolerance=0.1 * tolerance, trace=Trace(), loop="nystrom"
    )
    allowed = INNER_GAP_FRACTION * tolerance * max(first.dual, 1e-300) / e.n_outputs

    def state(values: Array, V: Array, start: Array | None, best: float) -> AlternatingState:
        rotated = V.T @ Y
        X, residual = _machines(
            K, nystrom, rotated, values, start=None if start is None else V.T @ start,
            allowed=allowed,
        )  # fmt: skip
        g = _multiply(X, K) @ X.T
        g = (g + g.T) / 2
        dual = float(np.vdot(X, rotated)) - 0.5 * float(np.vdot(X, X))
        dual -= s / 4.0 * float(np.vdot(g, g))
        primal = dual + penalty_gap(np.diag(values), g, s=s) + residual
        best = max(best, dual)
        gap = relative_gap(primal, primal - best, rounding=rounding)
        return AlternatingState(
            objective=C * best, residual=gap, values=values, V=V, kappa=V @ X, g=g, dual=best,
            gap=primal - best,
        )  # fmt: skip

    def step(before: AlternatingState) -> AlternatingState:
        exponent = before.exponent
        if exponent == 0.0:
            exponent = best_exponent(evaluate_theta(spectrum, before.values, before.V, s=s).slope)
        values, V = update_theta(before.values, before.V, before.g, s=s, exponent=exponent)
        values = values + eigenvalue_floor(values, before.gap, s=s, rank=len(e.X))
        after = state(values, V, before.kappa, before.dual)
        return replace(after, exponent=next_exponent(before, after))

    end = trace.run(
        "alternating", step, state(first.values, first.V, None, -np.inf), max_iter=max_iter,
        tolerance=tolerance,
    )  # fmt: skip
    theta = (end.V * end.values) @ end.V.T
    return solution_at(problem, end.kappa.ravel(), theta, reason=trace.stop_reason)


def nystrom_preconditioner(K: Array, *, rng: np.random.Generator) -> Preconditioner:
    """Return the Nyström approximation of K (N, N) by random columns."""
    N = len(K)
    m = max(min(MAX_LANDMARKS, N // ROWS_PER_LANDMARK), 1)
    chosen = np.sort(rng.choice(N, m, replace=False))
    columns = K[chosen]
    jitter = 1e-10 * max(float(np.trace(K)) / N, 1e-300) * m
    L = np.linalg.cholesky(columns[:, chosen] + jitter * np.eye(m))
    Zt = solve_triangular(L, columns, lower=True, check_finite=False)
    S, V = np.linalg.eigh(Zt @ Zt.T)
    is_kept = 1e-9 * max(float(S[-1]), 1e-300) < S
    S, V = S[is_kept], V[:, is_kept]
    Qt = (V / np.sqrt(S)).T @ Zt
    left = max(float(np.trace(K)) - float(S.sum()), 0.0)
    return Preconditioner(np.ascontiguousarray(Qt), S, left / max(N - len(S), 1))


def _machines(
    K: Matrix,
    nystrom: Preconditioner,
    rotated: Array,
    values: Array,
    *,
    start: Array | None,
    allowed: float,
) -> tuple[Array, float]:
    """Return the solution X (T, N) of (I + θ_j K)x_j = ỹ_j, and half the squared residual.

    Parameters
    ----------
    rotated : (T, N)
        Targets ỹ in the basis of eigenvectors of θ.
    values : (T,)
        Eigenvalues of θ.
    allowed
        Half squared residual below which a system has converged.
    """
    X = nystrom.apply(rotated, values) if start is None else start
    R = rotated - X - values[:, np.newaxis] * _multiply(X, K)
    P = np.zeros_like(X)
    old = np.ones(len(X))
    active = np.flatnonzero(0.5 * np.einsum("ij,ij->i", R, R) > allowed)
    for i in range(MAX_INNER):
        if not active.size:
            break
        r, t = R[active], values[active]
        z = nystrom.apply(r, t)
        rho = np.einsum("ij,ij->i", r, z)
        p = z if i == 0 else z + (rho / old[active])[:, np.newaxis] * P[active]
        Ap = p + t[:, np.newaxis] * _multiply(p, K)
        step = rho / np.einsum("ij,ij->i", p, Ap)
        X[active] += step[:, np.newaxis] * p
        r -= step[:, np.newaxis] * Ap
        R[active], P[active], old[active] = r, p, rho
        active = active[0.5 * np.einsum("ij,ij->i", r, r) > allowed]
    return X, 0.5 * float(np.vdot(R, R))


def _multiply(X: Array, K: Matrix) -> Array:
    """Return XK (T, N) in the precision of K."""
    if K.dtype == np.float64:
        return np.asarray(X @ K)
    return (X.astype(np.float32) @ K).astype(np.float64)
