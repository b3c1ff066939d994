"""Leave-one-out errors of ridge regression without refitting."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.centering import column_means

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Values of 1 − h below this count as 0: the row alone determines a direction of the fit.
MIN_FREEDOM = 1e-12


def leave_one_out_errors(
    A: Array, Y: Array, *, ridge: float, has_intercept: bool, unit: Indices | None = None
) -> Array:
    """Return y_i − f_{−i}(x_i) for ridge regression, (n, m).

    It is the residual divided by 1 − h_i, where h is the diagonal of the hat matrix. With
    Q = AAᵀ + γI and c = Q⁻¹y, it equals c_i / (Q⁻¹)_ii. An intercept adds 1/n to h.

    Parameters
    ----------
    A : (n, p)
        Rows; the function centres them if there is an intercept.
    Y : (n, m)
    ridge
        γ of ‖Y − AV‖² + γ‖V‖².
    unit : (n,) or None
        Rows of one unit are left out together; without it, each row is left out alone.
    """
    n, p = A.shape
    share = 0.0
    if has_intercept:
        A, Y, share = A - column_means(A), Y - column_means(Y), 1.0 / n
    if p <= n:
        M = A.T @ A + ridge * np.eye(p)
        B = np.linalg.solve(M, A.T)
        residuals, diagonal = Y - A @ (B @ Y), 1.0 - np.einsum("np,pn->n", A, B) - share

        def blocks_of(rows: Indices) -> Array:
            H = A[rows] @ np.swapaxes(np.ascontiguousarray(B.T)[rows], 1, 2)
            return np.asarray(np.eye(rows.shape[1]) - H - share)
    else:
        inverse = np.linalg.inv(A @ A.T + ridge * np.eye(n))
        residuals, diagonal = ridge * inverse @ Y, ridge * np.diag(inverse) - share

        def blocks_of(rows: Indices) -> Array:
            return np.asarray(ridge * inverse[rows[:, :, np.newaxis], rows[:, np.newaxis]] - share)

    return left_out_errors(residuals, diagonal, blocks_of, unit=unit)


@dataclass(frozen=True, slots=True, eq=False)
class RidgePath:
    """Leave-one-out errors of ridge regressions of the same rows, from one eigendecomposition.

    Parameters
    ----------
    P : (n, r)
        Rows in the basis of the eigenvectors of AᵀA; with fewer rows than columns, eigenvectors of
        AAᵀ instead.
    values : (r,)
        Eigenvalues.
    Y : (n, m)
        Targets, centred if there is an intercept.
    share
        What an intercept adds to the diagonal of the hat matrix.
    is_dual
        Whether P has eigenvectors of AAᵀ.
    """

    P: Array
    values: Array
    Y: Array
    share: float
    is_dual: bool

    @classmethod
    def of(cls, A: Array, Y: Array, *, has_intercept: bool) -> "RidgePath":
        """Return the path for rows (n, p) and targets (n, m)."""
        n, p = A.shape
        if has_intercept:
            A, Y = A - column_means(A), Y - column_means(Y)
        values, V = np.linalg.eigh(A.T @ A if p <= n else A @ A.T)
        share = 1.0 / n if has_intercept else 0.0
        return cls(A @ V if p <= n else V, np.maximum(values, 0.0), Y, share, p > n)

    def errors(self, ridge: float, *, unit: Indices | None = None) -> Array:
        """Return the errors (n, m) of :func:`leave_one_out_errors`."""
        weights = (ridge if self.is_dual else 1.0) / (self.values + ridge)
        weighted = self.P * weights
        inner, diagonal = weighted @ (self.P.T @ self.Y), np.sum(weighted * self.P, axis=1)
        if self.is_dual:  # I - H itself
            residuals, diagonal = inner, diagonal - self.share
        else:
            residuals, diagonal = self.Y - inner, 1.0 - diagonal - self.share

        def blocks_of(rows: Indices) -> Array:
            inner = weighted[rows] @ np.swapaxes(self.P[rows], 1, 2)
            outer = inner if self.is_dual else np.eye(rows.shape[1]) - inner
            return np.asarray(outer - self.share)

        return left_out_errors(residuals, diagonal, blocks_of, unit=unit)


def left_out_errors(
    residuals: Array,
    diagonal: Array,
    blocks_of: Callable[[Indices], Array],
    *,
    unit: Indices | None,
) -> Array:
    """Return the leave-one-unit-out errors (n, m), given the residuals (n, m) of the full fit.

    They are (I − H)_GG⁻¹ r_G for the rows G of a unit, and r_i / (1 − h_i) for a single row. They
    are NaN if the unit alone determines a direction of the fit.

    Parameters
    ----------
    diagonal : (n,)
        Diagonal of I − H, with the hat matrix H.
    blocks_of
        Returns the blocks of I − H (n_units, k, k) for the rows (n_units, k) of units of k rows.
    """
    errors: Array = residuals / np.where(diagonal > MIN_FREEDOM, diagonal, np.nan)[:, np.newaxis]
    for rows in units_by_size(unit):
        blocks = blocks_of(rows)
        symmetric = (blocks + np.swapaxes(blocks, 1, 2)) / 2
        is_regular = np.linalg.eigvalsh(symmetric)[:, 0] > MIN_FREEDOM
        errors[rows[~is_regular]] = np.nan
        errors[rows[is_regular]] = np.linalg.solve(blocks[is_regular], residuals[rows[is_regular]])
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
