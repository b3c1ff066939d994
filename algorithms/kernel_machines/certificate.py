"""Primal, dual and gap of a dual point, example by example."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.kernel_machines.losses import Loss
from algorithms.kernel_machines.output_kernels import OutputKernel
from algorithms.numerics.gaps import ROUNDING, relative_gap

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """What a dual point proves; all values over C.

    Parameters
    ----------
    primal, dual
        Value of (6) at Θ and F of this point, and the lower bound (11).
    terms : same shape as y
        loss - gain + κF >= 0 of each example; with Θ of (10) their sum is primal - dual.
    penalty_gap
        What a Θ other than that of (10) adds, >= 0.
    """

    primal: float
    dual: float
    terms: Array
    penalty_gap: float = 0.0

    @property
    def gap(self) -> float:
        """The gap over C, from the terms: without cancellation."""
        return float(self.terms.sum()) + self.penalty_gap

    @property
    def relative_gap(self) -> float:
        """The gap as a part of the primal value; infinity where nothing is proved."""
        if not self.terms.min(initial=0.0) >= -ROUNDING * self.primal:
            return math.inf
        return relative_gap(self.primal, self.gap)


def certify(
    *, y: Array, w: Array, kappa: Array, F: Array, g: Array, loss: Loss, kernel: OutputKernel
) -> Certificate:
    """Return the certificate of κ, with F and g that belong to it.

    Parameters
    ----------
    y, w, kappa, F
        Of one shape, one entry per example.
    g : (T, T)
    """
    values, gains = loss.values(y, F, w), loss.gains(y, kappa, w)
    bound = float(kernel.bound(g).sum())
    dual = float(gains.sum()) - bound
    # ½⟨θ, g⟩ twice: of the norm of F, and of V = ⟨Θ, ρ⟩ - V*(ρ)
    primal = float(values.sum()) + float(np.vdot(kernel.theta(g), g)) - bound
    return Certificate(primal, dual, values - gains + kappa * F)
