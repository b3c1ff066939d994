"""Covariance matrices of several tasks, stored in the cheapest of three forms.

* dense, (T, d, d): for few features or many rows;
* thin factors A_t (m, d) with C_t = A_tᵀ A_t: for far fewer rows than features;
* either of these in coordinates of the joint span of all rows: for fewer rows in total than
  features. This is exact, because every optimum of the coupled problem lies in the span.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import is_flat
from algorithms.numerics.eigen import complete, leading_of_dense, leading_of_factor

#: Matrices of up to this many features stay dense, as the compiled kernels need them.
MAX_DENSE_FEATURES = 32
#: Smallest ratio of features to rows for thin factors; below it, the compiled kernels for dense
#: matrices are faster.
MIN_THIN_RATIO = 4
#: Up to this many numbers in total, all tasks are centred in one batch, which saves calls.
MAX_BATCH_SIZE = 1_000_000


def covariance_factor(X: Array) -> tuple[Array, Array]:
    """Return the mean of rows, and A such that AᵀA is their unbiased covariance.

    Columns of A are exactly 0 for constant columns of X.

    Parameters
    ----------
    X : (n_samples, n_features)

    Returns
    -------
    mean : (n_features,)
    A : (n_samples, n_features)
    """
    mean = X.mean(axis=0)
    A = (X - mean) / np.sqrt(max(X.shape[0] - 1, 1))
    A[:, is_flat(np.sum(A**2, axis=0), np.abs(mean))] = 0.0
    return mean, A


def centre_rows(samples: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Return the means and factors of :func:`covariance_factor` for several tasks.

    Parameters
    ----------
    samples : sequence of (n_t, n_features)

    Returns
    -------
    means : (T, n_features)
    factors : list of (n_t, n_features)
    """
    counts = np.array([X.shape[0] for X in samples])
    if counts.sum() * samples[0].shape[1] > MAX_BATCH_SIZE:
        pairs = [covariance_factor(X) for X in samples]
        return np.stack([mean for mean, _ in pairs]), [A for _, A in pairs]
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.concatenate(samples)
    means = np.add.reduceat(rows, starts[:-1]) / counts[:, np.newaxis]
    rows -= np.repeat(means, counts, axis=0)
    rows /= np.repeat(np.sqrt(np.maximum(counts - 1, 1)), counts)[:, np.newaxis]
    flat = is_flat(np.add.reduceat(rows**2, starts[:-1]), np.abs(means))
    if flat.any():
        rows[np.repeat(flat, counts, axis=0)] = 0.0
    return means, [rows[a:b] for a, b in pairwise(starts.tolist())]


@dataclass(frozen=True, slots=True, eq=False)
class Covariances:
    """Covariance matrices of T tasks.

    Parameters
    ----------
    dense : (T, d, d) or None
    factors : (T, m, d) or None
        Either ``dense`` or ``factors`` is None.
    traces : (T,)
    span : (d, n_features) or None
        Orthonormal basis (rows) of the coordinates of the matrices.
    """

    dense: Array | None
    factors: Array | None
    traces: Array
    span: Array | None = None

    @property
    def n_tasks(self) -> int:
        """Number of matrices."""
        return int(self.traces.shape[0])

    @property
    def n_features(self) -> int:
        """Order of the stored matrices."""
        stored = self.factors if self.dense is None else self.dense
        assert stored is not None
        return int(stored.shape[-1])

    def times(self, U: Array) -> Array:
        """Return each U_t C_t.

        Parameters
        ----------
        U : (T, k, d)
        """
        if self.dense is not None:
            return U @ self.dense
        assert self.factors is not None
        return (U @ np.swapaxes(self.factors, 1, 2)) @ self.factors

    def leading(self, k: int) -> Array:
        """Return the k leading eigenvectors of each matrix.

        Returns
        -------
        (T, k, d)
        """
        if self.dense is not None:
            return leading_of_dense(self.dense, k)
        assert self.factors is not None
        return np.stack([leading_of_factor(A, k) for A in self.factors])

    def leading_of_block(self, t: int, B: Array, k: int) -> Array:
        """Return the k leading eigenvectors of C_t + BᵀB for one task t, (k, d).

        Parameters
        ----------
        B : (m, d)
        """
        if self.dense is not None:
            return leading_of_dense(self.dense[t] + B.T @ B, k)
        assert self.factors is not None
        return leading_of_factor(np.concatenate([self.factors[t], B]), k)

    def leading_of_sum(self, k: int) -> Array:
        """Return the k leading eigenvectors of the unweighted sum of the matrices.

        Returns
        -------
        (k, d)
        """
        if self.dense is not None:
            return leading_of_dense(self.dense.sum(axis=0), k)
        assert self.factors is not None
        return leading_of_factor(self.factors.reshape(-1, self.n_features), k)

    def lift(self, U: Array) -> Array:
        """Return bases in coordinates of the features.

        Parameters
        ----------
        U : (..., k, d)

        Returns
        -------
        (..., k, n_features)
        """
        return U if self.span is None else U @ self.span

    def times_lifted(self, U: Array) -> Array:
        """Return each U_t C_t for U in coordinates of the features.

        Parameters
        ----------
        U : (T, k, n_features)
        """
        return self.times(U) if self.span is None else self.lift(self.times(U @ self.span.T))


def from_factors(factors: Sequence[Array], *, k: int) -> Covariances:
    """Return the matrices A_tᵀA_t in the cheapest form, given the dimension k of subspaces.

    Parameters
    ----------
    factors : sequence of (m_t, n_features)
    """
    span = _joint_span(factors, k=k)
    if span is not None:
        factors = [A @ span.T for A in factors]
    d = factors[0].shape[1]
    if d > MAX_DENSE_FEATURES and MIN_THIN_RATIO * max(A.shape[0] for A in factors) <= d:
        thin = _padded(factors)
        return Covariances(None, thin, np.einsum("tmi,tmi->t", thin, thin), span)
    dense = np.stack([A.T @ A for A in factors])
    return Covariances(dense, None, _traces(dense), span)


def from_dense(matrices: Array) -> Covariances:
    """Return dense matrices unchanged as :class:`Covariances`.

    Parameters
    ----------
    matrices : (T, d, d)
    """
    return Covariances(matrices, None, _traces(matrices))


def _traces(matrices: Array) -> Array:
    return np.asarray(np.trace(matrices, axis1=1, axis2=2))


def _joint_span(factors: Sequence[Array], *, k: int) -> Array | None:
    """Return an orthonormal basis of the span of all rows, (r, n_features); None if not smaller."""
    d = factors[0].shape[1]
    n_rows = sum(A.shape[0] for A in factors)
    if d <= MAX_DENSE_FEATURES or max(n_rows, k) >= d:
        return None
    # QR instead of SVD: no rank decision is needed, and superfluous directions are harmless
    span = np.linalg.qr(np.concatenate(factors).T)[0].T
    return np.ascontiguousarray(span if n_rows >= k else complete(span, k))


def _padded(factors: Sequence[Array]) -> Array:
    """Return factors padded with rows of zeros, (T, max m_t, d)."""
    padded = np.zeros((len(factors), max(A.shape[0] for A in factors), factors[0].shape[1]))
    for t, A in enumerate(factors):
        padded[t, : A.shape[0]] = A
    return padded
