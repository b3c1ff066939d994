"""Sparse rows: statistics of columns, standardised rows and their span, without a dense copy.

Sparse rows are :class:`scipy.sparse.csr_array` in canonical form: sorted column numbers without
repetition in each row, and no stored zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from algorithms.numerics.arrays import Array
from algorithms.numerics.finite import all_finite

#: Number of rows of a Gram matrix that are computed at a time.
_GRAM_BLOCK = 256


def is_sparse(X: object) -> TypeGuard[Any]:
    """Return whether rows are sparse; type checkers then allow the members of sparse rows."""
    return isinstance(X, csr_array)


def as_canonical(X: Any) -> Any:
    """Return a sparse matrix as rows in canonical form; repeated entries are summed.

    It is not changed, and not copied if it is in canonical form.
    """
    rows = X if is_sparse(X) and X.dtype == np.float64 else csr_array(X, dtype=np.float64)
    if rows.has_canonical_format and rows.data.all():
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def first_not_finite(X: Any) -> tuple[int, int, float] | None:
    """Return row, column and value of the first stored value that is not finite, if any."""
    if all_finite(X.data):
        return None
    place = int(np.flatnonzero(~np.isfinite(X.data))[0])
    row = int(np.searchsorted(X.indptr, place, side="right")) - 1
    return row, int(X.indices[place]), float(X.data[place])


def take_columns(X: Any, columns: Sequence[int]) -> Any:
    """Return columns of dense or sparse rows (n, d), in the given order."""
    chosen = X[:, list(columns)]
    return as_canonical(chosen) if is_sparse(X) else np.ascontiguousarray(chosen)


def concatenate_rows(parts: Sequence[Any]) -> Any:
    """Return the rows of several arrays, which are all dense or all sparse, as one array."""
    if len(parts) == 1:
        return parts[0]
    return vstack(parts, format="csr") if is_sparse(parts[0]) else np.concatenate(parts)


def have_equal_values(A: Any, B: Any) -> bool:
    """Return whether two arrays, both dense or both sparse, have the same shape and values."""
    if A is B:
        return True
    if A.shape != B.shape:
        return False
    if not is_sparse(A):
        return bool(np.array_equal(A, B))
    return all(
        np.array_equal(getattr(A, name), getattr(B, name)) for name in ("indptr", "indices", "data")
    )


@dataclass(frozen=True, slots=True, eq=False)
class ColumnStatistics:
    """Statistics of the columns of sparse rows (n, d), all of them (d,).

    Parameters
    ----------
    low, high
        Smallest and largest value.
    mean, deviation
        Mean, which is exact for a constant column, and standard deviation.
    """

    n_stored: NDArray[np.intp]
    low: Array
    high: Array
    mean: Array
    deviation: Array

    @property
    def peak(self) -> Array:
        """Largest absolute value of each column."""
        return np.maximum(self.high, -self.low)


def column_peaks(X: Any) -> Array:
    """Return the largest absolute value of each column of sparse rows (n, d), (d,)."""
    peaks = np.zeros(X.shape[1])
    np.maximum.at(peaks, X.indices, np.abs(X.data))
    return peaks


def column_statistics(X: Any, weights: Array | None = None) -> ColumnStatistics:
    """Return the statistics of the columns of sparse rows (n, d).

    Parameters
    ----------
    weights : (n,) or None
        Weights of the rows in means and deviations; equal by default.
    """
    n, d = X.shape
    n_stored = np.bincount(X.indices, minlength=d)
    # columns with zeros that are not stored begin with these; others with their stored values
    low = np.where(n_stored < n, 0.0, np.inf)
    high = np.where(n_stored < n, 0.0, -np.inf)
    np.minimum.at(low, X.indices, X.data)
    np.maximum.at(high, X.indices, X.data)
    if weights is None:
        total = np.bincount(X.indices, weights=X.data, minlength=d)
        mean = np.where(low == high, low, total / n)
        squares = np.bincount(X.indices, weights=(X.data - mean[X.indices]) ** 2, minlength=d)
        deviation = np.sqrt((squares + (n - n_stored) * mean**2) / n)
        return ColumnStatistics(n_stored, low, high, mean, deviation)
    of_stored, size = np.repeat(weights, np.diff(X.indptr)), float(weights.sum())
    stored = np.bincount(X.indices, weights=of_stored, minlength=d)
    total = np.bincount(X.indices, weights=of_stored * X.data, minlength=d)
    mean = np.where(low == high, low, total / size)
    squares = np.bincount(
        X.indices, weights=of_stored * (X.data - mean[X.indices]) ** 2, minlength=d
    )
    missing = np.where(n_stored < n, np.maximum(size - stored, 0.0), 0.0)
    deviation = np.sqrt((squares + missing * mean**2) / size)
    return ColumnStatistics(n_stored, low, high, mean, deviation)


def column_deviations(X: Any) -> Array:
    """Return the standard deviation of each column of dense or sparse rows (n, d), (d,)."""
    return column_statistics(X).deviation if is_sparse(X) else np.asarray(X.std(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class StandardisedRows:
    """Standardised sparse rows (x − mean)/scale, as the difference Z − 1mᵀ, which stays sparse.

    Columns whose values are all stored are centred in Z, so that large means do not cancel. In the
    others the mean is at most √n standard deviations.

    Parameters
    ----------
    Z : (n, d), sparse
    m : (d,)
    """

    Z: Any
    m: Array

    @classmethod
    def of(cls, X: Any, mean: Array, scale: Array) -> Self:
        """Return the rows X (n, d) minus ``mean`` (d,), divided by ``scale`` (d,)."""
        is_full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
        data = (X.data - np.where(is_full, mean, 0.0)[X.indices]) / scale[X.indices]
        Z = csr_array((data, X.indices, X.indptr), shape=X.shape)
        return cls(Z, np.where(is_full, 0.0, mean / scale))

    def gram(self) -> Array:
        """Return the inner products of the rows, (n, n), exactly symmetric."""
        n = self.Z.shape[0]
        transposed = self.Z.T.tocsr()
        K = np.empty((n, n))
        for first in range(0, n, _GRAM_BLOCK):
            block = slice(first, first + _GRAM_BLOCK)
            K[block] = (self.Z[block] @ transposed).toarray()
        along_mean = self.Z @ self.m
        K -= along_mean[:, np.newaxis] + along_mean
        K += self.m @ self.m
        return K

    def times(self, B: Array) -> Array:
        """Return the product with B (d, k), (n, k)."""
        return np.asarray(self.Z @ B - self.m @ B)

    def transposed_times(self, A: Array) -> Array:
        """Return the product of the transposed rows with A (n, k), (d, k)."""
        return np.asarray(self.Z.T @ A - np.outer(self.m, A.sum(axis=0)))


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """An orthonormal basis (d, r) of the span of standardised sparse rows X: XᵀV/s.

    Parameters
    ----------
    V, s : (n, r), (r,)
        Left singular vectors and singular values of X.
    """

    rows: StandardisedRows
    V: Array
    s: Array

    @classmethod
    def of(cls, rows: StandardisedRows, K: Array, *, rtol: float) -> Self:
        """Return the span, given the Gram matrix K of the rows.

        Parameters
        ----------
        rtol
            Eigenvalues of K below this, relative to the largest, count as 0.
        """
        values, V = np.linalg.eigh(K)
        is_kept = values > rtol * max(values[-1], 0.0)
        is_kept[-1] = True  # of rows that are all 0, one coordinate is left, which is 0
        return cls(rows, V[:, is_kept], np.sqrt(np.maximum(values[is_kept], 0.0)))

    @property
    def coordinates(self) -> Array:
        """Coordinates of the rows, (n, r)."""
        return self.V * self.s

    def __matmul__(self, A: Array) -> Array:
        """Return the vectors with the coordinates A (r, k) in terms of the columns, (d, k)."""
        s = np.where(self.s > 0, self.s, 1.0)
        return self.rows.transposed_times(self.V @ (A / s[:, np.newaxis]))
