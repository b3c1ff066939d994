"""The two norms of W for shared features, each with its metric D.

Rows of W (T, d) are tasks:

- full D: the trace norm ‖W‖_*, D = (WᵀW)^½ / tr (eq. 9); the dual norm is the largest singular
  value;
- diagonal D: ‖W‖_{2,1} = Σ_j ‖column j‖, D_jj = ‖column j‖ / sum; the dual norm is the largest
  column norm.

Both satisfy ‖W‖² = min Σ_t ⟨w_t, D⁺w_t⟩ over D ⪰ 0, tr D <= 1 (eq. 8). A metric is represented by a
root U with D = UUᵀ: (d, r) for the full form, the diagonal (d,) for the other.

Reference: Argyriou, Evgeniou, Pontil, *Convex multi-task feature learning*, Machine Learning 2008,
doi:10.1007/s10994-007-5040-8
"""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np

from algorithms.numerics.arrays import Array

#: Smallest threshold of singular values, relative to the largest, for which they may come from
#: WᵀW: errors of singular values above it, relative to the largest, are 1e-16 divided by it.
MIN_CUT = 1e-3


class FeatureNorm(ABC):
    """A norm of W (T, d) and its metric."""

    #: Whether U is (d, r); otherwise it is the diagonal (d,).
    is_full: ClassVar[bool]

    @abstractmethod
    def values(self, W: Array) -> Array:
        """Return numbers whose sum is the norm, and whose maximum is the dual norm."""

    def shrink(self, W: Array, tau: float, *, power: int) -> Array:
        """Return argmin_V ½‖V − W‖² + τ‖V‖^power, for power 1 or 2."""
        return self.shrink_with_norm(W, tau, power=power)[0]

    @abstractmethod
    def shrink_with_norm(self, W: Array, tau: float, *, power: int) -> tuple[Array, float]:
        """Return the result of :meth:`shrink`, and its norm."""

    @abstractmethod
    def root(self, W: Array, epsilon: float) -> Array:
        """Return U with UUᵀ = D of eq. 9 for WᵀW + εI; on the range of W only if ε = 0."""

    @abstractmethod
    def factor(self, W: Array, *, min_ratio: float) -> tuple[Array, Array]:
        """Return U and V with V Uᵀ = W.

        No direction of U is shorter than ``min_ratio`` times the longest; the product is then close
        to W.
        """

    @abstractmethod
    def project(self, X: Array, U: Array) -> Array:
        """Return X U for X (..., d)."""

    @abstractmethod
    def lift(self, V: Array, U: Array) -> Array:
        """Return W = V Uᵀ for V (T, r)."""

    @abstractmethod
    def correlate(self, Z: Array, V: Array) -> Array:
        """Return the gradient of Σ_t ⟨z_t, U v_t⟩ with respect to U."""

    def norm(self, W: Array) -> float:
        """Return ‖W‖."""
        return float(self.values(W).sum())

    def dual_norm(self, Z: Array) -> float:
        """Return the dual norm of Z (T, d)."""
        return float(self.values(Z).max(initial=0.0))


