"""Projection of rows into the latent space of a Gaussian process: their most likely latents.

With P = K⁻¹, A = PY and C = AAᵀ of the r active rows, an evaluation for a row y costs O(r²). D
enters once only, in b = Ay:

    s = k(x, x) + w - kᵀPk,   e = ‖y‖² - 2kᵀb + kᵀCk,   f(x) = (D/2) ln s + e/(2s)

This is eq. 25 of Gao et al. (2010) up to a constant. The *robust* form has extra noise τ >= 0 for
each row, at its optimal value, so that max(s, e/D) replaces s. Without it, a model with little
noise has a local minimum at the active latent where the search starts.

Missing features are left out of ‖y‖², b, C and D, which is exact because columns are independent
given K.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array
from algorithms.numerics.gp_covariances import COVARIANCES, KernelName
from algorithms.numerics.gp_terms import MIN_VARIANCE, inverse_and_log_determinant

#: Maximum number of BFGS steps for one row.
MAX_ITER = 200
#: A row has converged once its gradient per feature is below this.
TOLERANCE = 1e-7
#: The same for the robust minimum if it is only the start of the next minimisation.
ROBUST_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """A Gaussian process from latent points to rows, conditioned on its active rows.

    Parameters
    ----------
    kernel
        Name of the covariance function.
    theta : (3,)
        Logarithms of a, g, w.
    noise
        w + floor.
    active : (r, L)
        Latents of the active rows.
    P, A, C : (r, r), (r, D), (r, r)
        K⁻¹, K⁻¹Y, AAᵀ.
    at_active : (r, r)
        k(active, active), for the choice of initial latents.
    """

    kernel: KernelName
    theta: Array
    noise: float
    active: Array
    P: Array
    A: Array
    C: Array
    at_active: Array

    def mean(self, X: Array) -> Array:
        """Return the expected rows kᵀA at latents X (n, L), (n, D)."""
        return np.asarray(self.cross_covariance(X) @ self.A)

    def variance(self, X: Array) -> Array:
        """Return the variance s of a feature of a row at latents X (n, L), (n,)."""
        k = self.cross_covariance(X)
        prior = COVARIANCES[self.kernel].diag(X, self.theta)
        s = prior + self.noise - np.einsum("ij,ij->i", k @ self.P, k)
        return np.asarray(np.maximum(s, MIN_VARIANCE))

    def values(self, X: Array, Y: Array, *, is_robust: bool) -> Array:
        """Return f of rows Y (n, D) at latents X (n, L), (n,), as the compiled kernel does."""
        R = Y - self.mean(X)
        e = np.nansum(R**2, axis=1)
        D = np.count_nonzero(~np.isnan(R), axis=1).astype(np.float64)
        return negative_log_density(self.variance(X), e, D, is_robust=is_robust)

    def cross_covariance(self, X: Array) -> Array:
        """Return k(X, active), (n, r)."""
        return COVARIANCES[self.kernel].matrix(X, self.active, self.theta)


def predictor(
    kernel: KernelName, theta: Array, active: Array, Y: Array, *, floor: float
) -> Predictor:
    """Return the process conditioned on active rows Y (r, D) at latents (r, L).

    Parameters
    ----------
    floor
        Variance that is added to the noise.

    Raises
    ------
    LinAlgError
        The covariance is not positive definite.
    """
    noise = float(np.exp(theta[2])) + floor
    at_active = COVARIANCES[kernel].matrix(active, active, theta)
    P, _ = inverse_and_log_determinant(at_active + noise * np.eye(len(active)))
    A = P @ Y
    return Predictor(kernel, theta, noise, active, P, A, A @ A.T, at_active)


def initial_latents(process: Predictor, Y: Array, *, is_robust: bool = True) -> tuple[Array, Array]:
    """Return for each row the active latent with the smallest f, and this f.

    Parameters
    ----------
    Y : (n, D)
        NaN marks missing values.

    Returns
    -------
    X : (n, L)
    values : (n,)
    """
    X, values = np.empty((len(Y), process.active.shape[1])), np.empty(len(Y))
    for rows, data in _group_by_observed(process, Y):
        k = process.at_active
        prior = np.diagonal(k) if process.kernel == "linear" else k[0, 0]
        s = np.maximum(
            prior + process.noise - np.einsum("ij,ij->i", k @ process.P, k), MIN_VARIANCE
        )
        e = data.sizes[:, np.newaxis] - 2.0 * (data.B @ k) + np.einsum("ij,ij->i", k @ data.C, k)
        f = negative_log_density(s, np.maximum(e, 0.0), data.D, is_robust=is_robust)
        best = np.argmin(f, axis=1)
        X[rows] = process.active[best]
        values[rows] = f[np.arange(len(best)), best]
    return X, values


def refine_latents(
    process: Predictor, Y: Array, X: Array, *, is_robust: bool, tolerance: float = TOLERANCE
) -> tuple[Array, Array]:
    """Return the local minimisers of f, started from X (n, L), and f at these points.

    Parameters
    ----------
    Y : (n, D)
        NaN marks missing values.
    tolerance
        Bound on the largest entry of the gradient, per feature.
    """
    from algorithms.numerics.kernels.latent import project_rows

    minimisers, values = X.copy(), np.empty(len(Y))
    kind = (process.kernel == "rbf", is_robust)
    active_T = np.ascontiguousarray(process.active.T)
    for rows, data in _group_by_observed(process, Y):
        products = np.stack([process.P, data.C])
        numbers = np.array([*np.exp(process.theta[:2]), process.noise, 0.0, data.D])
        part = minimisers[rows]
        values[rows] = project_rows(
            part, active_T, products, data.B, data.sizes, numbers, kind, MAX_ITER, tolerance
        )
        minimisers[rows] = part
    return minimisers, values


def negative_log_density(s: Array, e: Array, D: Array | float, *, is_robust: bool) -> Array:
    """Return f = (D/2) ln v + e/(2v), with v = s, or v = max(s, e/D) in the robust form.

    Parameters
    ----------
    s
        Variance of a feature.
    e
        Squared error of a row, summed over its D features.
    """
    v = np.maximum(s, e / D) if is_robust else s
    return np.asarray(0.5 * (D * np.log(v) + e / v))


@dataclass(frozen=True, slots=True)
class _ObservedRows:
    """Inputs of f for rows with the same observed features.

    Parameters
    ----------
    B : (n, r)
        b of each row.
    sizes : (n,)
        ‖y‖² of each row.
    C : (r, r)
        AAᵀ of the observed features.
    """

    B: Array
    sizes: Array
    C: Array
    D: float


def _group_by_observed(
    process: Predictor, Y: Array
) -> list[tuple[NDArray[np.intp], _ObservedRows]]:
    """Return the positions and the data of each group of rows with the same observed features."""
    is_observed = ~np.isnan(Y)
    if is_observed.all():
        rows = np.arange(len(Y))
        return [(rows, _observed(process.A, process.C, Y))] if len(Y) else []
    patterns, which = np.unique(is_observed, axis=0, return_inverse=True)
    groups = []
    for i, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == i)
        A = process.A[:, pattern]
        groups.append((rows, _observed(A, A @ A.T, Y[np.ix_(rows, pattern)])))
    return groups


def _observed(A: Array, C: Array, Y: Array) -> _ObservedRows:
    return _ObservedRows(Y @ A.T, np.einsum("ij,ij->i", Y, Y), C, float(Y.shape[1]))
