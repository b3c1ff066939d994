"""The cluster penalty, its proximal operator and its conjugate.

With the mean w̄ of the T rows of W and the singular values σ of W minus its mean, the penalty is

    Ω(W) = ε_M T‖w̄‖² + min_λ Σ σ_i²/λ_i,   α ≤ λ_i ≤ β,   Σ λ_i = γ            (eq. 15)

with α = 1/ε_W, β = 1/ε_B and γ = (T − r + 1)α + (r − 1)β. The minimum has λ_i = cσ_i, clipped to
its bounds. In the proximal operator, λ_i = cτ_i − 2·step for the singular values τ of the argument,
clipped, and σ_i = τ_iλ_i/(λ_i + 2·step). The conjugate is

    Ω*(Z) = T‖z̄‖²/(4ε_M) + ¼ [α Σ ζ_i² + (β − α) Σ_{i<r} ζ_i²]

with the singular values ζ of Z minus its mean, in decreasing order.

Reference: Jacob, Bach, Vert, *Clustered multi-task learning: a convex formulation*, NIPS 2008,
arXiv:0809.2085; McDonald, Pontil, Stamos, *New perspectives on k-support and cluster norms*, JMLR
2016, https://jmlr.org/papers/v17/15-151.html (the proximal operator)
"""

from dataclasses import dataclass

import numpy as np

from algorithms.numerics.arrays import Array


@dataclass(frozen=True, slots=True)
class ClusterPenalty:
    """The penalty of r clusters of rows of W (T, d).

    Parameters
    ----------
    within, between, common
        ε_W, ε_B and ε_M; ``within`` is at least ``between``.
    n_clusters
        r, at most T.
    """

    within: float
    between: float
    common: float
    n_clusters: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds α and β of λ."""
        return 1 / self.within, 1 / self.between

    def value(self, W: Array) -> float:
        """Return Ω(W)."""
        mean, deviations = _split(W)
        sigma = np.asarray(np.linalg.svd(deviations, compute_uv=False), dtype=np.float64)
        shares = sigma**2 / self._weights(sigma, shift=0.0)
        return float(self.common * len(W) * (mean @ mean) + shares.sum())

    def shrink(self, W: Array, step: float) -> Array:
        """Return argmin_V ½‖V − W‖² + step·Ω(V)."""
        mean, deviations = _split(W)
        left, tau, right = np.linalg.svd(deviations, full_matrices=False)
        weights = self._weights(tau, shift=2 * step)
        sigma = tau * weights / (weights + 2 * step)
        return np.asarray(mean / (1 + 2 * step * self.common) + (left * sigma) @ right)

    def conjugate(self, Z: Array) -> float:
        """Return Ω*(Z) for Z (T, d)."""
        mean, deviations = _split(Z)
        squares = np.linalg.svd(deviations, compute_uv=False) ** 2
        low, high = self.bounds
        leading = float(squares[: self.n_clusters - 1].sum())
        of_mean = len(Z) * float(mean @ mean) / self.common
        return 0.25 * (of_mean + low * float(squares.sum()) + (high - low) * leading)

    def _weights(self, tau: Array, *, shift: float) -> Array:
        """Return clip(cτ − shift, α, β) (m,), with the sum that is left for positive τ.

        Rows of zeros, and directions beyond the rank, have the weight α.
        """
        low, high = self.bounds
        budget = (self.n_clusters - 1) * (high - low)  # above α for every direction
        weights = np.full(len(tau), low)
        is_positive = tau > 0
        positive = tau[is_positive]
        if len(positive) * (high - low) <= budget:
            weights[is_positive] = high
            return weights
        with np.errstate(over="ignore"):
            ends = np.sort(np.concatenate([(low + shift) / positive, (high + shift) / positive]))
            ends = np.minimum(ends, np.finfo(float).max / max(float(positive.max()), 1.0))
        totals = (np.clip(np.outer(ends, positive) - shift, low, high) - low).sum(axis=1)
        c = float(np.interp(budget, totals, ends))
        weights[is_positive] = np.clip(c * positive - shift, low, high)
        return weights


def _split(W: Array) -> tuple[Array, Array]:
    """Return the mean (d,) of the rows, and the rows minus their mean (T, d)."""
    mean = W.mean(axis=0)
    return mean, W - mean
