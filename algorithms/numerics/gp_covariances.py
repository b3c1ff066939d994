"""Covariance functions of a Gaussian process over latent points, and their gradients.

The hyper-parameters θ = (ln a, ln g, ln w) are logarithms: variance, inverse squared width, noise.
K_f is the covariance of the process; K = K_f + (w + floor) E is the covariance of the observed
rows.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal, final

import numpy as np

from algorithms.numerics.arrays import Array

KernelName = Literal["rbf", "linear"]

#: Logarithms of hyper-parameters are clipped to ± this; beyond it, K loses all precision.
MAX_ABS_LOG = 14.0


class Covariance(ABC):
    """A covariance function k(x, x')."""

    @abstractmethod
    def matrix(self, X: Array, Z: Array, theta: Array) -> Array:
        """Return K_f, (n, m), of points X (n, L) and Z (m, L)."""

    @abstractmethod
    def diag(self, X: Array, theta: Array) -> Array:
        """Return the variances k(x, x) of the process at points X (n, L), (n,)."""

    @abstractmethod
    def pull_back(
        self, G: Array, K: Array, X: Array, theta: Array, *, noise_trace: float
    ) -> tuple[Array, float, float]:
        """Return ∂F/∂X, ∂F/∂ln a and ∂F/∂ln g, given ∂F/∂K.

        Parameters
        ----------
        G : (n, n)
            ∂F/∂K, symmetric.
        K : (n, n)
            k(X, X) with the noise on its diagonal.
        noise_trace
            The noise times tr G.
        """


@final
class RBF(Covariance):
    """k(x, x') = a exp(-g/2 ‖x - x'‖²), eq. 2 of Gao et al. (2010)."""

    def matrix(self, X: Array, Z: Array, theta: Array) -> Array:
        """Return K_f, (n, m)."""
        K = X @ Z.T
        if Z is X:
            row_terms = column_terms = 0.5 * K.diagonal()
        else:
            row_terms, column_terms = (
                0.5 * np.einsum("ij,ij->i", X, X),
                0.5 * np.einsum("ij,ij->i", Z, Z),
            )
        K -= row_terms[:, np.newaxis]
        K -= column_terms
        np.minimum(K, 0.0, out=K)  # rounding errors can make squared distances negative
        K *= math.exp(theta[1])
        K += theta[0]
        np.exp(K, out=K)
        return K

    def diag(self, X: Array, theta: Array) -> Array:
        """Return a for every point."""
        return np.full(len(X), math.exp(theta[0]))

    def pull_back(
        self, G: Array, K: Array, X: Array, theta: Array, *, noise_trace: float
    ) -> tuple[Array, float, float]:
        """Return ∂F/∂X = -2g (diag(W1) X - WX), ∂F/∂ln a = ΣW, ∂F/∂ln g = -(g/2) Σ W∘Δ.

        Here W = G∘K_f, and Δ are the squared distances. The noise on the diagonal of W cancels in
        ∂F/∂X. Since K_f depends on √g X only, ∂F/∂ln g = ½ Σ X∘∂F/∂X.
        """
        W = G * K
        sums = np.add.reduce(W, axis=0)  # W is symmetric
        dX = W @ X
        dX -= sums[:, np.newaxis] * X
        dX *= 2.0 * math.exp(theta[1])
        return dX, float(sums.sum()) - noise_trace, 0.5 * float(np.vdot(X, dX))


@final
class Linear(Covariance):
    """k(x, x') = a xᵀx', which is dual probabilistic PCA."""

    def matrix(self, X: Array, Z: Array, theta: Array) -> Array:
        """Return K_f, (n, m)."""
        return np.asarray(math.exp(theta[0]) * (X @ Z.T))

    def diag(self, X: Array, theta: Array) -> Array:
        """Return a‖x‖² for every point."""
        return np.asarray(math.exp(theta[0]) * np.einsum("ij,ij->i", X, X))

    def pull_back(
        self, G: Array, K: Array, X: Array, theta: Array, *, noise_trace: float
    ) -> tuple[Array, float, float]:
        """Return ∂F/∂X = 2a GX, ∂F/∂ln a = Σ G∘K_f; there is no g."""
        del K, noise_trace
        dX = G @ X
        dX *= 2.0 * math.exp(theta[0])
        return dX, 0.5 * float(np.vdot(X, dX)), 0.0


COVARIANCES: dict[KernelName, Covariance] = {"rbf": RBF(), "linear": Linear()}
