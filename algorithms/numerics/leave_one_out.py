"""What ridge regression predicts for each row if it had been left out, without refitting."""

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.centering import column_means

Array = NDArray[np.float64]

#: 1 − h below this is zero: the row alone determines a direction, and nothing is left to tell.
LEAST_FREEDOM = 1e-12


def leave_one_out_errors(A: Array, Y: Array, *, ridge: float, has_intercept: bool) -> Array:
    """Give y_i − f_{−i}(x_i) for ridge regression, (n, m).

    The residual divided by 1 − h_i, h the diagonal of the hat matrix: with Q = AAᵀ + γI and
    c = Q⁻¹y it is c_i / (Q⁻¹)_ii. The mean, where there is an intercept, adds 1/n to h.

    Parameters
    ----------
    A : (n, p)
        Rows; centred by the function where there is an intercept.
    Y : (n, m)
    ridge
        γ of ‖Y − AV‖² + γ‖V‖².
    """
    n, p = A.shape
    share = 0.0
    if has_intercept:
        A, Y, share = A - column_means(A), Y - column_means(Y), 1.0 / n
    if p <= n:
        M = A.T @ A + ridge * np.eye(p)
        B = np.linalg.solve(M, A.T)
        residuals, free = Y - A @ (B @ Y), 1.0 - np.einsum("np,pn->n", A, B) - share
    else:
        inverse = np.linalg.inv(A @ A.T + ridge * np.eye(n))
        residuals, free = ridge * inverse @ Y, ridge * np.diag(inverse) - share
    return residuals / np.where(free > LEAST_FREEDOM, free, np.nan)[:, np.newaxis]
