"""Losses, their conjugates and bounds, in reduced variables κ = α/C.

With gain(κ) = -L*(-κ), each example has L(y, F) - gain(κ) + κF >= 0, and the sum over all examples
is the duality gap divided by C. All losses but the logistic loss have the form
gain(κ) = yκ - ½qκ² - ε|κ| for κ in [lo, hi]. A weight w changes L to wL and gain(κ) to w gain(κ/w).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import entr, expit, huber

from algorithms.numerics.arrays import Array

LossName = Literal["squared", "huber", "hinge", "squared-hinge", "logistic", "epsilon-insensitive"]

#: Losses for numeric targets, and for classes.
NUMBER_LOSSES = ("squared", "huber", "epsilon-insensitive")
CLASS_LOSSES = ("squared", "hinge", "squared-hinge", "logistic")
#: Losses whose gain has the term -½κ²/w.
QUADRATIC = ("squared", "huber", "squared-hinge")


@dataclass(frozen=True, slots=True)
class Loss:
    """A convex loss.

    Parameters
    ----------
    epsilon
        ε of the ε-insensitive loss; 0 for other losses.
    delta
        Error beyond which the Huber loss is linear.
    """

    name: LossName
    epsilon: float = 0.0
    delta: float = 1.0

    @property
    def is_logistic(self) -> bool:
        """Whether the gain is an entropy instead of a quadratic function."""
        return self.name == "logistic"

    def values(self, y: Array, F: Array, w: Array) -> Array:
        """Return w L(y, F) of each example."""
        margin = 1.0 - y * F
        match self.name:
            case "squared":
                loss = 0.5 * (y - F) ** 2
            case "huber":
                loss = np.asarray(huber(self.delta, y - F), dtype=np.float64)
            case "hinge":
                loss = np.maximum(margin, 0.0)
            case "squared-hinge":
                loss = 0.5 * np.maximum(margin, 0.0) ** 2
            case "logistic":
                loss = np.logaddexp(0.0, -y * F)
            case "epsilon-insensitive":
                loss = np.maximum(np.abs(y - F) - self.epsilon, 0.0)
        return np.asarray(w * loss)

    def gains(self, y: Array, kappa: Array, w: Array) -> Array:
        """Return -w L*(-κ/w) of each example; κ must be within its bounds."""
        if self.is_logistic:
            u = np.clip(y * kappa / w, 0.0, 1.0)
            return np.asarray(w * (entr(u) + entr(1.0 - u)))
        gain = y * kappa - self.epsilon * np.abs(kappa)
        if self.name in QUADRATIC:
            gain = gain - 0.5 * kappa**2 / w
        return np.asarray(gain)

    def pieces(self, y: Array, w: Array) -> Array:
        """Return (y, q, lo, hi, w) of each example, (..., 5), as input of the compiled step."""
        zero, inf = np.zeros_like(y), np.full_like(y, np.inf)
        q = 1.0 / w if self.name in QUADRATIC else zero
        match self.name:
            case "squared":
                lo, hi = -inf, inf
            case "huber":
                lo, hi = -self.delta * w, self.delta * w
            case "epsilon-insensitive":
                lo, hi = -w, w
            case "squared-hinge":
                lo, hi = np.where(y > 0, zero, -inf), np.where(y > 0, inf, zero)
            case _:
                lo, hi = np.minimum(zero, y * w), np.maximum(zero, y * w)
        return np.ascontiguousarray(np.stack([y, q, lo, hi, w], axis=-1))

    def kappas(self, y: Array, F: Array, w: Array) -> Array:
        """Return κ = -w L'(y, F), the dual point for predictions F (smooth losses only)."""
        match self.name:
            case "squared":
                kappa = y - F
            case "huber":
                kappa = np.clip(y - F, -self.delta, self.delta)
            case "squared-hinge":
                kappa = y * np.maximum(1.0 - y * F, 0.0)
            case "logistic":
                kappa = y * expit(-y * F)
            case _:
                raise ValueError(f"{self.name} has no derivative everywhere")
        return np.asarray(w * kappa)

    def curvatures(self, y: Array, F: Array, w: Array) -> Array:
        """Return w L''(y, F) (smooth losses only)."""
        match self.name:
            case "squared":
                return np.asarray(w * np.ones_like(y))
            case "huber":
                return np.asarray(w * (np.abs(y - F) < self.delta))
            case "squared-hinge":
                return np.asarray(w * (y * F < 1.0))
            case "logistic":
                u = expit(-y * F)
                return np.asarray(w * u * (1.0 - u))
            case _:
                raise ValueError(f"{self.name} has no second derivative")

    def initial_kappa(self, y: Array, w: Array) -> Array:
        """Return the initial κ: 0, or the middle of the bounds for the logistic loss."""
        return np.asarray(0.5 * y * w if self.is_logistic else np.zeros_like(y))
