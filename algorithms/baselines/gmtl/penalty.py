"""The penalty of grouped multi-task feature learning, its proximal operator and its conjugate.

For groups g of rows of W, with the singular values σ of the rows W_g of a group, it is
Ω(W) = γ Σ_g (Σ_i σ_i)². In the proximal operator σ_i = max(τ_i − 2γ·step·S, 0) for the singular
values τ of the argument, where S = Σ_i σ_i = Σ_{i≤k} τ_i/(1 + 2γ·step·k) for the k that are left.
The conjugate is Ω*(Z) = Σ_g max_i ζ_i²/(4γ) with the singular values ζ of Z_g.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array

Groups = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class GroupedTraceNorm:
    """The penalty of rows of W (T, d) in groups.

    Parameters
    ----------
    weight
        γ.
    groups : (T,)
        Group of each row.
    """

    weight: float
    groups: Groups
    _rows: tuple[Groups, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = tuple(np.flatnonzero(self.groups == g) for g in np.unique(self.groups))
        object.__setattr__(self, "_rows", rows)

    def value(self, W: Array) -> float:
        """Return Ω(W)."""
        return self.weight * sum(trace_norm(W[rows]) ** 2 for rows in self._rows)

    def shrink(self, W: Array, step: float) -> Array:
        """Return argmin_V ½‖V − W‖² + step·Ω(V)."""
        shrunk = np.empty_like(W)
        for rows in self._rows:
            left, tau, right = np.linalg.svd(W[rows], full_matrices=False)
            shrunk[rows] = (left * _shrink(tau, 2 * step * self.weight)) @ right
        return shrunk

    def conjugate(self, Z: Array) -> float:
        """Return Ω*(Z) for Z (T, d)."""
        largest = (np.linalg.norm(Z[rows], 2) for rows in self._rows)
        return float(sum(z**2 for z in largest)) / (4 * self.weight)


def trace_norm(W: Array) -> float:
    """Return the sum of the singular values of W."""
    return float(np.linalg.svd(W, compute_uv=False).sum()) if len(W) else 0.0


def _shrink(tau: Array, c: float) -> Array:
    """Return max(τ − cS, 0) with S the sum of the result, for decreasing τ."""
    sums = np.cumsum(tau) / (1 + c * np.arange(1, len(tau) + 1))
    left = np.flatnonzero(tau > c * sums)
    total = sums[left[-1]] if left.size else 0.0
    shrunk: Array = np.maximum(tau - c * total, 0.0)
    return shrunk
