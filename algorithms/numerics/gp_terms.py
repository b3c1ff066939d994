"""Terms of an objective over covariance matrices, each with its gradient ∂/∂K.

A matrix that is not positive definite raises ``LinAlgError``.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr
from scipy.linalg.blas import dsymm, dsyrk
from scipy.linalg.lapack import dpotrf, dpotri

Array = NDArray[np.float64]

#: Least predictive variance; below, rounding has eaten it.
MIN_VARIANCE = 1e-12
_LN_2PI = float(np.log(2.0 * np.pi))


def inverse_and_log_determinant(K: Array) -> tuple[Array, float]:
    """Return K⁻¹ and ln|K| of a symmetric positive definite K (n, n).

    Raises
    ------
    LinAlgError
        K is not positive definite.
    """
    half, logarithm = _half_inverse(K)
    return _whole(half), logarithm


def _half_inverse(K: Array) -> tuple[Array, float]:
    """Return the lower triangle of K⁻¹, above it zeros, in the order of LAPACK; and ln|K|."""
    # of the transpose, so that LAPACK sees columns without a copy of K being turned
    factor, info = dpotrf(K.T, lower=1, clean=1, overwrite_a=0)
    if info != 0:
        raise np.linalg.LinAlgError("the covariance is not positive definite")
    logarithm = 2.0 * float(np.add.reduce(np.log(factor.diagonal())))
    half, _ = dpotri(factor, lower=1, overwrite_c=1)
    return half, logarithm


def _whole(half: Array) -> Array:
    """Return the symmetric matrix of a lower triangle."""
    whole = np.add(half, half.T, order="C")
    whole.reshape(-1)[:: len(half) + 1] *= 0.5
    return whole


def compress_rows(Y: Array) -> Array:
    """Return rows of at most n columns with the same YYᵀ, for Y (n, D), in the order of LAPACK."""
    if Y.shape[1] <= Y.shape[0]:
        return np.asfortranarray(Y)
    (R,) = qr(Y.T, mode="r", check_finite=False)
    return np.asfortranarray(R[: len(Y)].T)


def negative_log_likelihood(K: Array, Y: Array, *, n_columns: int) -> tuple[float, Array]:
    """Return L = (D n/2) ln 2π + (D/2) ln|K| + ½ tr(K⁻¹ YYᵀ) and (D/2) K⁻¹ - ½ K⁻¹ YYᵀ K⁻¹.

    Eq. 10 of Gao et al. (2010).

    Parameters
    ----------
    K : (n, n)
    Y : (n, m)
        Rows, compressed or not.
    n_columns
        D, the number of columns before compression.
    """
    half, logarithm = _half_inverse(K)
    A = dsymm(1.0, half, Y, lower=1)
    value = 0.5 * (n_columns * (len(K) * _LN_2PI + logarithm) + float(np.vdot(Y.T, A.T)))
    half = dsyrk(-0.5, A, beta=0.5 * n_columns, c=half, lower=1, overwrite_c=1)
    return value, _whole(half)


def conditional_negative_log_likelihood(
    K: Array, Y: Array, Yt: Array, *, n_columns: int
) -> tuple[float, Array]:
    """Return -Σ_j ln N(y_j; μ_j, s_j E) of rows Y_t given rows Y, and its gradient by all of K.

    With k_j a column between both sets: μ_j = YᵀK⁻¹k_j, s_j = K_jj - k_jᵀK⁻¹k_j; eqs. 25 and 26
    of Gao et al. (2010).

    Parameters
    ----------
    K : (n + m, n + m)
        Covariance of the rows Y first, then of Y_t.
    Y, Yt : (n, q), (m, q)
        Rows, compressed together or not.
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
