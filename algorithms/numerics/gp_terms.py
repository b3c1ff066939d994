"""Log likelihoods of Gaussian processes as functions of K, with their gradients ∂/∂K.

All functions raise ``LinAlgError`` if a matrix is not positive definite.
"""

import numpy as np
from scipy.linalg import qr
from scipy.linalg.blas import dsymm, dsyrk
from scipy.linalg.lapack import dpotrf, dpotri

from algorithms.numerics.arrays import Array

#: Lower bound of the predictive variance; smaller values are rounding errors.
MIN_VARIANCE = 1e-12
_LN_2PI = float(np.log(2.0 * np.pi))


def inverse_and_log_determinant(K: Array) -> tuple[Array, float]:
    """Return K⁻¹ and ln|K| of a symmetric positive definite K (n, n).

    Raises
    ------
    LinAlgError
        K is not positive definite.
    """
    lower, logarithm = _lower_inverse(K)
    return _symmetrised(lower), logarithm


def _lower_inverse(K: Array) -> tuple[Array, float]:
    """Return the lower triangle of K⁻¹, with zeros above, in Fortran order; and ln|K|."""
    # K.T is in Fortran order, so that LAPACK needs no transposed copy
    factor, info = dpotrf(K.T, lower=1, clean=1, overwrite_a=0)
    if info != 0:
        raise np.linalg.LinAlgError("the covariance is not positive definite")
    logarithm = 2.0 * float(np.add.reduce(np.log(factor.diagonal())))
    lower, _ = dpotri(factor, lower=1, overwrite_c=1)
    return lower, logarithm


def _symmetrised(lower: Array) -> Array:
    """Return the symmetric matrix with the given lower triangle."""
    symmetric = np.add(lower, lower.T, order="C")
    symmetric.reshape(-1)[:: len(lower) + 1] *= 0.5
    return symmetric


def compress_rows(Y: Array) -> Array:
    """Return rows with the same YYᵀ and at most n columns, for Y (n, D), in Fortran order."""
    if Y.shape[1] <= Y.shape[0]:
        return np.asfortranarray(Y)
    (R,) = qr(Y.T, mode="r", check_finite=False)
    return np.asfortranarray(R[: len(Y)].T)


def negative_log_likelihood(K: Array, Y: Array, *, n_columns: int) -> tuple[float, Array]:
    """Return L of eq. 10 of Gao et al. (2010), and its gradient ∂L/∂K.

    L = (D n/2) ln 2π + (D/2) ln|K| + ½ tr(K⁻¹ YYᵀ), ∂L/∂K = (D/2) K⁻¹ - ½ K⁻¹ YYᵀ K⁻¹.

    Parameters
    ----------
    K : (n, n)
    Y : (n, m)
        Rows, compressed or not.
    n_columns
        D, the number of columns before compression.
    """
    lower, logarithm = _lower_inverse(K)
    A = dsymm(1.0, lower, Y, lower=1)
    value = 0.5 * (n_columns * (len(K) * _LN_2PI + logarithm) + float(np.vdot(Y.T, A.T)))
    lower = dsyrk(-0.5, A, beta=0.5 * n_columns, c=lower, lower=1, overwrite_c=1)
    return value, _symmetrised(lower)


def conditional_negative_log_likelihood(
    K: Array, Y: Array, Yt: Array, *, n_columns: int
) -> tuple[float, Array]:
    """Return -Σ_j ln N(y_j; μ_j, s_j I) of rows Y_t given rows Y, and its gradient ∂/∂K.

    With k_j the covariances of row j of Y_t with the rows Y: μ_j = YᵀK⁻¹k_j and
    s_j = K_jj - k_jᵀK⁻¹k_j (eqs. 25 and 26 of Gao et al. 2010).

    Parameters
    ----------
    K : (n + m, n + m)
        Covariance of the rows Y, followed by the rows Y_t.
    Y, Yt : (n, q), (m, q)
        Rows, which may have been compressed by one call of :func:`compress_rows` for both.
    n_columns
        D, the number of columns before compression.
    """
    n, D = len(Y), n_columns
    P, _ = inverse_and_log_determinant(K[:n, :n])
    Q = K[:n, n:]
    A, B = P @ Y, P @ Q
    s = np.maximum(np.diagonal(K)[n:] - np.einsum("ij,ij->j", Q, B), MIN_VARIANCE)
    R = Yt - Q.T @ A
    e = np.einsum("ij,ij->i", R, R)
    value = 0.5 * float(D * (len(s) * _LN_2PI + np.log(s).sum()) + (e / s).sum())
    h = np.where(s > MIN_VARIANCE, 0.5 * (D - e / s) / s, 0.0)
    E = (R / s[:, np.newaxis]) @ A.T
    G = np.zeros_like(K)
    BE = B @ E
    G[:n, :n] = (B * h) @ B.T + 0.5 * (BE + BE.T)
    G[:n, n:] = -(B * h) - 0.5 * E.T
    G[n:, :n] = G[:n, n:].T
    G[n:, n:] = np.diag(h)
    return value, G
