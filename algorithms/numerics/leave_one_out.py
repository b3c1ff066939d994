"""What ridge regression predicts for each row if it had been left out, without refitting."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.centering import column_means

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: 1 − h below this is zero: the row alone determines a direction, and nothing is left to tell.
MIN_FREEDOM = 1e-12


def leave_one_out_errors(
    A: Array, Y: Array, *, ridge: float, has_intercept: bool, unit: Indices | None = None
) -> Array:
    """Return y_i − f_{−i}(x_i) for ridge regression, (n, m).

    The residual divided by 1 − h_i, h the diagonal of the hat matrix: with Q = AAᵀ + γI and
    c = Q⁻¹y it is c_i / (Q⁻¹)_ii. The mean, where there is an intercept, adds 1/n to h.

    Parameters
    ----------
    A : (n, p)
        Rows; centred by the function where there is an intercept.
    Y : (n, m)
    ridge
        γ of ‖Y − AV‖² + γ‖V‖².
    unit : (n,) or None
        Rows of one unit are left out together; each by itself where there is none.
    """
    n, p = A.shape
    share = 0.0
    if has_intercept:
        A, Y, share = A - column_means(A), Y - column_means(Y), 1.0 / n
    if p <= n:
        M = A.T @ A + ridge * np.eye(p)
        B = np.linalg.solve(M, A.T)
        residuals, free = Y - A @ (B @ Y), 1.0 - np.einsum("np,pn->n", A, B) - share

        def freedom(rows: Indices) -> Array:
            H = A[rows] @ np.swapaxes(np.ascontiguousarray(B.T)[rows], 1, 2)
            return np.asarray(np.eye(rows.shape[1]) - H - share)
    else:
        inverse = np.linalg.inv(A @ A.T + ridge * np.eye(n))
        residuals, free = ridge * inverse @ Y, ridge * np.diag(inverse) - share

        def freedom(rows: Indices) -> Array:
            return np.asarray(ridge * inverse[rows[:, :, np.newaxis], rows[:, np.newaxis]] - share)

    return left_out_errors(residuals, free, freedom, unit=unit)


def left_out_errors(
    residuals: Array,
    free: Array,
    freedom: Callable[[Indices], Array],
    *,
    unit: Indices | None,
) -> Array:
    """Return the errors (n, m) of units that are left out, of the residuals (n, m) of all rows.

    They are (I − H)_GG⁻¹ r_G for the rows G of a unit, which for one row is r_i / (1 − h_i); NaN
    where the unit determines a direction alone.

    Parameters
    ----------
    free : (n,)
        Diagonal of I − H.
    freedom
        Returns the blocks of I − H (n_units, k, k) of units of k rows each, (n_units, k).
    """
    errors: Array = residuals / np.where(free > MIN_FREEDOM, free, np.nan)[:, np.newaxis]
    for rows in units_by_size(unit):
        blocks = freedom(rows)
        symmetric = (blocks + np.swapaxes(blocks, 1, 2)) / 2
        is_free = np.linalg.eigvalsh(symmetric)[:, 0] > MIN_FREEDOM
        errors[rows[~is_free]] = np.nan
        errors[rows[is_free]] = np.linalg.solve(blocks[is_free], residuals[rows[is_free]])
    return errors


def units_by_size(unit: Indices | None) -> list[Indices]:
    """Return the rows (n_units, k) of all units of k rows, for each k above 1."""
    if unit is None:
        return []
    order = np.argsort(unit, kind="stable")
    starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    return [
        order[starts[sizes == k][:, np.newaxis] + np.arange(k)] for k in np.unique(sizes) if k > 1
    ]
