"""Primal value, dual value and duality gap of a dual point, example by example."""

import math
from dataclasses import dataclass

import numpy as np

from algorithms.families.kernel_machines.losses import Loss
from algorithms.families.kernel_machines.output_kernels import OutputKernel
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import ROUNDING, relative_gap


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """The duality gap of a dual point; all values are divided by C.

    Parameters
    ----------
    primal, dual
        Value of (6) at Θ and F of this point, and the lower bound (11).
    terms : same shape as y
        loss - gain + κF >= 0 of each example. With Θ of (10), their sum is primal - dual.
    penalty_gap
        Additional gap >= 0 if Θ is not the optimum (10).
    """

    primal: float
    dual: float
    terms: Array
    penalty_gap: float = 0.0

    @property
    def gap(self) -> float:
        """The gap divided by C, as a sum of terms, which avoids cancellation."""
        return float(self.terms.sum()) + self.penalty_gap

    @property
    def relative_gap(self) -> float:
        """The gap relative to the primal value; infinity if the values certify nothing."""
        if not self.terms.min(initial=0.0) >= -ROUNDING * self.primal:
            return math.inf
        return relative_gap(self.primal, self.gap)


def certify(
    *, y: Array, w: Array, kappa: Array, F: Array, g: Array, loss: Loss, kernel: OutputKernel
) -> Certificate:
    """Return the certificate of κ.

    Parameters
    ----------
    y, w, kappa, F
        Targets, weights, dual variables and predictions, with one entry per example.
    g : (T, T)
        κᵀKκ, task by task.
    """
    values, gains = loss.values(y, F, w), loss.gains(y, kappa, w)
    bound = float(kernel.bound(g).sum())
    dual = float(gains.sum()) - bound
    # ½⟨θ, g⟩ occurs twice: in the norm of F, and in V = ⟨Θ, ρ⟩ - V*(ρ)
    primal = float(values.sum()) + float(np.vdot(kernel.theta(g), g)) - bound
    return Certificate(primal, dual, values - gains + kappa * F)
