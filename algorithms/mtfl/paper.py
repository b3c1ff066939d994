"""Multi-task feature learning as the paper states it: Algorithm 1, for the square loss.

Argyriou, Evgeniou, Pontil, *Convex multi-task feature learning*, Machine Learning 2008,
doi:10.1007/s10994-007-5040-8. The tests compare it with ``algorithm.py``; nothing else uses it.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def fit(
    X: list[Array], y: list[Array], gamma: float, *, epsilon: float, tol: float
) -> tuple[Array, Array]:
    """Return W (d, T) and D (d, d) of Algorithm 1, for rows X_t (n_t, d) and targets y_t (n_t,)."""
    d, T = X[0].shape[1], len(X)
    D = np.eye(d) / d  # initial value: D = I_d / d
    W = np.zeros((d, T))
    W_prev = np.full((d, T), np.inf)
    while np.linalg.norm(W - W_prev) > tol:  # while the convergence condition is not met
        W_prev, W = W, np.zeros((d, T))
        for t in range(T):  # for t = 1, ..., T
            W[:, t] = w_t(X[t], y[t], D, gamma)
        D = root(W @ W.T + epsilon * np.eye(d))  # eq. 9; ε keeps D regular
        D = D / np.trace(D)
    return W, D


def w_t(X: Array, y: Array, D: Array, gamma: float) -> Array:
    """Return argmin Σ_i (y_i - ⟨w, x_i⟩)² + γ⟨w, D⁺w⟩ over w in range(D): ridge regression."""
    K = X @ D @ X.T
    return np.asarray(D @ X.T @ np.linalg.solve(K + gamma * np.eye(len(y)), y))


def root(A: Array) -> Array:
    """Return A^½ of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T)


def objective(X: list[Array], y: list[Array], gamma: float, W: Array, D: Array) -> float:
    """Return R(W, D), eq. 6: Σ_t Σ_i L(y_ti, ⟨w_t, x_ti⟩) + γ Σ_t ⟨w_t, D⁺w_t⟩."""
    loss = sum(float(np.sum((y[t] - X[t] @ W[:, t]) ** 2)) for t in range(len(X)))
    return loss + gamma * float(np.sum(W * (np.linalg.pinv(D, hermitian=True) @ W)))
