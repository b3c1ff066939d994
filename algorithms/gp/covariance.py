"""The covariance of the functions of all tasks, and the gradient of the evidence.

    k((x,t),(z,u)) = 1 + a_c xᵀz/D + r_c ρ(x,z) + [t = u](a_o xᵀz/D + r_o ρ(x,z)^(1/λ²) + b_o)
    ρ(x,z) = exp(−½ Σ_j (x_j − z_j)²/(D ℓ_g(j)²))

The sum of a part that the tasks share (c) and one of their own (o), each linear plus a curve: a sum
of separable kernels (Álvarez, Rosasco, Lawrence 2012, §4, doi:10.1561/2200000036). The own curve
has the length scales of the common one, times λ: all tasks teach which columns matter, also where
their functions differ. D is the mean of ‖x‖² over the training rows.

Parts of their own exist for pairs of rows of one task alone, Σ n_t² numbers instead of n².
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from scipy.linalg.blas import daxpy
from scipy.spatial.distance import cdist

from algorithms.numerics.arrays import Array, Indices

#: Parameters before the length scales of the groups of columns.
N_SHARED: Final = 7
#: Smallest variance of the noise, for targets without: numbers are then exact to a few thousandths.
#: With less, rounding errors change the path of the search.
MIN_NOISE: Final = 1e-5
#: Variance of the constant that all tasks share, in units of the variance of all targets.
COMMON_CONSTANT: Final = 1.0


class Hyperparameters(NamedTuple):
    """Variances, noise and length scales, in units of the targets' variance.

    Attributes
    ----------
    common_slopes, common_curve
        a_c and r_c.
    own_slopes, own_curve, own_constant
        a_o, r_o and b_o.
    noise
        σ².
    stretch
        λ.
    lengths : (n_groups,)
        ℓ_g of each group of columns.
    """

    common_slopes: float
    common_curve: float
    own_slopes: float
    own_curve: float
    own_constant: float
    noise: float
    stretch: float
    lengths: Array

    @classmethod
    def of(cls, logarithms: Array) -> "Hyperparameters":
        """Return the parameters with these logarithms (7 + n_groups,), that of σ² − MIN_NOISE."""
        values = np.exp(logarithms)
        shared: tuple[float, float, float, float, float, float, float]
        shared = tuple(values[:N_SHARED].tolist())
        theta = cls(*shared, values[N_SHARED:])
        return theta._replace(noise=theta.noise + MIN_NOISE)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of all tasks, those of each task together.

    Parameters
    ----------
    X : (n, d)
    task : (n,)
        Position of each row's task; not decreasing.
    group : (d,)
        Group of each column; its columns have one length scale.
    size
        D, the mean of ‖x‖² over the training rows.
    """

    X: Array
    task: Indices
    group: Indices
    size: float

    @cached_property
    def pairs(self) -> Indices:
        """Positions in the flat (n, n) matrix of the pairs of rows of one task."""
        n = len(self.X)
        starts = np.flatnonzero(np.diff(self.task, prepend=-1))
        ends = np.append(starts[1:], n)
        blocks = [
            (np.arange(start, end)[:, np.newaxis] * n + np.arange(start, end)).ravel()
            for start, end in zip(starts, ends, strict=True)
        ]
        return np.concatenate(blocks)

    @cached_property
    def products(self) -> Array:
        """The products xᵀz/D of all pairs of rows, (n, n)."""
        return np.asarray(self.X @ self.X.T / self.size)

    @cached_property
    def own_products(self) -> Array:
        """The products of the pairs of rows of one task."""
        return self.products.ravel()[self.pairs]


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of the covariance of rows for given parameters, from which gradients are made.

    Parameters
    ----------
    squares, curve : (n, n)
        −2 log ρ, and ρ.
    own_curve : (n_pairs,)
        ρ^(1/λ²) of the pairs of rows of one task.
    """

    rows: Rows
    theta: Hyperparameters
    squares: Array
    curve: Array
    own_curve: Array

    @classmethod
    def of(cls, rows: Rows, theta: Hyperparameters) -> "Parts":
        """Return the parts for rows."""
        squares = scaled_squares(rows.X, rows.X, rows, theta)
        curve = -0.5 * squares
        np.exp(curve, out=curve)
        own_curve = np.exp(squares.ravel()[rows.pairs] * (-0.5 / theta.stretch**2))
        return cls(rows, theta, squares, curve, own_curve)

    def matrix(self) -> Array:
        """Return the covariance (n, n) of the functions, without noise."""
        theta, rows = self.theta, self.rows
        K = theta.common_curve * self.curve + COMMON_CONSTANT
        K = daxpy(rows.products.ravel(), K.ravel(), a=theta.common_slopes).reshape(K.shape)
        own = theta.own_slopes * rows.own_products + theta.own_curve * self.own_curve
        K.reshape(-1)[rows.pairs] += own + theta.own_constant
        return K

    def derivatives(self, M: Array, noise_slopes: Array) -> Array:
        """Return Σ M ∘ ∂K/∂θ for the logarithm of each parameter, (7 + n_groups,).

        Parameters
        ----------
        M : (n, n)
            Symmetric.
        noise_slopes : (n,)
            Derivative of the variance of the noise of each row.
        """
        theta, rows = self.theta, self.rows
        own_M = M.ravel()[rows.pairs]
        # what the length scales change: the curves, of which the own one is stretched
        changed, own_bent = M * self.curve, own_M * self.own_curve
        changed *= theta.common_curve
        curve = changed.sum()
        own_changed = theta.own_curve / theta.stretch**2 * own_bent
        stretched = own_changed @ self.squares.ravel()[rows.pairs]
        changed.reshape(-1)[rows.pairs] += own_changed
        X = rows.X
        by_column = 2.0 * (changed.sum(axis=1) @ X**2 - np.einsum("nd,nd->d", X, changed @ X))
        by_group = np.bincount(rows.group, by_column, minlength=len(theta.lengths))
        shared = [
            theta.common_slopes * np.vdot(M, rows.products),
            curve,
            theta.own_slopes * (own_M @ rows.own_products),
            theta.own_curve * own_bent.sum(),
            theta.own_constant * own_M.sum(),
            M.diagonal() @ noise_slopes,
            stretched,
        ]
        return np.concatenate([shared, by_group / (rows.size * theta.lengths**2)])


def scaled_squares(Z: Array, X: Array, rows: Rows, theta: Hyperparameters) -> Array:
    """Return Σ_j (z_j − x_j)²/(D ℓ_g(j)²) of all pairs, (len(Z), len(X))."""
    scale = 1.0 / (np.sqrt(rows.size) * theta.lengths[rows.group])
    return np.asarray(cdist(Z * scale, X * scale, "sqeuclidean"))


def covariances(Z: Array, X: Array, rows: Rows, theta: Hyperparameters) -> tuple[Array, Array]:
    """Return the common covariance of rows, and what rows of one task add, (len(Z), len(X))."""
    squares, slopes = scaled_squares(Z, X, rows, theta), Z @ X.T / rows.size
    common = theta.common_slopes * slopes + theta.common_curve * np.exp(-0.5 * squares)
    own_curve = np.exp(squares * (-0.5 / theta.stretch**2))
    own = theta.own_slopes * slopes + theta.own_curve * own_curve
    return COMMON_CONSTANT + common, theta.own_constant + own


def variances(Z: Array, rows: Rows, theta: Hyperparameters) -> Array:
    """Return the prior variance of the function of a task at each row of Z, (len(Z),)."""
    slopes = theta.common_slopes + theta.own_slopes
    constant = COMMON_CONSTANT + theta.common_curve + theta.own_curve + theta.own_constant
    return np.asarray(constant + slopes / rows.size * np.einsum("nd,nd->n", Z, Z))
