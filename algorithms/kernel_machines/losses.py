"""Losses, their conjugates and boxes, in reduced variables κ = α/C.

With gain(κ) = -L*(-κ), each example has the certificate L(y, F) - gain(κ) + κF >= 0, and the sum
of all is the duality gap over C. All quadratic pieces have one form, gain(κ) = yκ - ½qκ² - ε|κ|
for κ in [lo, hi]; a weight w of an example makes L into wL and gain(κ) into w gain(κ/w).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, huber

Array = NDArray[np.float64]
LossName = Literal["squared", "huber", "hinge", "squared-hinge", "logistic", "epsilon-insensitive"]

#: Losses for numbers, and for classes.
NUMBER_LOSSES = ("squared", "huber", "epsilon-insensitive")
CLASS_LOSSES = ("squared", "hinge", "squared-hinge", "logistic")
#: Losses whose gain has the term -½κ²/w.
CURVED = ("squared", "huber", "squared-hinge")


@dataclass(frozen=True, slots=True)
class Loss:
    """A convex loss of one prediction.

    Parameters
    ----------
    epsilon
        Of the ε-insensitive loss; 0 elsewhere.
    delta
        Of the Huber loss: the error from which on it is linear.
    """

    name: LossName
    epsilon: float = 0.0
    delta: float = 1.0

    @property
    def is_logistic(self) -> bool:
        """Whether the gain is an entropy and not quadratic."""
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
        """Return -w L*(-κ/w) of each example; κ is in its box."""
        if self.is_logistic:
            u = np.clip(y * kappa / w, 0.0, 1.0)
            return np.asarray(w * (entr(u) + entr(1.0 - u)))
        gain = y * kappa - self.epsilon * np.abs(kappa)
        if self.name in CURVED:
            gain = gain - 0.5 * kappa**2 / w
        return np.asarray(gain)

    def pieces(self, y: Array, w: Array) -> Array:
        """Return (y, q, lo, hi, w) of each example, (..., 5), as the compiled step reads them."""
        zero, inf = np.zeros_like(y), np.full_like(y, np.inf)
        q = 1.0 / w if self.name in CURVED else zero
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
        """Return κ = -w L'(y, F), the dual point that belongs to predictions (smooth losses)."""
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
        """Return w L''(y, F) (smooth losses)."""
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
        """Return the κ to start from: 0, and for the logistic loss the middle of the box."""
        return np.asarray(0.5 * y * w if self.is_logistic else np.zeros_like(y))
