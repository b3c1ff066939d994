"""Least squares with a penalty of all functions, min_W Σ_t ‖y_t − X_tw_t‖² + Ω(W)."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from algorithms.families.linear.design import Design
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import relative_gap
from algorithms.numerics.stacks import Stacks
from algorithms.solvers.proximal_gradient import ProximalState, ProximalTrial, proximal_gradient


class QuadraticPenalty(Protocol):
    """A convex penalty with Ω(cW) = c²Ω(W)."""

    def value(self, W: Array) -> float:
        """Return Ω(W) for W (T, d)."""

    def shrink(self, W: Array, step: float) -> Array:
        """Return argmin_V ½‖V − W‖² + step·Ω(V)."""

    def conjugate(self, Z: Array) -> float:
        """Return Ω*(Z) for Z (T, d)."""


@dataclass(frozen=True, slots=True, eq=False)
class SquaredLoss:
    """The squared loss of all tasks.

    Attributes
    ----------
    rest
        Part of the loss that no W changes.
    curvature
        Upper bound on the curvature.
    """

    stacks: Stacks
    rest: float
    curvature: float

    @classmethod
    def of(cls, design: Design, *, centre: bool) -> Self:
        """Return the loss for the rows of a design, centred if there are intercepts."""
        problem = design.least_squares(centre=centre)
        return cls(problem.stacks, problem.remainder, problem.stacks.largest_curvature)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (T, d) of W."""
        return self.stacks.n_columns, self.stacks.n_features

    def minimise(
        self,
        penalty: QuadraticPenalty,
        W: Array,
        *,
        stopping: StoppingRule,
        trace: Trace,
        loop: str,
    ) -> ProximalState:
        """Return the state at the optimal W (T, d), from a start, to a relative duality gap.

        Parameters
        ----------
        W : (T, d)
            Start.
        loop
            Name of the loop in the trace.
        """
        return proximal_gradient(
            lambda V: self._evaluate(V, penalty),
            penalty.shrink,
            W,
            L=self.curvature,
            trace=trace,
            loop=loop,
            max_iter=stopping.max_iter,
            tolerance=stopping.tolerance,
        )

    def _evaluate(self, W: Array, penalty: QuadraticPenalty) -> ProximalTrial:
        """Return gradient, objective and relative duality gap at W.

        The dual is Σ αy − ‖α‖²/4 − Ω*(Z), z_t = X_tᵀα_t, at the best multiple of the residuals.
        """
        parts = self.stacks.parts
        R = [part.Y - F for part, F in zip(parts, self.stacks.forward(W), strict=True)]
        Z = self.stacks.adjoint(R)
        size = sum(float(np.sum(r**2)) for r in R)
        gain = sum(float(np.vdot(part.Y, r)) for part, r in zip(parts, R, strict=True))
        value = self.rest + size + penalty.value(W)
        cost = size + 4 * penalty.conjugate(Z)
        bound = self.rest + (gain**2 / cost if cost > 0 and gain > 0 else 0.0)
        return ProximalTrial(-2 * Z, value, relative_gap(value, value - bound))
