"""Leading eigenvectors of symmetric matrices, dense or as products of thin factors.

Bases are rows, (k, d): with stacked rows, every coupling of tasks is one matrix product.
"""

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotri

from algorithms.numerics.arrays import Array

#: Smallest number of features for which a few eigenvectors cost less than all.
MIN_PARTIAL_FEATURES = 48
#: Seed of the directions that the data do not determine; fixed for reproducible results.
_FILL_SEED = 20160
#: Smallest singular value of centred rows A, relative to the largest, for which the decomposition
#: may come from AAᵀ: the relative error of its square, 1e-16 divided by the square of this, is then
#: 1e-10, which is the precision of AᵀA itself.
MIN_GRAM_RATIO = 1e-3
#: Largest eigenvalue of AAᵀ, relative to the largest, that can be the 0 that centred rows have.
CENTRED_RTOL = 1e-12


def leading_of_dense(C: Array, k: int) -> Array:
    """Return the k leading eigenvectors, with the largest eigenvalue first.

    Parameters
    ----------
    C : (..., d, d)
        Symmetric.

    Returns
    -------
    (..., k, d)
        Orthonormal rows.
    """
    d = C.shape[-1]
    if d < MIN_PARTIAL_FEATURES or 4 * k > d:
        _, V = np.linalg.eigh(C)
        return np.ascontiguousarray(np.swapaxes(V[..., : -k - 1 : -1], -1, -2))
    stack = C.reshape(-1, d, d)
    top = [
        eigh(matrix, subset_by_index=(d - k, d - 1), check_finite=False)[1].T[::-1]
        for matrix in stack
    ]
    return np.stack(top).reshape(*C.shape[:-2], k, d)


def leading_of_factor(A: Array, k: int) -> Array:
    """Return the k leading eigenvectors of AᵀA without forming it, by a thin SVD of A.

    Parameters
    ----------
    A : (m, d)
        Rows. If m < k, further orthonormal directions are added.

    Returns
    -------
    (k, d)
        Orthonormal rows.
    """
    m, d = A.shape
    if m >= d:
        return leading_of_dense(A.T @ A, k)
    _, _, Vt = np.linalg.svd(A, full_matrices=False)
    return np.ascontiguousarray(Vt[:k]) if m >= k else complete(Vt, k)


def svd_of_centred(A: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition of centred rows.

    At most as many rows as columns are decomposed by AAᵀ, in less than half the time, where this is
    precise enough: if no singular value is small but the last, which is 0 and is left out then.

    Parameters
    ----------
    A : (n, d)
        Rows with mean 0, which may be multiplied by the roots of weights.

    Returns
    -------
    left : (n, r)
    s : (r,)
        Decreasing.
    right : (r, d)
        Orthonormal rows.
    """
    n, d = A.shape
    if 2 <= n <= d:
        values, vectors = np.linalg.eigh(A @ A.T)
        least, low, top = values[0], values[1], values[-1]
        if least <= CENTRED_RTOL * top and low > MIN_GRAM_RATIO**2 * top:
            left, s = vectors[:, :0:-1], np.sqrt(values[:0:-1])
            V = A.T @ (left / s)
            # one step of Newton's method squares the distance from orthonormal columns
            V = V @ (1.5 * np.eye(n - 1) - 0.5 * (V.T @ V))
            return left, s, np.asarray(V.T)
    left, s, right = np.linalg.svd(A, full_matrices=False)
    return left, s, right


def complete(V: Array, k: int) -> Array:
    """Return k orthonormal rows that begin with the rows of V.

    Parameters
    ----------
    V : (m, d)
        Orthonormal rows, m <= k.
    """
    m, d = V.shape
    fill = np.random.default_rng(_FILL_SEED).standard_normal((k - m, d))
    for _ in range(2):  # a second pass removes rounding errors of the first
        fill = fill - (fill @ V.T) @ V
    Q = np.linalg.qr(fill.T)[0].T
    return np.concatenate([V, Q])


def inverse_of_definite(A: Array) -> Array:
    """Return the inverse of a symmetric positive definite matrix (d, d), exactly symmetric.

    Raises
    ------
    numpy.linalg.LinAlgError
        It is not positive definite.
    """
    factor, info = dpotrf(A.T, lower=1, clean=1)
    if info:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    lower, _ = dpotri(factor, lower=1, overwrite_c=1)
    M = np.asarray(lower + lower.T)
    M.flat[:: len(M) + 1] /= 2
    return M


def fix_signs(U: Array) -> Array:
    """Return rows with signs such that the largest entry by absolute value is positive.

    Parameters
    ----------
    U : (..., k, d)
    """
    largest = np.abs(U).argmax(axis=-1)[..., np.newaxis]
    return np.where(np.take_along_axis(U, largest, axis=-1) < 0, -U, U)


def principal_axes(U: Array, CU: Array) -> tuple[Array, Array]:
    """Return the basis of each subspace that diagonalises U C Uᵀ, and the diagonal.

    Parameters
    ----------
    U, CU : (..., k, d)
        Orthonormal rows, and their products with C.

    Returns
    -------
    axes : (..., k, d)
        In order of decreasing variance, with signs by :func:`fix_signs`.
    spectrum : (..., k)
    """
    S = CU @ np.swapaxes(U, -1, -2)
    values, R = np.linalg.eigh((S + np.swapaxes(S, -1, -2)) / 2)
    axes = np.swapaxes(R[..., ::-1], -1, -2) @ U
    return fix_signs(axes), np.maximum(values[..., ::-1], 0.0)