@final
class TraceNorm(FeatureNorm):
    """The trace norm: D is any positive semidefinite matrix of trace 1."""

    is_full = True

    def values(self, W: Array) -> Array:
        """Return the singular values in decreasing order."""
        return np.asarray(np.linalg.svd(W, compute_uv=False))

    def dual_norm(self, Z: Array) -> float:
        """Return the largest singular value, which is accurate in spite of squaring W."""
        S = Z @ Z.T if len(Z) < Z.shape[1] else Z.T @ Z
        return float(np.sqrt(max(np.linalg.eigvalsh(S)[-1], 0.0)))

    def shrink_with_norm(self, W: Array, tau: float, *, power: int) -> tuple[Array, float]:
        """Return W with every singular value reduced by the same threshold, or to 0."""
        if len(W) < W.shape[1]:
            shrunk, size = self.shrink_with_norm(W.T, tau, power=power)
            return shrunk.T, size
        values, V = np.linalg.eigh(W.T @ W)
        s = np.sqrt(np.maximum(values[::-1], 0.0))
        cut = threshold(s, tau, power=power)
        if cut < MIN_CUT * s[0]:  # WᵀW has lost the small singular values
            left, s, right = np.linalg.svd(W, full_matrices=False)
            kept = np.maximum(s - threshold(s, tau, power=power), 0.0)
            return np.asarray((left * kept) @ right), float(kept.sum())
        kept = np.maximum(s - cut, 0.0)
        V = V[:, ::-1][:, kept > 0]
        factors = kept[kept > 0] / s[kept > 0]
        return W @ ((V * factors) @ V.T), float(kept.sum())

    def root(self, W: Array, epsilon: float) -> Array:
        """Return U (d, r), from the SVD of W, because WᵀW loses small singular values."""
        T, d = W.shape
        _, s, right = np.linalg.svd(W, full_matrices=d > T and epsilon > 0)
        spectrum = np.zeros(len(right))
        spectrum[: len(s)] = s
        spectrum = np.sqrt(spectrum**2 + epsilon)
        total = float(spectrum.sum())
        return np.asarray(right.T * np.sqrt(spectrum / total if total > 0 else 1.0 / d))

    def factor(self, W: Array, *, min_ratio: float) -> tuple[Array, Array]:
        """Return U (d, r) and V (T, r) with V Uᵀ = W and r = min(d, T)."""
        left, s, right = np.linalg.svd(W, full_matrices=False)
        root = np.sqrt(np.maximum(s, min_ratio * s[0]))
        return right.T * root, left * root

    def project(self, X: Array, U: Array) -> Array:
        """Return X U, (..., r)."""
        # one matrix product instead of one per task
        return (X.reshape(-1, X.shape[-1]) @ U).reshape(*X.shape[:-1], U.shape[1])

    def lift(self, V: Array, U: Array) -> Array:
        """Return V Uᵀ, (T, d)."""
        return V @ U.T

    def correlate(self, Z: Array, V: Array) -> Array:
        """Return ZᵀV, (d, r)."""
        return Z.T @ V


@final
class ColumnNorm(FeatureNorm):
    """The 2,1-norm over features: D is diagonal."""

    is_full = False

    def values(self, W: Array) -> Array:
        """Return the norm of each column, (d,)."""
        return np.asarray(np.linalg.norm(W, axis=0))

    def shrink_with_norm(self, W: Array, tau: float, *, power: int) -> tuple[Array, float]:
        """Return W with the length of every column reduced by the same threshold, or to 0."""
        norms = self.values(W)
        kept = np.maximum(norms - threshold(np.sort(norms)[::-1], tau, power=power), 0.0)
        return W * (kept / np.where(norms > 0, norms, 1.0)), float(kept.sum())

    def root(self, W: Array, epsilon: float) -> Array:
        """Return the diagonal of U, (d,)."""
        spectrum = np.sqrt(self.values(W) ** 2 + epsilon)
        total = float(spectrum.sum())
        return (
            np.sqrt(spectrum / total)
            if total > 0
            else np.full(len(spectrum), len(spectrum) ** -0.5)
        )

    def factor(self, W: Array, *, min_ratio: float) -> tuple[Array, Array]:
        """Return the diagonal of U, (d,), and V (T, d) with V diag(U) = W."""
        norms = self.values(W)
        U = np.sqrt(np.maximum(norms, min_ratio * norms.max()))
        return U, W / np.where(U > 0, U, 1.0)

    def project(self, X: Array, U: Array) -> Array:
        """Return X diag(U), (..., d)."""
        return X * U

    def lift(self, V: Array, U: Array) -> Array:
        """Return V diag(U), (T, d)."""
        return V * U

    def correlate(self, Z: Array, V: Array) -> Array:
        """Return the diagonal of ZᵀV, (d,)."""
        return np.asarray(np.einsum("td,td->d", Z, V))


def threshold(values: Array, tau: float, *, power: int) -> float:
    """Return the threshold of soft thresholding in argmin ½‖v − values‖² + τ(Σv)^power, v >= 0.

    For power 2 it is 2τS, where S is the sum of the result: if k values exceed the threshold,
    S = (sum of the k largest) / (1 + 2τk).

    Parameters
    ----------
    values : (k,)
        Not negative, in decreasing order.
    """
    if power == 1:
        return tau
    counts = np.arange(1, len(values) + 1)
    candidates = 2 * tau * np.cumsum(values) / (1 + 2 * tau * counts)
    n_kept = int(np.sum(values > candidates))
    return float(candidates[n_kept - 1]) if n_kept else 0.0
