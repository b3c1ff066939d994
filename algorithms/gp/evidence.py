"""The evidence of hyperparameters, and their estimate by penalised maximum likelihood.

    y_i = μ + e^(s_t)(f_i + ε_i),   f ~ GP(0, k),   ε_i ~ N(0, σ²/w_i)
    −log p(y|θ) = ½ tr ỸᵀK⁻¹Ỹ + (C/2) log|K| + (nC/2) log 2π + C Σ_i s_t(i)

for C columns of targets with one covariance (Rasmussen, Williams 2006, eq. 2.30); the gradient is
−½ Σ M ∘ ∂K/∂θ with M = AAᵀ − C K⁻¹, A = K⁻¹Ỹ (eq. 5.9). One Cholesky factor gives both.

Penalties: exponential densities of the standard deviations, more for parts of their own (Simpson
et al. 2017, doi:10.1214/16-STS576), and of inverse length scales, so that parts and columns can be
switched off (Eriksson, Jankowiak 2021); normal densities of logarithms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import polygamma

from algorithms.gp.covariance import MIN_NOISE, Hyperparameters, Parts, Rows
from algorithms.interface.target_scales import FLAT_RTOL
from algorithms.interface.trace import Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gp_terms import inverse_and_log_determinant
from algorithms.solvers.lbfgs import LbfgsState, initial_state, lbfgs_step

#: Start: a_c, r_c, a_o, r_o, b_o, σ², λ; lengths start at 1.
START: Final = (0.5, 0.5, 0.15, 0.15, 0.3, 0.3, 1.0)
#: Rates of the exponential densities of the standard deviations √a_c, √r_c, √a_o, √r_o, √b_o.
RATES: Final = np.array([1.5, 1.5, 3.0, 3.0, 3.0])
#: Rate of the inverse length scales, for numbers and for classes.
INVERSE_LENGTH_RATES: Final = {"numbers": 1.0, "classes": 0.3}
#: Standard deviations of log ℓ, log λ and log σ², the last around the start.
LOG_LENGTH_SD: Final = 1.5
LOG_STRETCH_SD: Final = 1.0
LOG_NOISE_SD: Final = 1.5
#: Bounds of τ², the variance of the logarithms of the tasks' scales.
SCALE_VARIANCES: Final = (0.02, 1.5)
#: Logarithms stay this close to their start, far beyond where a part is as good as switched off.
MAX_LOG_CHANGE: Final = 30.0
#: Steps over which the decrease of the objective is measured.
WINDOW: Final = 10
_LN_2PI: Final = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows with their targets, and the penalties.

    Parameters
    ----------
    Y : (n, C)
        Targets, in units of their standard deviation.
    weights : (n,)
        Weight of each row: the variance of its noise is σ²/weight.
    inverse_length_rate
        Rate of the density of 1/ℓ.
    log_scale_sd
        τ, if the tasks have scales of their own.
    first_log_scales : (T,)
        First estimate of s_t; empty without scales.
    """

    rows: Rows
    Y: Array
    weights: Array
    inverse_length_rate: float
    log_scale_sd: float
    first_log_scales: Array

    def start(self) -> Array:
        """Return the logarithms of the parameters, and the tasks' scales, to start from."""
        lengths = np.zeros(int(self.rows.group.max()) + 1)
        return np.concatenate([np.log(START), lengths, self.first_log_scales])

    def split(self, z: Array) -> tuple[Hyperparameters, Array]:
        """Return the parameters and the logarithms of the tasks' scales at a point z."""
        end = len(z) - len(self.first_log_scales)
        return Hyperparameters.of(z[:end]), z[end:]

    def scaled_targets(self, s: Array) -> Array:
        """Return the targets (n, C) divided by the scale of their task."""
        return self.Y if not len(s) else self.Y * np.exp(-s)[self.rows.task][:, np.newaxis]

    def objective(self, z: Array) -> tuple[float, Array]:
        """Return the penalised negative logarithm of the evidence, and its gradient.

        It is infinite where the covariance is not positive definite, or a parameter is far from
        its start.
        """
        if np.abs(z - self.start()).max() > MAX_LOG_CHANGE:
            return math.inf, np.zeros_like(z)
        try:
            value, gradient = self.evidence(z)
        except np.linalg.LinAlgError:
            return math.inf, np.zeros_like(z)
        penalty, its_gradient = self._penalty(z)
        return value + penalty, gradient + its_gradient

    def negative_log_evidence(self, z: Array) -> float:
        """Return −log p(y|θ) without penalties."""
        return self.evidence(z)[0]

    def evidence(self, z: Array) -> tuple[float, Array]:
        """Return the negative logarithm of the evidence without penalties, and its gradient."""
        theta, s = self.split(z)
        Y = self.scaled_targets(s)
        n, C = Y.shape
        parts = Parts.of(self.rows, theta)
        K = parts.matrix()
        K.reshape(-1)[:: n + 1] += theta.noise / self.weights
        inverse, logarithm = inverse_and_log_determinant(K)
        A = inverse @ Y
        value = 0.5 * float(np.vdot(Y, A)) + 0.5 * C * (logarithm + n * _LN_2PI)
        M = A @ A.T
        M -= inverse if C == 1 else C * inverse
        gradient = -0.5 * parts.derivatives(M, (theta.noise - MIN_NOISE) / self.weights)
        if not len(s):
            return value, gradient
        counts = np.bincount(self.rows.task, minlength=len(s))
        by_row = C - np.einsum("nc,nc->n", Y, A)
        by_task = np.bincount(self.rows.task, by_row, minlength=len(s))
        return value + C * float(counts @ s), np.concatenate([gradient, by_task])

    def _penalty(self, z: Array) -> tuple[float, Array]:
        """Return the sum of r e^(pz) and of normal densities of z, and its gradient."""
        counts = [len(RATES), 1, 1, int(self.rows.group.max()) + 1, len(self.first_log_scales)]
        rates = np.repeat((0.0, 0.0, self.inverse_length_rate, 0.0), counts[1:])
        power = np.repeat((0.5, 0.0, 0.0, -1.0, 0.0), counts)
        deviations = np.array([LOG_NOISE_SD, LOG_STRETCH_SD, LOG_LENGTH_SD, self.log_scale_sd])
        precision = np.repeat([0.0, *deviations**-2], counts)
        change = z.copy()
        change[5] -= math.log(START[5])
        exponential = np.concatenate([RATES, rates]) * np.exp(power * z)
        value = float(exponential.sum()) + 0.5 * float(precision @ change**2)
        return value, power * exponential + precision * change


