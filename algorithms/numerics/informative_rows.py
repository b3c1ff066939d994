"""Selection of the most informative rows by the informative vector machine with Gaussian noise.

These are the *active* rows of a sparse Gaussian process, which is conditioned on them alone.
"""

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array
from algorithms.numerics.gp_covariances import Covariance


def informative_rows(
    covariance: Covariance, X: Array, theta: Array, *, noise: float, r: int
) -> NDArray[np.intp]:
    """Return r rows in order, each with the largest posterior variance given the rows before.

    With Gaussian noise the information gain is largest at the largest posterior variance
    (Lawrence, Seeger, Herbrich 2003), so the rows are the pivots of a partial Cholesky
    factorisation of K. The first is the row nearest to the mean: if all variances are equal, the
    result would otherwise depend on the order of the rows.

    Parameters
    ----------
    X : (n, L)
        Latent points.
    noise
        w + floor.

    Returns
    -------
    (min(r, n),)
    """
    n = len(X)
    r = min(r, n)
    variance = covariance.diag(X, theta) + noise
    F = np.zeros((r, n))
    chosen = np.zeros(r, dtype=np.intp)
    is_free = np.ones(n, dtype=bool)
    row = int(np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))
    for i in range(r):
        chosen[i], is_free[row] = row, False
        column = covariance.matrix(X[row : row + 1], X, theta)[0]
        column[row] += noise
        pivot = np.sqrt(max(variance[row], noise))
        F[i] = (column - F[:i, row] @ F[:i]) / pivot
        variance = variance - F[i] ** 2
        row = int(np.argmax(np.where(is_free, variance, -np.inf)))
    return chosen
