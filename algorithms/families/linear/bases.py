"""Basis functions of linear models: standardised columns, or kernel values.

A kernel basis has one value k(x, x_i) per training row, which suffices by the representer theorem.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_means, column_variances
from algorithms.numerics.sparse_rows import column_statistics, is_sparse

Kernel = Literal["linear", "rbf", "polynomial"]
Standardise = Literal["none", "features"]

#: Number of rows whose squares are summed at a time, so that their copy stays in the cache.
STATISTICS_BLOCK = 256


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Standardisation, and an optional kernel.

    Parameters
    ----------
    mean, scale : (d,)
        Standardised rows are (x − mean) / scale.
    references : (n, d) or None
        Standardised training rows; None for the linear kernel.
    kernel
        ``"linear"``: the standardised columns. ``"rbf"``: exp(−‖x − x'‖²/(2 d width²)).
        ``"polynomial"``: (1 + ⟨x, x'⟩/d)^degree.
    """

    mean: Array
    scale: Array
    references: Array | None = None
    kernel: Kernel = "linear"
    width: float = 1.0
    degree: int = 2

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return len(self.mean)

    @property
    def n_outputs(self) -> int:
        """Number of basis functions."""
        return self.n_features if self.references is None else len(self.references)

    def __call__(self, rows: Array) -> Array:
        """Return the values of the basis functions at rows (n, d), (n, n_outputs)."""
        standardised = (rows - self.mean) / self.scale
        return standardised if self.references is None else self._kernel(standardised)

    def images(self, rows: Array, W: Array) -> Array:
        """Return the values of functions W (n_outputs, k) at rows (n, d), (n, k).

        Sparse rows, which only the linear kernel takes, are not copied.
        """
        if is_sparse(rows):
            V = W / self.scale[:, np.newaxis]
            return np.asarray(rows @ V - self.mean @ V)
        return np.asarray(self(rows) @ W)

    def gram(self) -> Array:
        """Return the kernel matrix of the training rows, (n, n)."""
        assert self.references is not None
        return self._kernel(self.references)

    def _kernel(self, rows: Array) -> Array:
        assert self.references is not None
        d = self.n_features
        if self.kernel == "rbf":
            distances = cdist(rows, self.references, "sqeuclidean")
            return np.exp(distances / (-2 * d * self.width**2))
        return np.asarray((1 + rows @ self.references.T / d) ** self.degree)


def fit_standardisation(
    rows: Array, how: Standardise, weights: Array | None = None
) -> tuple[Array, Array]:
    """Return mean and scale (d,) of the rows of all tasks; a constant column has scale 1.

    There is one standardisation for all tasks, because otherwise they could not share features.
    Rows may be sparse.

    Parameters
    ----------
    weights : (n,) or None
        Weights of the rows; equal by default.
    """
    d = rows.shape[1]
    if how == "none":
        return np.zeros(d), np.ones(d)
    if is_sparse(rows):
        statistics = column_statistics(rows, weights)
        mean, deviation, peak = statistics.mean, statistics.deviation, statistics.peak
    else:
        mean, deviation, peak = _dense_statistics(rows, weights)
    is_constant = deviation <= 1e-12 * np.maximum(np.abs(mean), peak)
    return mean, np.where(is_constant, 1.0, deviation)


def _dense_statistics(rows: Array, weights: Array | None) -> tuple[Array, Array, Array]:
    """Return mean, standard deviation and largest absolute value of each column, (d,) each."""
    mean, peak = column_means(rows, weights), np.maximum(rows.max(axis=0), -rows.min(axis=0))
    if weights is not None:
        return mean, np.sqrt(column_variances(rows, weights)), peak
    squares = np.zeros(len(mean))
    for first in range(0, len(rows), STATISTICS_BLOCK):
        centred = rows[first : first + STATISTICS_BLOCK] - mean
        squares += np.einsum("nd,nd->d", centred, centred)
    return mean, np.sqrt(squares / len(rows)), peak
