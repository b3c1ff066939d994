"""TLVM as the paper states it: Table 1 with the objective as printed, for given active rows.

Gao, Wang, Li, Tao, *Transfer latent variable model based on divergence analysis*, Pattern
Recognition 44, 2011. Eqs. 22 and 23 are corrected (``docs/explanation/papers.md``); conjugate
gradients replace scaled conjugate gradients. The tests compare it with ``algorithm.py``.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]


def fit(Y: Array, Y_t: Array, L: int, *, tol: float) -> tuple[Array, Array, Array]:
    """Return ln θ (3,), X and X_t (r, L) for centred active rows Y and Y_t (r, D)."""
    theta, X = np.zeros(3), gp_lvm(Y, L)[1]  # initialisation: X, X_t through GP-LVM, Θ = [1, 1, 1]
    X_t = gp_lvm(Y_t, L)[1]

    def by_theta(z: Array) -> tuple[float, Array]:
        return objective(Y, z, X, X_t)[:2]

    def by_latents(z: Array) -> tuple[float, Array]:
        return objective(Y, theta, X, z.reshape(X_t.shape))[::3]

    previous = np.inf * X_t
    while np.sum((X_t - previous) ** 2) > tol:  # steps 1 to 3, and 5: objective has both terms
        theta = np.array(minimize(by_theta, theta, jac=True, method="CG").x)  # step 4
        end = minimize(by_latents, X_t.ravel(), jac=True, method="CG").x  # step 6
        previous, X_t = X_t, end.reshape(X_t.shape)
    return theta, X, X_t


def gp_lvm(Y: Array, L: int) -> tuple[Array, Array]:
    """Return ln θ and X (r, L) that minimise L(X, θ), eq. 11, from the principal components."""
    X = Y @ np.linalg.svd(Y, full_matrices=False)[2][:L].T
    X = X / np.sqrt(np.mean(np.sum(X**2, axis=1)))

    def likelihood(z: Array) -> tuple[float, Array]:
        x = z[3:].reshape(X.shape)
        value, by_theta, by_X, _ = objective(Y, z[:3], x, x)  # D = 0 for X_t = X
        return value, np.concatenate([by_theta, by_X])

    z = minimize(likelihood, np.append(np.zeros(3), X), jac=True, method="CG").x
    return z[:3], z[3:].reshape(X.shape)


def objective(Y: Array, theta: Array, X: Array, X_t: Array) -> tuple[float, Array, Array, Array]:
    """Return F, eqs. 17 and 18, and its derivatives by ln θ, X and X_t."""
    (r, D), (a, g, w) = Y.shape, np.exp(theta)
    squares = [np.sum((x[:, np.newaxis] - x) ** 2, axis=2) for x in (X, X_t)]
    K, K_t = (a * np.exp(-g / 2 * s) + w * np.eye(r) for s in squares)  # eq. 2
    P, P_t, S = np.linalg.inv(K), np.linalg.inv(K_t), Y @ Y.T
    value = D / 2 * (r * np.log(2 * np.pi) + np.linalg.slogdet(K_t)[1]) + np.sum(P * S) / 2
    value += D / 2 * np.sum(P_t * (K - K_t))
    by_K = D / 2 * P_t - P @ S @ P / 2, D / 2 * (P_t - P_t @ K @ P_t)  # eq. 22
    W = [G * (k - w * np.eye(r)) for G, k in zip(by_K, (K, K_t), strict=True)]
    by_theta = np.sum(W), -g / 2 * np.sum(np.multiply(W, squares)), w * np.trace(by_K[0] + by_K[1])
    by_X = [2 * g * (V @ x - V.sum(1)[:, np.newaxis] * x) for V, x in zip(W, (X, X_t), strict=True)]
    return float(value), np.array(by_theta), by_X[0].ravel(), by_X[1].ravel()  # eqs. 21 and 24
