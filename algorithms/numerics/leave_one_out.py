"""Leave-one-out errors of ridge regression without refitting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.centering import column_means, times_roots

#: Values of 1 − h below this count as 0: the row alone determines a direction of the fit.
MIN_FREEDOM = 1e-12


def leave_one_out_errors(
    A: Array,
    Y: Array,
    *,
    ridge: float,
    has_intercept: bool,
    unit: Indices | None = None,
    weights: Array | None = None,
) -> Array:
    """Return √w_i(y_i − f_{−i}(x_i)) for ridge regression with weights w, (n, m).

    It is the residual divided by 1 − h_i, where h is the diagonal of the hat matrix. With
    Q = AAᵀ + γI and c = Q⁻¹y, it equals c_i / (Q⁻¹)_ii. An intercept adds 1/n to h. With weights,
    rows and targets are multiplied by √w after centring, and 1/n is √(w_iw_j)/Σw.

    Parameters
    ----------
    A : (n, p)
        Rows; the function centres them if there is an intercept.
    Y : (n, m)
    ridge
        γ of ‖Y − AV‖² + γ‖V‖².
    unit : (n,) or None
        Rows of one unit are left out together; without it, each row is left out alone.
    weights : (n,) or None
        Weights of the squared residuals of the rows; 1 by default.
    """
    path = RidgePath.of(A, Y, has_intercept=has_intercept, weights=weights)
    return path.errors(ridge, units=units_by_size(unit))


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
        Targets, centred if there is an intercept, times the roots of the weights.
    roots : (n,)
        An intercept adds their products to the hat matrix; 0 without intercept, and for
        eigenvectors of AAᵀ, which leave out the eigenvector of the intercept.
    is_dual
        Whether P has eigenvectors of AAᵀ.
    """

    P: Array
    values: Array
    Y: Array
    roots: Array
    is_dual: bool

    @classmethod
    def of(
        cls, A: Array, Y: Array, *, has_intercept: bool, weights: Array | None = None
    ) -> "RidgePath":
        """Return the path for rows (n, p) and targets (n, m), with weights (n,) or equal ones."""
        n, p = A.shape
        if has_intercept:
            A, Y = A - column_means(A, weights), Y - column_means(Y, weights)
        roots = intercept_roots(n, weights) * has_intercept
        A, Y = times_roots(A, weights), times_roots(Y, weights)
        if p <= n:
            values, V = np.linalg.eigh(A.T @ A)
            return cls(A @ V, np.maximum(values, 0.0), Y, roots, is_dual=False)
        K, n_left_out = A @ A.T, int(has_intercept)
        # the roots are an eigenvector of the value 0, which a larger one separates from others
        values, V = np.linalg.eigh(K + (2 * np.trace(K) or 1.0) * np.outer(roots, roots))
        kept = slice(n - n_left_out)
        return cls(V[:, kept], np.maximum(values[kept], 0.0), Y, np.zeros(n), is_dual=True)

    def errors(self, ridge: float, *, units: Sequence[Indices] = ()) -> Array:
        """Return the errors (n, m) of :func:`leave_one_out_errors`.

        Parameters
        ----------
        units
            The rows of units of several rows, from :func:`units_by_size`.
        """
        shrinkage = (ridge if self.is_dual else 1.0) / (self.values + ridge)
        shrunk, share = self.P * shrinkage, self.roots**2
        inner, diagonal = shrunk @ (self.P.T @ self.Y), np.sum(shrunk * self.P, axis=1)
        if self.is_dual:  # I - H itself
            residuals, diagonal = inner, diagonal - share
        else:
            residuals, diagonal = self.Y - inner, 1.0 - diagonal - share

        def blocks_of(rows: Indices) -> Array:
            inner = shrunk[rows] @ np.swapaxes(self.P[rows], 1, 2)
            outer = inner if self.is_dual else np.eye(rows.shape[1]) - inner
            return np.asarray(outer - outer_products(self.roots[rows]))

        return left_out_errors(residuals, diagonal, blocks_of, units=units)


def intercept_roots(n: int, weights: Array | None) -> Array:
    """Return √(w_i/Σw) of each row (n,), whose products an intercept adds to the hat matrix."""
    w = np.ones(n) if weights is None else weights
    return np.asarray(np.sqrt(w / w.sum()))


def outer_products(roots: Array) -> Array:
    """Return the products (n_units, k, k) of roots (n_units, k)."""
    return roots[:, :, np.newaxis] * roots[:, np.newaxis]


def left_out_errors(
    residuals: Array,
    diagonal: Array,
    blocks_of: Callable[[Indices], Array],
    *,
    units: Sequence[Indices],
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
    units
        The rows of units of several rows, from :func:`units_by_size`.
    """
    errors = left_out_rows(residuals, diagonal[:, np.newaxis])
    for rows in units:
        errors[rows] = left_out_units(residuals[rows], blocks_of(rows))
    return errors


def left_out_units(residuals: Array, blocks: Array) -> Array:
    """Return the errors (n_units, k, m) of units of k rows, as :func:`left_out_errors`.

    Parameters
    ----------
    residuals : (n_units, k, m)
        Residuals of the fit with all rows.
    blocks : (n_units, k, k)
        Blocks of I − H.
    """
    symmetric = (blocks + np.swapaxes(blocks, 1, 2)) / 2
    is_regular = np.linalg.eigvalsh(symmetric)[:, 0] > MIN_FREEDOM
    errors = np.full(residuals.shape, np.nan)
    errors[is_regular] = np.linalg.solve(blocks[is_regular], residuals[is_regular])
    return errors


def left_out_rows(residuals: Array, diagonal: Array) -> Array:
    """Return the leave-one-out errors of single rows (n, m), as :func:`left_out_errors`.

    Parameters
    ----------
    diagonal : (n, 1) or (n, m)
        Diagonal of I − H, the same for all columns or for each.
    """
    return np.asarray(residuals / np.where(diagonal > MIN_FREEDOM, diagonal, np.nan))


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
