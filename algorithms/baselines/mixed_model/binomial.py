"""The likelihood of a mixed model of two classes with a logit link, by Laplace's approximation.

    P(y = 1) = 1/(1 + exp(−η)),   η = X_t(b + u_t),   u_t ~ N(0, Ψ),   b_j ~ N(0, 1/precision_j)

At the mode of b and all u_t, which Newton's method finds, the logarithm of the integral over them
is nearly

    log ∫ = ℓ(η) − ½ Σ u_tᵀΨ⁻¹u_t − ½ Σ precision_j b_j² − ½ Σ log|I + G_tΨ| − ½ log|M|

with G_t and M of :mod:`algorithms.baselines.mixed_model.likelihood` for weights w = p(1 − p) of
rows: each Newton step is the linear mixed model with σ² = 1 of targets η + (y − p)/w. Its
gradient by Ψ is that of the linear model, and by the mode, whose weights change the determinants:
with the leverages l_i, Σ_t ½(c_tg_tᵀ + g_tc_tᵀ), where c is the g of targets ½l(1 − 2p)/w.

Tasks of few rows are often separable, where the approximation prefers variances without bound. An
exponential prior of the standard deviations, and the normal one of b, keep them finite.

Reference: Breslow, Clayton, *Approximate inference in generalized linear mixed models*, JASA 1993,
doi:10.1080/01621459.1993.10594284; Simpson et al., *Penalising model component complexity*,
Statistical Science 2017, doi:10.1214/16-STS576 (the prior of deviations)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, log_expit

from algorithms.baselines.mixed_model.covariance import Structure
from algorithms.baselines.mixed_model.likelihood import Effects, MixedModelProblem
from algorithms.numerics.arrays import Array

#: Inverse variances of the common coefficients, in units of the columns, and of the intercept.
SLOPE_PRECISION: Final = 1.0
INTERCEPT_PRECISION: Final = 0.01
#: Rate of the exponential prior of standard deviations.
DEVIATION_RATE: Final = 2.0
#: Inverse variance of coefficients that are known.
KNOWN: Final = 1e10
#: Newton steps at most, their lengths, and the relative decrease that counts as a rounding error.
MAX_NEWTON: Final = 50
LENGTHS: Final = 0.5 ** np.arange(20)
RTOL: Final = 1e-11
#: Smallest weight p(1 − p) of a row.
MIN_WEIGHT: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class BinomialProblem:
    """Rows and classes of all tasks.

    Parameters
    ----------
    rows
        Rows (n_t, d) of each task.
    y, weights, offset : (n,)
        Classes as 0 and 1, weights of the rows, and what is added to η.
    precision : (d + 1,)
        Inverse variances of the fixed effects.
    """

    rows: Sequence[Array]
    y: Array
    weights: Array
    offset: Array
    precision: Array
    has_slopes: bool

    @classmethod
    def of(
        cls,
        rows: Sequence[Array],
        targets: Sequence[Array],
        *,
        has_slopes: bool,
        weights: Sequence[Array | None],
        known: Array | None = None,
    ) -> "BinomialProblem":
        """Return the problem for the rows (n_t, d) and targets ±1 (n_t,) of each task.

        Parameters
        ----------
        known : (d + 1,)
            The fixed effects, if they are known. Then those of the problem are 0.
        """
        union = np.concatenate(rows)
        precision = np.full(union.shape[1] + 1, SLOPE_PRECISION if known is None else KNOWN)
        offset = np.zeros(len(union))
        if known is None:
            precision[0] = INTERCEPT_PRECISION
        else:
            offset = known[0] + union @ known[1:]
        own = [np.ones(len(X)) if s is None else s for X, s in zip(rows, weights, strict=True)]
        y = (np.concatenate(targets) > 0).astype(np.float64)
        return cls(rows, y, np.concatenate(own), offset, precision, has_slopes)

    @property
    def n_effects(self) -> int:
        """Number of random effects of a task, q."""
        return len(self.precision) if self.has_slopes else 1

    def effects(self, Psi: Array) -> Effects:
        """Return the effects at the mode, given Ψ (q, q), with σ² = 1."""
        return self._mode(Psi)[2]

    def objective(self, z: Array, structure: Structure) -> tuple[float, Array]:
        """Return −log ∫ and the prior, and the gradient by the parameters z of Ψ."""
        with np.errstate(over="ignore", invalid="ignore"):
            Psi = structure.matrix(z)
            if not np.isfinite(Psi).all():
                return np.inf, np.zeros_like(z)
            eta, problem, found = self._mode(Psi)
            p, w = self._weights(eta)
            residuals = self.weights * (self.y - p)
            value = found.value - 0.5 * float(residuals**2 @ (1 / w)) - self._likelihood(eta)
            slopes = 0.5 * problem.leverages(Psi) * (1 - 2 * p)
            of_mode = self._linear(w, slopes / w).effects(Psi).g.T @ found.g
            gradient = structure.pull_back(z, found.gradient + 0.5 * (of_mode + of_mode.T))
            deviations = np.zeros_like(z)
            deviations[: structure.n_variances] = np.exp(z[: structure.n_variances])
            value += DEVIATION_RATE * float(deviations.sum())
            gradient = gradient + DEVIATION_RATE * deviations
        is_finite = np.isfinite(value) and np.isfinite(gradient).all()
        return (value, gradient) if is_finite else (np.inf, np.zeros_like(z))

    def _mode(self, Psi: Array) -> tuple[Array, MixedModelProblem, Effects]:
        """Return η at the mode, the linear model there, and its effects."""
        b, g = np.zeros(len(self.precision)), np.zeros((len(self.rows), self.n_effects))
        value = self._loss(b, g, Psi)
        for _ in range(MAX_NEWTON):
            before, found = value, self._working(self._eta(b, g @ Psi)).effects(Psi)
            for length in LENGTHS:
                ends = b + length * (found.b - b), g + length * (found.g - g)
                value = self._loss(*ends, Psi)
                if value <= before + RTOL * abs(before):
                    break
            b, g = ends
            if before - value <= RTOL * abs(before):
                break
        eta = self._eta(b, g @ Psi)
        problem = self._working(eta)
        return eta, problem, problem.effects(Psi)

    def _loss(self, b: Array, g: Array, Psi: Array) -> float:
        """Return −ℓ and the squares of the effects, for U = gΨ."""
        squares = float(np.vdot(g, g @ Psi)) + float(self.precision @ b**2)
        return 0.5 * squares - self._likelihood(self._eta(b, g @ Psi))

    def _likelihood(self, eta: Array) -> float:
        return float(self.weights @ log_expit((2 * self.y - 1) * eta))

    def _eta(self, b: Array, U: Array) -> Array:
        coefficients = np.tile(b, (len(U), 1))
        coefficients[:, : self.n_effects] += U
        parts = [c[0] + X @ c[1:] for c, X in zip(coefficients, self.rows, strict=True)]
        return np.asarray(self.offset + np.concatenate(parts))

    def _weights(self, eta: Array) -> tuple[Array, Array]:
        p = expit(eta)
        return p, np.maximum(self.weights * p * (1 - p), MIN_WEIGHT)

    def _working(self, eta: Array) -> MixedModelProblem:
        """Return the linear model whose effects are those after a Newton step."""
        p, w = self._weights(eta)
        return self._linear(w, eta - self.offset + self.weights * (self.y - p) / w)

    def _linear(self, w: Array, targets: Array) -> MixedModelProblem:
        """Return the linear model with σ² = 1 of targets (n,) of weights w (n,)."""
        ends = np.cumsum([len(X) for X in self.rows])[:-1]
        return MixedModelProblem.of(
            self.rows,
            np.split(targets, ends),
            has_slopes=self.has_slopes,
            weights=np.split(w, ends),
            noise=1.0,
            precision=self.precision,
        )
