"""RMT-PCA as the paper states it: Riemannian gradient ascent on eq. 4 by the steps of section 2.4.

Yamane, Yger, Berar, Sugiyama, *Multitask Principal Component Analysis*, ACML 2016,
https://proceedings.mlr.press/v63/yamane65.html. The paper has no algorithm box; it prints these
steps (as "descent", with the same direction), and runs a trust-region method of a library on the
same gradient. The tests compare it with ``algorithm.py``; nothing else uses it.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def fit(C: Array, U: Array, lam: float, *, n_iter: int, tol: float) -> Array:
    """Return bases (T, d, k) at a local maximum of eq. 4, from bases U and covariances C (T, d, d).

    Take at most n_iter steps, until the Riemannian gradient is tol times the Euclidean one.
    """
    step = 1.0
    for _ in range(n_iter):
        J, D = objective(C, U, lam), gradient(C, U, lam)
        H = D - U @ (transpose(U) @ D)  # step 1: the Riemannian gradient
        if np.linalg.norm(H) <= tol * np.linalg.norm(D):
            break
        step, slope = 2.0 * step, float(np.sum(H**2))
        # step 2: search along the geodesic in direction H, with one step for all tasks: twice the
        # last, halved until J rises by a tenth of step * slope (Armijo); 1e-13 |J| is rounding
        while objective(C, geodesic(U, H, step), lam) < J + 0.1 * step * slope - 1e-13 * abs(J):
            step /= 2.0
        U = np.linalg.qr(geodesic(U, H, step))[0]  # orthonormal in spite of rounding
    return U


def objective(C: Array, U: Array, lam: float) -> float:
    """Return J, eq. 4: ½ Σ_t tr(U_tᵀC_tU_t) + λ/4 Σ_{s≠t} tr(U_sU_sᵀU_tU_tᵀ)."""
    P = U @ transpose(U)
    pairs = np.einsum("sij,tji->st", P, P)
    return float(0.5 * np.sum(C * P) + lam / 4 * (pairs.sum() - np.trace(pairs)))


def gradient(C: Array, U: Array, lam: float) -> Array:
    """Return D_{U_t}J of every task, eq. 5: C_tU_t + λ Σ_{s≠t} U_sU_sᵀU_t."""
    P = U @ transpose(U)
    return np.asarray(C @ U + lam * (P.sum(axis=0) - P) @ U)


def geodesic(U: Array, H: Array, step: float) -> Array:
    """Return U V cos(Σ step) Vᵀ + W sin(Σ step) Vᵀ, with H = WΣVᵀ, of every task (step 2)."""
    W, S, Vt = np.linalg.svd(H, full_matrices=False)
    S = S[:, np.newaxis] * step
    return np.asarray(((U @ transpose(Vt)) * np.cos(S) + W * np.sin(S)) @ Vt)


def transpose(A: Array) -> Array:
    """Return the transpose of every matrix of a stack."""
    return np.swapaxes(A, -1, -2)