def estimate(
    problem: Problem, start: Array, *, trace: Trace, loop: str, max_iter: int, tolerance: float
) -> Array:
    """Return the logarithms of the parameters, and of the tasks' scales, of largest evidence.

    Parameters
    ----------
    tolerance
        Decrease of the objective over the last :data:`WINDOW` steps that ends the search: parts
        that are switched off go on moving to 0, which changes nothing.
    """

    def step(state: LbfgsState) -> LbfgsState:
        new = lbfgs_step(problem.objective, state)
        if len(new.values) < WINDOW:
            return replace(new, residual=math.inf)
        return replace(new, residual=float(new.values[-WINDOW] - new.objective))

    first = initial_state(problem.objective, start)
    return trace.run(loop, step, first, max_iter=max_iter, tolerance=tolerance).z


@dataclass(frozen=True, slots=True)
class ScaleMoments:
    """Mean and variance τ² of the logarithms of the deviations of tasks' targets.

    The logarithm of a standard deviation of n rows has the variance ψ₁((n − 1)/2)/4 (Smyth 2004,
    doi:10.2202/1544-6115.1027).
    """

    mean: float
    variance: float

    @classmethod
    def of(cls, targets: Sequence[Array]) -> "ScaleMoments":
        """Return the moments of the targets of each task."""
        known = [(log, error) for log, error in map(_log_deviation, targets) if error < math.inf]
        if not known:
            return cls(0.0, SCALE_VARIANCES[0])
        logs, errors = np.array(known).T
        spread = float(logs.var(ddof=1)) if len(logs) > 1 else 0.0
        variance = float(np.clip(spread - errors.mean(), *SCALE_VARIANCES))
        return cls(float(logs.mean()), variance)

    def shrunken(self, y: Array) -> float:
        """Return the logarithm of a task's scale, drawn to the mean, which is 0."""
        log, error = _log_deviation(y)
        if error == math.inf:
            return 0.0
        return (log - self.mean) * self.variance / (self.variance + error)


def _log_deviation(y: Array) -> tuple[float, float]:
    """Return the logarithm of a deviation and its variance; infinite if it is unknown."""
    deviation = float(y.std(ddof=1)) if len(y) > 1 else 0.0
    if deviation <= FLAT_RTOL * float(np.abs(y).max(initial=0.0)):
        return 0.0, math.inf
    return math.log(deviation), float(polygamma(1, (len(y) - 1) / 2)) / 4


def shares_of_variance(rows: Rows, theta: Hyperparameters) -> dict[str, float]:
    """Return the share of each part in the variance of the targets at some rows.

    Each is the mean of the diagonal of its centred covariance, tr(A) − 1ᵀA1/n over n, by part:
    ``common``, ``own_slopes``, ``own_curve``, ``own_constant`` and ``noise``.
    """
    n = len(rows.X)
    centred = (np.eye(n) - 1.0 / n) / n
    shares = Parts.of(rows, theta).derivatives(centred, np.full(n, theta.noise))[:6].tolist()
    names = ("common", "common", "own_slopes", "own_curve", "own_constant", "noise")
    total = sum(shares)
    found = dict.fromkeys(names, 0.0)
    for name, share in zip(names, shares, strict=True):
        found[name] += share / total
    return found
