"""Kernels of rows, as a kernel matrix or as features."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.spatial.distance import cdist

from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_means, column_variances, is_flat, weighted_mean
from algorithms.numerics.sparse_rows import column_statistics, is_sparse

KernelName = Literal["linear", "rbf", "laplacian", "polynomial", "precomputed"]

#: Columns with a smaller relative deviation are constant up to rounding errors.
FLAT_RTOL = 1e-10
#: Eigenvalues of the kernel of landmarks below this, relative to the largest, are ignored.
NYSTROM_RTOL = 1e-10


@dataclass(frozen=True, slots=True)
class InputKernel:
    """k(x, z) = form(x, z) / divisor + bias², with form(x, z) = x·z for "linear", for example."""

    name: KernelName
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0
    divisor: float = 1.0
    bias: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is linear."""
        return self.name == "linear"

    def matrix(self, X: Array, Z: Array) -> Array:
        """Return k(x, z) for all rows x of X (n, d) and z of Z (m, d), (n, m)."""
        match self.name:
            case "linear" | "precomputed":
                K = X @ Z.T
            case "rbf":
                squares = np.einsum("ij,ij->i", X, X)[:, np.newaxis]
                K = squares + np.einsum("ij,ij->i", Z, Z) - 2.0 * (X @ Z.T)
                np.maximum(K, 0.0, out=K)
                K *= -self.gamma
                np.exp(K, out=K)
            case "laplacian":
                K = np.exp(-self.gamma * cdist(X, Z, "cityblock"))
            case "polynomial":
                K = (self.gamma * (X @ Z.T) + self.coef0) ** self.degree
        K *= 1.0 / self.divisor
        K += self.bias**2
        return np.asarray(K)

    def gram(self, X: Array) -> Array:
        """Return the kernel matrix of rows X (n, d), exactly symmetric."""
        return _symmetrise_inplace(self.matrix(X, X))

    def mean_diagonal(self, X: Array, weights: Array | None = None) -> float:
        """Return the (weighted) mean of k(x, x) before division and bias."""
        if self.name in ("rbf", "laplacian"):
            return 1.0
        squares = np.einsum("ij,ij->i", X, X)
        if self.name == "polynomial":
            squares = (self.gamma * squares + self.coef0) ** self.degree
        return weighted_mean(squares, weights)

    def features(self, X: Array) -> Array:
        """Return the features of a linear kernel, (n, d), or (n, d + 1) with a bias."""
        Z = X / np.sqrt(self.divisor)
        if self.bias == 0.0:
            return np.ascontiguousarray(Z)
        return np.concatenate([Z, np.full((len(Z), 1), self.bias)], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class Standardiser:
    """Standardisation of rows, (x - mean) / deviation."""

    mean: Array
    deviation: Array

    def apply(self, X: Array) -> Array:
        """Return standardised rows."""
        return (X - self.mean) / self.deviation


def fit_standardiser(
    X: Array, form: Literal["none", "center", "features"], weights: Array | None = None
) -> Standardiser:
    """Return the standardiser for rows X (n, d), also sparse; a constant column has deviation 1.

    Parameters
    ----------
    weights : (n,) or None
        Weights of the rows; equal by default.
    """
    d = X.shape[1]
    if form == "none":
        return Standardiser(np.zeros(d), np.ones(d))
    statistics = column_statistics(X, weights) if is_sparse(X) else None
    mean = column_means(X, weights) if statistics is None else statistics.mean
    if form != "features":
        return Standardiser(mean, np.ones(d))
    deviation = (
        np.sqrt(column_variances(X, weights)) if statistics is None else statistics.deviation
    )
    is_flat = deviation <= FLAT_RTOL * (
        np.abs(X).max(axis=0) if statistics is None else statistics.peak
    )
    return Standardiser(mean, np.where(is_flat, 1.0, deviation))


def relative_gamma(name: KernelName, X: Array, weights: Array | None = None) -> float:
    """Return the unit of γ: 1 over the total variance, or over the sum of standard deviations."""
    variances = column_variances(X, weights)
    variances[is_flat(variances, np.abs(X).max(axis=0))] = 0.0
    spread = np.sqrt(variances).sum() if name == "laplacian" else variances.sum()
    return 1.0 / float(spread) if spread > 0 else 1.0


def nystrom_map(kernel: InputKernel, landmarks: Array) -> Array:
    """Return M (m, q) with M Mᵀ = k(landmarks)⁺; k(x, landmarks) M are the Nyström features."""
    values, V = np.linalg.eigh(kernel.gram(landmarks))
    keep = values > NYSTROM_RTOL * max(values[-1], 0.0)
    return np.asarray(V[:, keep] / np.sqrt(values[keep]))


def _symmetrise_inplace(K: Array) -> Array:
    """Copy the lower triangle of K to the upper one, block by block, and return K."""
    n, step = len(K), 512
    for i in range(0, n, step):
        block = K[i : i + step, i : i + step]
        block[:] = np.tril(block) + np.tril(block, -1).T
        K[i : i + step, i + step :] = K[i + step :, i : i + step].T
    return K
