"""The objective of a latent variable model as a function of θ and the latents."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.gp_covariances import MAX_ABS_LOG, Covariance

#: Return the value and ∂/∂K for K (n, n); raise LinAlgError if K is not positive definite.
Terms = Callable[[Array], tuple[float, Array]]

N_THETA = 3


@dataclass(frozen=True, slots=True)
class LatentObjective:
    """F(θ, X) = terms(K), K = K_f(X) + (w + floor) E, as a function of z = [θ, X].

    F is infinite if K is not positive definite or F is not finite, so that a line search
    backtracks.

    Parameters
    ----------
    floor
        Lower bound of the noise variance; also the jitter that keeps K regular.
    """

    covariance: Covariance
    terms: Terms
    n_latents: int
    floor: float

    def __call__(self, z: Array) -> tuple[float, Array]:
        """Return F and its gradient, (3 + n L,)."""
        theta, X = unpack(z, n_latents=self.n_latents)
        w = math.exp(theta[2])
        K = self.covariance.matrix(X, X, theta)
        K.reshape(-1)[:: len(K) + 1] += w + self.floor
        try:
            value, G = self.terms(K)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(z)
        if not math.isfinite(value):
            return np.inf, np.zeros_like(z)
        gradient = np.empty_like(z)
        trace = float(G.trace())
        dX, gradient[0], gradient[1] = self.covariance.pull_back(
            G, K, X, theta, noise_trace=(w + self.floor) * trace
        )
        gradient[2] = w * trace
        gradient[N_THETA:] = dX.ravel()
        gradient[:N_THETA][theta != z[:N_THETA]] = 0.0
        return value, gradient


def pack(theta: Array, X: Array) -> Array:
    """Return z = [θ, X]."""
    return np.concatenate([theta, X.ravel()])


def unpack(z: Array, *, n_latents: int) -> tuple[Array, Array]:
    """Return θ (3,), clipped to ± ``MAX_ABS_LOG``, and X (n, L)."""
    theta, X = z[:N_THETA], z[N_THETA:].reshape(-1, n_latents)
    logarithms = theta.tolist()
    if min(logarithms) >= -MAX_ABS_LOG and max(logarithms) <= MAX_ABS_LOG:
        return theta, X
    return np.clip(theta, -MAX_ABS_LOG, MAX_ABS_LOG), X
