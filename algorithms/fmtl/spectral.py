"""Squared loss, p = 2, shared rows: everything in the eigenvectors of K, computed once.

K = Q S Qᵀ, θ = V diag(θ) Vᵀ: the machines (K ⊗ θ + I)κ = y decouple entry by entry,
κ̃_ij = ỹ_ij/(1 + S_i θ_j) with Ỹ = QᵀYV. One step of θ costs two products (N, T)(T, T), one
(T, N)(N, T) and eigendecompositions (T, T); two to six steps. What S leaves out of Y has a common
eigenvalue μ: 0 for the complement of features, the mean of the rest for an approximate S.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.fmtl.iterate import (
    best_exponent,
    eigenvalue_floor,
    next_exponent,
    penalty_gap,
    solution_at,
    update_theta,
)
from algorithms.interface.trace import LoopState, Trace
from algorithms.kernel_machines.ascent import Problem
from algorithms.kernel_machines.building import Solution
from algorithms.numerics.gaps import relative_gap

Array = NDArray[np.float64]
#: Eigenvalues (m,) and eigenvectors (m, m), rising.
Eigen = tuple[Array, Array]

#: Eigenvalues below this part of the largest are 0.
RANK_RTOL = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Targets in the eigenvectors of a kernel.

    Parameters
    ----------
    S : (m,)
        Eigenvalues.
    Y : (m, T)
        QᵀY.
    rest : (T, T)
        Products of what is left of the targets.
    mu
        Its eigenvalue.
    """

    S: Array
    Y: Array
    rest: Array
    mu: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ThetaEvaluation:
    """All machines for one θ.

    Parameters
    ----------
    g : (T, T)
        VᵀgV, in the eigenvectors of θ.
    dual
        Value of the dual over C.
    slope
        Of log g when all of θ is scaled.
    """

    g: Array
    dual: float
    slope: float


def evaluate_theta(spectrum: Spectrum, values: Array, V: Array, *, s: float) -> ThetaEvaluation:
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
    """θ as eigenvalues (T,) and eigenvectors (T, T), VᵀgV, best dual value and gap over C."""

    values: Array
    V: Array
    g: Array
    dual: float
    gap: float
    exponent: float


def isotropic_theta(spectrum: Spectrum, *, s: float) -> float:
    """Return τ = s tr(g)/T of θ = τI: where Θ = 0 every gradient of Θ vanishes."""
    T = len(spectrum.rest)
    energy = np.append((spectrum.Y**2).sum(axis=1), np.trace(spectrum.rest)) / T
    S = np.append(spectrum.S, spectrum.mu)

    def excess(log_tau: float) -> float:
        shrunk = 1.0 / (1.0 + S * np.exp(log_tau))
        return float(np.log(s * max(float((S * energy) @ shrunk**2), 1e-300)) - log_tau)

    low, high = -600.0, 600.0
    for _ in range(80):  # excess falls with log τ
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return float(np.exp(low))


def maximise_dual(
    spectrum: Spectrum, *, s: float, C: float, max_iter: int, tolerance: float, trace: Trace,
    loop: str = "spectral",
) -> ThetaState:  # fmt: skip
    """Return the θ at which the relative gap is below the tolerance."""

    def state(values: Array, V: Array, best: float) -> ThetaState:
        found = evaluate_theta(spectrum, values, V, s=s)
        gap = penalty_gap(np.diag(values), found.g, s=s)
        primal = found.dual + gap
        best = max(best, found.dual)
        residual = relative_gap(primal, primal - best)
        return ThetaState(
            objective=C * best, residual=residual, values=values, V=V, g=found.g, dual=best,
            gap=primal - best,
            exponent=best_exponent(found.slope),
        )  # fmt: skip

    def step(before: ThetaState) -> ThetaState:
        values, V = update_theta(before.values, before.V, before.g, s=s, exponent=before.exponent)
        values = values + eigenvalue_floor(values, before.gap, s=s, rank=len(spectrum.S))
        after = state(values, V, before.dual)
        return replace(after, exponent=next_exponent(before, after))

    T = len(spectrum.rest)
    start = state(np.full(T, isotropic_theta(spectrum, s=s)), np.eye(T), -np.inf)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def spectrum_of(eigen: Eigen, Y: Array) -> tuple[Spectrum, Array]:
    """Return the spectrum of a kernel matrix (N, N) with targets Y (N, T), and Q (N, m)."""
    S, Q = eigen
    is_kept = RANK_RTOL * max(float(S[-1]), 0.0) < S
    S, Q = S[is_kept], Q[:, is_kept]
    return _spectrum(S, Q.T @ Y, Y), Q


def spectrum_of_features(eigen: Eigen, Z: Array, Y: Array) -> tuple[Spectrum, Array]:
    """Return the spectrum of ZZᵀ from that of ZᵀZ (q, q), and the map M (q, m) with Q = Z M."""
    S, V = eigen
    is_kept = RANK_RTOL * max(float(S[-1]), 0.0) < S
    S = S[is_kept]
    M = V[:, is_kept] / np.sqrt(S)
    return _spectrum(S, M.T @ (Z.T @ Y), Y), M


def solve_spectral(
    problem: Problem, eigen: Eigen, *, max_iter: int, tolerance: float, trace: Trace
) -> Solution:
    """Return the solution of squared loss, p = 2 and shared rows.

    Parameters
    ----------
    eigen
        Of the kernel matrix, or of XᵀX for features.
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


def _spectrum(S: Array, QY: Array, Y: Array) -> Spectrum:
    rest = Y.T @ Y - QY.T @ QY
    values, V = np.linalg.eigh((rest + rest.T) / 2)
    return Spectrum(S, QY, (V * np.maximum(values, 0.0)) @ V.T)
