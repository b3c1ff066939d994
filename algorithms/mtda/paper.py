"""MTDA as the paper states it: the alternation for eq. 3, with Table 1 as printed.

Zhang, Yeung, *Multi-Task Learning in Heterogeneous Feature Spaces*, AAAI 2011,
doi:10.1609/aaai.v25i1.7909. Steps 2.3 and 2.4 are wrong for d' > d (``alternation.py``): the ratio
then falls in some steps. The tests compare it with ``algorithm.py``; nothing else uses it.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def fit(
    S_b: list[Array], S_t: list[Array], W: list[Array], P: Array, *, n_rounds: int, n_iter: int
) -> tuple[list[Array], Array]:
    """Return the W_i (d_i, d') and P (d', d) of eq. 3, from given starts, by scatter matrices."""
    d, W = P.shape[1], list(W)
    for _ in range(n_rounds):  # repeated until convergence
        for i in range(len(W)):  # optimise W_i, eq. 4, with a = a_i and b = b_i
            others = [j for j in range(len(W)) if j != i]
            a, b = (sum(trace(S[j], W[j] @ P) for j in others) / d for S in (S_b, S_t))
            eye = np.eye(len(S_b[i]))
            W[i] = table_1(S_b[i] + a * eye, S_t[i] + b * eye, P @ P.T, W[i], n_iter=n_iter)
        B = np.sum([w.T @ s @ w for s, w in zip(S_b, W, strict=True)], axis=0)
        T = np.sum([w.T @ s @ w for s, w in zip(S_t, W, strict=True)], axis=0)
        for _ in range(n_iter):  # optimise P, eq. 6, by the iteration below eq. 2
            P = top(B - trace(B, P) / trace(T, P) * T, d)
    return W, P


def table_1(S_b: Array, S_t: Array, M: Array, W: Array, *, n_iter: int) -> Array:
    """Return the W_i of eq. 7 by Table 1, for S_b and S_t with their shifts (eq. 5)."""
    d_prime = W.shape[1]  # 1: W is the initial W_i
    U_b = top(M, d_prime)
    for _ in range(n_iter):  # 2
        previous = W
        alpha = np.trace(W.T @ S_b @ W @ M) / np.trace(W.T @ S_t @ W @ M)  # 2.1
        W = top(S_b - alpha * S_t, d_prime) @ U_b.T  # 2.2, by Theorem 1 with Q = I
        S = W @ W.T @ S_t @ W @ W.T  # 2.3
        W = top(S, d_prime)  # 2.4
        if np.linalg.norm(W - previous) <= 1e-4:  # 2.5
            break
    return W


def objective(S_b: list[Array], S_t: list[Array], W: list[Array], P: Array) -> float:
    """Return the ratio of eq. 3."""
    B, T = (sum(trace(s, w @ P) for s, w in zip(S, W, strict=True)) for S in (S_b, S_t))
    return B / T


def trace(S: Array, U: Array) -> float:
    """Return tr(UᵀSU)."""
    return float(np.trace(U.T @ S @ U))


def top(A: Array, n: int) -> Array:
    """Return the eigenvectors of the n largest eigenvalues, in descending order."""
    return np.asarray(np.linalg.eigh(A)[1][:, ::-1][:, :n])
