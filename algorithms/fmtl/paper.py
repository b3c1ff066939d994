"""Output-kernel learning as the paper states it: Algorithm 1, Fast MTL-SDCA.

Jawanpuria, Lapin, Hein, Schiele, *Efficient Output Kernel Learning for Multiple Tasks*, NIPS 2015,
https://arxiv.org/abs/1511.05706. V(Θ) = ½ Σ|Θ_rs|^p with p = 2k/(2k-1), as Theorem 3 needs it; the
losses are 'squared', ½(y - f)², and 'hinge', max(0, 1 - yf). C weighs the losses, λ weighs V. The
tests compare it with ``algorithm.py``.
"""

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

Array = NDArray[np.float64]
Tasks = NDArray[np.intp]


def fit(
    K: Array, y: Array, t: Tasks, *, C: float, lam: float, k: int, loss: str, epsilon: float
) -> Array:
    """Return α as A (n, T), with α_i at (i, t_i): n examples, Gram matrix K, targets y, tasks t."""
    rng, A, gap = np.random.default_rng(0), np.zeros((len(y), t.max() + 1)), np.inf  # initialise α
    while gap > epsilon:  # until the relative duality gap, computed after n steps, is below ε
        for i in rng.integers(len(y), size=len(y)):  # randomly choose a dual variable α_i
            r, a, b, c = t[i], K[i, i], K[i] @ A, A.T @ K @ A  # as in eq. 13
            # C times eq. 13 without its constant, as polynomials of Δ, and its derivative
            terms = [2 * Polynomial([c[r, s], b[s]]) ** (2 * k) for s in range(len(c)) if s != r]
            terms.append(Polynomial([c[r, r], 2 * b[r], a]) ** (2 * k))
            slope = eta(lam, k) * sum(terms, Polynomial([0.0])).deriv() - y[i]
            if loss == "squared":
                slope += Polynomial([A[i, r], 1.0]) / C
            roots = slope.roots()  # eq. 13 is convex in Δ: the slope has one real root
            Delta = roots[np.argmin(np.abs(roots.imag))].real
            low, high = sorted((0.0, C * y[i])) if loss == "hinge" else (-np.inf, np.inf)
            A[i, r] = np.clip(A[i, r] + Delta, low, high)  # α_i ← α_i + Δ, where L* is finite
        primal, dual = objectives(K, y, t, A, C=C, lam=lam, k=k, loss=loss)
        gap = (primal - dual) / primal
    return A


def eta(lam: float, k: int) -> float:
    """Return λ/(4k-2) ((2k-1)/(2kλ))^2k, the factor in eq. 11; C times the η of eq. 13."""
    return float(lam / (4 * k - 2) * ((2 * k - 1) / (2 * k * lam)) ** (2 * k))


def output_kernel(K: Array, A: Array, *, lam: float, k: int) -> Array:
    """Return Θ (T, T), eq. 10."""
    return np.asarray(((2 * k - 1) / (2 * k * lam) * (A.T @ K @ A)) ** (2 * k - 1))


def objectives(
    K: Array, y: Array, t: Tasks, A: Array, *, C: float, lam: float, k: int, loss: str
) -> tuple[float, float]:
    """Return the objective of eq. 6 for the Θ and β of α (eq. 10, Lemma 2), and of eq. 11."""
    Theta, c, kappa = output_kernel(K, A, lam=lam, k=k), A.T @ K @ A, A.sum(axis=1) / C
    F = (K @ A @ Theta)[np.arange(len(y)), t]  # Lemma 2
    L = 0.5 * (y - F) ** 2 if loss == "squared" else np.maximum(1 - y * F, 0.0)
    conjugate = -y * kappa + (0.5 * kappa**2 if loss == "squared" else 0.0)  # L*(-α_i/C)
    V = 0.5 * np.sum(np.abs(Theta) ** (2 * k / (2 * k - 1)))
    primal = C * L.sum() + 0.5 * np.sum(Theta * c) + lam * V
    return float(primal), float(-C * conjugate.sum() - eta(lam, k) * np.sum(c ** (2 * k)))
