"""Divergences between Gaussians N(0, K) and N(0, K_t), with their gradients ∂/∂K and ∂/∂K_t.

All functions raise ``LinAlgError`` if a covariance is not positive definite. Banerjee et al. (2005)
and section 3.1 of Gao et al. (2010) call them Bregman divergences. For densities, the generalised
Kullback-Leibler divergence equals the Kullback-Leibler divergence, and the Itakura-Saito divergence
under dμ = q dy equals the reverse one.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.gp_terms import inverse_and_log_determinant

DivergenceName = Literal["kl", "reverse-kl", "jeffreys", "squared-l2", "bhattacharyya"]
#: Return the divergence of K and K_t (r, r), and its two gradients.
Divergence = Callable[[Array, Array], tuple[float, Array, Array]]


def kullback_leibler(K: Array, Kt: Array) -> tuple[float, Array, Array]:
    """Return ½ (ln|K_t| - ln|K| + tr(K_t⁻¹K) - r): eq. 14 of Gao et al. (2010)."""
    P, logarithm = inverse_and_log_determinant(K)
    Pt, logarithm_t = inverse_and_log_determinant(Kt)
    value = 0.5 * (logarithm_t - logarithm + float(np.vdot(Pt, K)) - len(K))
    return value, 0.5 * (Pt - P), 0.5 * (Pt - Pt @ K @ Pt)


def reverse_kullback_leibler(K: Array, Kt: Array) -> tuple[float, Array, Array]:
    """Return the Kullback-Leibler divergence with K and K_t exchanged."""
    value, by_Kt, by_K = kullback_leibler(Kt, K)
    return value, by_K, by_Kt


def jeffreys(K: Array, Kt: Array) -> tuple[float, Array, Array]:
    """Return the sum of both Kullback-Leibler divergences, ½ tr(K_t⁻¹K + K⁻¹K_t) - r."""
    P, _ = inverse_and_log_determinant(K)
    Pt, _ = inverse_and_log_determinant(Kt)
    value = 0.5 * float(np.vdot(Pt, K) + np.vdot(P, Kt)) - len(K)
    return value, 0.5 * (Pt - P @ Kt @ P), 0.5 * (P - Pt @ K @ Pt)


def bhattacharyya(K: Array, Kt: Array) -> tuple[float, Array, Array]:
    """Return ½ ln|(K + K_t)/2| - ¼ ln|K| - ¼ ln|K_t|."""
    P, logarithm = inverse_and_log_determinant(K)
    Pt, logarithm_t = inverse_and_log_determinant(Kt)
    middle, logarithm_m = inverse_and_log_determinant(0.5 * (K + Kt))
    value = 0.5 * logarithm_m - 0.25 * (logarithm + logarithm_t)
    return value, 0.25 * (middle - P), 0.25 * (middle - Pt)


def squared_l2(K: Array, Kt: Array) -> tuple[float, Array, Array]:
    """Return ∫(p - q)² / (∫p² + ∫q²) = 1 - 2eᶜ/(eᵃ + eᵇ), computed from logarithms.

    a = ln ∫p² = -½ ln|4πK|, b = ln ∫q² = -½ ln|4πK_t|, c = ln ∫pq = -½ ln|2π(K + K_t)|. This is
    eq. 5 of Gao et al. (2010), normalised to the range 0 to 1. As printed, it grows exponentially
    with r and overflows.
    """
    P, logarithm = inverse_and_log_determinant(K)
    Pt, logarithm_t = inverse_and_log_determinant(Kt)
    both, logarithm_b = inverse_and_log_determinant(K + Kt)
    # a, b, c without their common term -(r/2) ln 4π
    a, b, c = -0.5 * logarithm, -0.5 * logarithm_t, -0.5 * (logarithm_b - len(K) * np.log(2.0))
    total = float(np.logaddexp(a, b))
    overlap = float(np.exp(np.log(2.0) + c - total))
    share, share_t = np.exp(a - total), np.exp(b - total)
    by_K = 0.5 * overlap * (both - share * P)
    return 1.0 - overlap, by_K, 0.5 * overlap * (both - share_t * Pt)


DIVERGENCES: dict[DivergenceName, Divergence] = {
    "kl": kullback_leibler,
    "reverse-kl": reverse_kullback_leibler,
    "jeffreys": jeffreys,
    "squared-l2": squared_l2,
    "bhattacharyya": bhattacharyya,
}


def spectral_divergence(divergence: Divergence, K: Array, Kt: Array) -> tuple[float, Array, Array]:
    """Return the divergence of the sorted eigenvalues, and its gradients.

    It is the minimum over all rotations of K_t, for every divergence here: traces and determinants
    of sums are extreme if the eigenvectors agree in order (Ruhe 1970; Fiedler 1971). So rows of
    the two sides need not be paired.
    """
    values, V = np.linalg.eigh(K)
    values_t, Vt = np.linalg.eigh(Kt)
    value, by_K, by_Kt = divergence(np.diag(values), np.diag(values_t))
    return value, (V * np.diagonal(by_K)) @ V.T, (Vt * np.diagonal(by_Kt)) @ Vt.T
