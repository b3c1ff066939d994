"""Solver for squared loss, p = 2 and shared rows, by one eigendecomposition of K.

With K = Q S Qᵀ and θ = V diag(θ) Vᵀ, the machines (K ⊗ θ + I)κ = y decouple entry by entry,
κ̃_ij = ỹ_ij/(1 + S_i θ_j) with Ỹ = QᵀYV. A step of θ costs two products (N, T)(T, T), one
(T, N)(N, T) and an eigendecomposition (T, T); two to six steps are needed. If Q has fewer than N
columns, K is μI outside the span of Q: μ is 0 if K has low rank because there are few features, or
the mean of the remaining eigenvalues if K is approximated.
"""

from dataclasses import dataclass, replace

import numpy as np

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
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import relative_gap

#: Eigenvalues (m,) in increasing order, and eigenvectors (m, m).
Eigen = tuple[Array, Array]

#: Eigenvalues below this, relative to the largest, count as 0.
RANK_RTOL = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class TargetSpectrum:
    """Targets in the basis of eigenvectors of a kernel matrix.

    Parameters
    ----------
    S : (m,)
        Eigenvalues.
    Y : (m, T)
        QᵀY.
    rest : (T, T)
        Gram matrix of the part of the targets outside the span of Q.
    mu
        Eigenvalue of that part.
    """

    S: Array
    Y: Array
    rest: Array
    mu: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ThetaEvaluation:
    """Values at the machines of one θ.

    Parameters
    ----------
    g : (T, T)
        VᵀgV, in the basis of eigenvectors of θ.
    dual
        Dual value divided by C.
    slope
        Slope m of log g when θ is scaled.
    """

    g: Array
    dual: float
    slope: float


def evaluate_theta(
    spectrum: TargetSpectrum, values: Array, V: Array, *, s: float
) -> ThetaEvaluation:
    """Return g, the dual value and the slope at θ with eigenvalues (T,) and eigenvectors (T, T)."""
    Y, E = spectrum.Y @ V, V.T @ spectrum.rest @ V
    shrunk = 1.0 / (1.0 + np.outer(spectrum.S, values))
    shrunk_rest = 1.0 / (1.0 + spectrum.mu * values)
    kappa = Y * shrunk
    scaled = kappa * spectrum.S[:, np.newaxis]
    R = E * np.outer(shrunk_rest, shrunk_rest)
    g = scaled.T @ kappa + spectrum.mu * R
    moved = scaled.T @ (kappa * (shrunk - 1.0)) + spectrum.mu * R * (shrunk_rest - 1.0)
    size = float(np.vdot(g, g))
    slope = 2.0 * float(np.vdot(moved, g)) / size if size > 0 else 0.0
    gain = float(np.vdot(kappa, Y)) - 0.5 * float(np.vdot(kappa, kappa))
    gain += float(np.diag(E) @ shrunk_rest) - 0.5 * float(np.trace(R))
    return ThetaEvaluation((g + g.T) / 2, gain - s / 4.0 * size, slope)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThetaState(LoopState):
    """An estimate of θ.

    Parameters
    ----------
    values : (T,)
        Eigenvalues of θ.
    V : (T, T)
        Eigenvectors of θ.
    g : (T, T)
        Gram matrix of the outputs in the basis V, VᵀgV.
    dual
        Best dual value so far, divided by C.
    gap
        Duality gap, divided by C.
    exponent
        Exponent of the next step.
    """

    values: Array
    V: Array
    g: Array
    dual: float
    gap: float
    exponent: float


def isotropic_theta(spectrum: TargetSpectrum, *, s: float) -> float:
    """Return the τ of the initial θ = τI, with τ = s tr(g)/T; Θ = 0 is a stationary point."""
    T = len(spectrum.rest)
    energy = np.append((spectrum.Y**2).sum(axis=1), np.trace(spectrum.rest)) / T
    S = np.append(spectrum.S, spectrum.mu)

    def excess(log_tau: float) -> float:
        shrunk = 1.0 / (1.0 + S * np.exp(log_tau))
        return float(np.log(s * max(float((S * energy) @ shrunk**2), 1e-300)) - log_tau)

    low, high = -600.0, 600.0
    for _ in range(80):  # bisection; excess decreases in log τ
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(np.exp(low))


