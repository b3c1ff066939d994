"""Ridge regression, by the smaller of the primal and the dual linear system."""

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_means, times_roots


def ridge_regression(
    A: Array, Y: Array, *, ridge: float, has_intercept: bool, weights: Array | None = None
) -> tuple[Array, Array]:
    """Return V (p, m) and b (m,) that minimise ‖Y − AV − b‖² + ridge‖V‖²; b = 0 without intercept.

    Parameters
    ----------
    A : (n, p)
    Y : (n, m)
    weights : (n,) or None
        Weights of the squared residuals of the rows; 1 by default.
    """
    mean, mean_Y = np.zeros(A.shape[1]), np.zeros(Y.shape[1])
    if has_intercept:
        mean, mean_Y = column_means(A, weights), column_means(Y, weights)
    A, Y = times_roots(A - mean, weights), times_roots(Y - mean_Y, weights)
    n, p = A.shape
    if p <= n:
        V = np.linalg.solve(A.T @ A + ridge * np.eye(p), A.T @ Y)
    else:
        V = A.T @ np.linalg.solve(A @ A.T + ridge * np.eye(n), Y)
    return np.asarray(V), mean_Y - mean @ V
