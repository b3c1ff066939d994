"""The Grassmann manifold Gr(d, k), vectorised over stacks of points.

A point is a subspace, represented by any basis U of orthonormal rows, (k, d). A tangent at U is an
E of the same shape with E Uᵀ = 0.

References: Edelman, Arias, Smith, *The geometry of algorithms with orthogonality constraints*,
1998, doi:10.1137/S0895479895290954; Absil, Mahony, Sepulchre, *Optimization Algorithms on Matrix
Manifolds*, 2008
"""

import numpy as np

from algorithms.numerics.arrays import Array


def transpose(A: Array) -> Array:
    """Return A with its last two axes swapped."""
    return np.swapaxes(A, -1, -2)


def project(U: Array, Y: Array) -> Array:
    """Return the tangent part Y (I - UᵀU) of Y at the point U.

    Parameters
    ----------
    U, Y : (..., k, d)
    """
    return Y - (Y @ transpose(U)) @ U


def retract(U: Array, E: Array) -> Array:
    """Return an orthonormal basis of the row space of U + E.

    Parameters
    ----------
    U, E : (..., k, d)
        Point and tangent.

    Notes
    -----
    Cholesky-QR: since E Uᵀ = 0, the Gram matrix is I + E Eᵀ, which is well conditioned for the
    steps of a trust region. A second pass makes the rows orthonormal to machine precision.
    """
    Q = U + E
    for _ in range(2):
        L = np.linalg.cholesky(Q @ transpose(Q))
        Q = np.linalg.solve(L, Q)
    return Q


def projector_distance(U: Array, V: Array) -> Array:
    """Return the projection distance ‖UᵀU - VᵀV‖_F of subspaces.

    Its square is 2k - 2 tr(P P'); the paper prints 2d. It is computed from the part of V outside U,
    sqrt(2) ‖V - V UᵀU‖, so that small distances are accurate.

    Parameters
    ----------
    U, V : (..., k, d)
    """
    outside = project(U, V)
    return np.asarray(np.sqrt(2.0) * np.linalg.norm(outside, axis=(-2, -1)))


def random_points(rng: np.random.Generator, *, n_points: int, k: int, d: int) -> Array:
    """Return uniformly distributed random subspaces.

    Returns
    -------
    (n_points, k, d)
        Orthonormal rows.
    """
    return np.ascontiguousarray(transpose(np.linalg.qr(rng.standard_normal((n_points, d, k)))[0]))