def maximise_dual(
    spectrum: TargetSpectrum, *, s: float, C: float, max_iter: int, tolerance: float, trace: Trace,
    loop: str = "spectral",
) -> ThetaState:  # fmt: skip
    """Iterate θ until the relative gap is below the tolerance, and return the last state.

    Parameters
    ----------
    s
        Factor in the optimum θ = s g, C³/(2λ).
    loop
        Name of the loop in the trace.
    """

    def state(values: Array, V: Array, best: float) -> ThetaState:
        evaluation = evaluate_theta(spectrum, values, V, s=s)
        gap = penalty_gap(np.diag(values), evaluation.g, s=s)
        primal = evaluation.dual + gap
        best = max(best, evaluation.dual)
        residual = relative_gap(primal, primal - best)
        return ThetaState(
            objective=C * best, residual=residual, values=values, V=V, g=evaluation.g, dual=best,
            gap=primal - best,
            exponent=best_exponent(evaluation.slope),
        )  # fmt: skip

    def step(before: ThetaState) -> ThetaState:
        values, V = update_theta(before.values, before.V, before.g, s=s, exponent=before.exponent)
        values = values + eigenvalue_floor(values, before.gap, s=s, rank=len(spectrum.S))
        after = state(values, V, before.dual)
        return replace(after, exponent=next_exponent(before, after))

    T = len(spectrum.rest)
    start = state(np.full(T, isotropic_theta(spectrum, s=s)), np.eye(T), -np.inf)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def spectrum_of(eigen: Eigen, Y: Array) -> tuple[TargetSpectrum, Array]:
    """Return the spectrum of a kernel matrix (N, N) with targets Y (N, T), and Q (N, m)."""
    S, Q = eigen
    is_kept = RANK_RTOL * max(float(S[-1]), 0.0) < S
    S, Q = S[is_kept], Q[:, is_kept]
    return _spectrum(S, Q.T @ Y, Y), Q


def spectrum_of_features(eigen: Eigen, Z: Array, Y: Array) -> tuple[TargetSpectrum, Array]:
    """Return the spectrum of ZZᵀ from the eigendecomposition of ZᵀZ (q, q), and M with Q = Z M.

    M is (q, m).
    """
    S, V = eigen
    is_kept = RANK_RTOL * max(float(S[-1]), 0.0) < S
    S = S[is_kept]
    M = V[:, is_kept] / np.sqrt(S)
    return _spectrum(S, M.T @ (Z.T @ Y), Y), M


def solve_spectral(
    problem: Problem, eigen: Eigen, *, max_iter: int, tolerance: float, trace: Trace
) -> Solution:
    """Return the solution for squared loss, p = 2 and shared rows.

    Parameters
    ----------
    eigen
        Eigendecomposition of the kernel matrix, or of XᵀX for features.
    """
    e = problem.examples
    Y = e.y.reshape(e.n_outputs, -1).T
    s, C = problem.kernel.rule[2], problem.kernel.C
    if problem.K is None:
        spectrum, M = spectrum_of_features(eigen, e.X, Y)
    else:
        spectrum, M = spectrum_of(eigen, Y)
    end = maximise_dual(spectrum, s=s, C=C, max_iter=max_iter, tolerance=tolerance, trace=trace)
    V = end.V
    damped = spectrum.S[:, np.newaxis] * end.values
    fitted = M @ (((spectrum.Y @ V) * (damped / (1.0 + damped))) @ V.T)
    kappa = Y - (e.X @ fitted if problem.K is None else fitted)
    theta = (V * end.values) @ V.T
    return solution_at(problem, kappa.T.ravel(), theta, reason=trace.stop_reason)


def _spectrum(S: Array, QY: Array, Y: Array) -> TargetSpectrum:
    residual = Y.T @ Y - QY.T @ QY
    values, V = np.linalg.eigh((residual + residual.T) / 2)
    return TargetSpectrum(S, QY, (V * np.maximum(values, 0.0)) @ V.T)
