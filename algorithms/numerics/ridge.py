"""Ridge regression, by the smaller of the primal and the dual linear system."""

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.centering import column_means

Array = NDArray[np.float64]


def ridge_regression(
    A: Array, Y: Array, *, ridge: float, has_intercept: bool
) -> tuple[Array, Array]:
    """Return V (p, m) and b (m,) that minimise ‖Y − AV − b‖² + ridge‖V‖²; b = 0 without intercept.

    Parameters
    ----------
    A : (n, p)
    Y : (n, m)
    """
    mean, mean_Y = np.zeros(A.shape[1]), np.zeros(Y.shape[1])
    if has_intercept:
        mean, mean_Y = column_means(A), column_means(Y)
    A, Y = A - mean, Y - mean_Y
    n, p = A.shape
    if p <= n:
        V = np.linalg.solve(A.T @ A + ridge * np.eye(p), A.T @ Y)
    else:
        V = A.T @ np.linalg.solve(A @ A.T + ridge * np.eye(n), Y)
    return np.asarray(V), mean_Y - mean @ V
