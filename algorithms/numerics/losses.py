"""Losses of margins, with their multipliers and conjugates for duality gaps.

With y = ±1 and margin m = y f, a loss is L(f) = φ(m). Multipliers p = −φ'(m) lie in [0, 1], the
dual variable is α = y p, and L*(−α) = φ*(−p).
"""

from abc import ABC, abstractmethod
from typing import final

import numpy as np
from scipy.special import entr, expit

from algorithms.numerics.arrays import Array


class MarginLoss(ABC):
    """A convex loss of the margin with multipliers in [0, 1]."""

    @abstractmethod
    def value(self, m: Array) -> Array:
        """Return φ(m)."""

    @abstractmethod
    def multiplier(self, m: Array) -> Array:
        """Return p = −φ'(m)."""

    @abstractmethod
    def conjugate(self, p: Array) -> Array:
        """Return φ*(−p) for p in [0, 1]."""


@final
class Logistic(MarginLoss):
    """φ(m) = log(1 + exp(−m))."""

    def value(self, m: Array) -> Array:
        """Return log(1 + exp(−m)) without overflow."""
        return np.logaddexp(0.0, -m)

    def multiplier(self, m: Array) -> Array:
        """Return 1 / (1 + exp(m))."""
        return np.asarray(expit(-m))

    def conjugate(self, p: Array) -> Array:
        """Return p log p + (1 − p) log(1 − p)."""
        return np.asarray(-entr(p) - entr(1.0 - p))


@final
class Hinge(MarginLoss):
    """φ(m) = max(0, 1 − m)."""

    def value(self, m: Array) -> Array:
        """Return max(0, 1 − m)."""
        return np.maximum(0.0, 1.0 - m)

    def multiplier(self, m: Array) -> Array:
        """Return 1 for margins below 1, 0 otherwise."""
        return np.where(m < 1.0, 1.0, 0.0)

    def conjugate(self, p: Array) -> Array:
        """Return −p."""
        return -p


@final
class ProximalHinge(MarginLoss):
    """A smooth hinge loss: φ(m) = max over p in [0, 1] of p(1 − m) − μ/2 (p − c)².

    If c are the multipliers at the optimum of the hinge loss, both losses have the same minimum for
    any μ. Setting c to the new multipliers p repeatedly is the proximal point method on the dual.

    Reference: Rockafellar, *Augmented Lagrangians and applications of the proximal point algorithm
    in convex programming*, 1976, doi:10.1287/moor.1.2.97

    Parameters
    ----------
    c
        Centres in [0, 1], with the shape of the margins.
    mu
        μ > 0, the smoothness.
    """

    def __init__(self, c: Array, mu: float) -> None:
        self.c = c
        self.mu = mu

    def value(self, m: Array) -> Array:
        """Return φ(m)."""
        p = self.multiplier(m)
        return np.asarray(p * (1.0 - m) - 0.5 * self.mu * (p - self.c) ** 2)

    def multiplier(self, m: Array) -> Array:
        """Return the maximising p."""
        return np.clip(self.c + (1.0 - m) / self.mu, 0.0, 1.0)

    def conjugate(self, p: Array) -> Array:
        """Return φ*(−p)."""
        return np.asarray(-p + 0.5 * self.mu * (p - self.c) ** 2)
