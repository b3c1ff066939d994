"""Maximisation of the ratio trace tr((UᵀS_tU)⁻¹UᵀS_bU), and null-space LDA."""

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.eigen import leading_of_dense

#: Eigenvalues below this count as 0: their directions do not separate classes.
INFORMATION_RTOL = 1e-12
#: Singular values of H count as 0 below this, relative to the root of the largest total scatter.
NULL_RTOL = 1e-9


def generalised_directions(
    between: Array, total: Array, *, ridge: float, d: int
) -> tuple[Array, Array]:
    """Return the leading eigenvectors of S_b u = λ(S_t + ρI)u with λ > 0, and their λ.

    λ is at most 1. The vectors also solve S_b u = μ(S_w + ρI)u with μ = λ/(1 - λ).

    Parameters
    ----------
    between : (n_classes, r)
        B with S_b = BᵀB.
    total : (r,)
        Diagonal of S_t, positive.

    Returns
    -------
    Y : (r, m)
        Columns with Yᵀ(S_t + ρI)Y = I; m <= d, and at most the rank of S_b.
    values : (m,)
        λ in decreasing order.
    """
    root = np.sqrt(total + ridge)
    _, cosines, Vt = np.linalg.svd(between / root, full_matrices=False)
    values = np.minimum(cosines**2, 1.0)
    m = min(d, int((values > INFORMATION_RTOL).sum()))
    return (Vt[:m] / root).T, values[:m]


def null_space_directions(between: Array, within: Array, total: Array, *, d: int) -> Array:
    """Return the orthonormal directions with the largest S_b in the null space of S_w.

    Parameters
    ----------
    between : (n_classes, r)
        B with S_b = BᵀB.
    within : (n, r), n >= r
        H with S_w = HᵀH.
    total : (r,)
        Diagonal of S_t in decreasing order.

    Returns
    -------
    (r, m)
        m <= d.
    """
    r = total.size
    _, s, Vt = np.linalg.svd(within, full_matrices=False)
    floor = NULL_RTOL * float(np.sqrt(np.max(total, initial=0.0)))
    N = Vt[int((s > floor).sum()) :].T
    if r == 0 or N.shape[1] == 0:
        return np.zeros((r, 0))
    BN = between @ N
    return np.asarray(N @ leading_of_dense(BN.T @ BN, min(d, N.shape[1])).T)
