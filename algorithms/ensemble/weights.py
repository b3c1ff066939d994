"""Weights of the members of an ensemble, from their outputs for held-out rows.

    L(t, a) = log e_t(a),  e_t(a) = mean squared error of method a over all held-out rows of task t
    (classes: L(t, a) = mean of −log p of the class)
    u(a) = share of draws of weights r_t ~ Exp(1) of the tasks in which a has the smallest Σ r_t L
    v = argmin over the simplex of  mean_t log e_t(Σ_a v_a f_a) + .1 A²/(2n) ‖v − 1/A‖²
    w = (u + v)/2

u takes the choice of one method with its uncertainty: a Bayesian bootstrap (Rubin 1981,
doi:10.1214/aos/1176345338). v mixes methods whose errors differ: stacked regressions (Breiman 1996,
doi:10.1007/BF00117832). Since weights add up to 1, the residual of a mixture is the mixture of
residuals, and e_t(v) = vᵀQ_t v. Probabilities are mixed on the scale of their logarithms.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from algorithms.interface.trace import Trace
from algorithms.numerics.arrays import Array, Indices
from algorithms.solvers.lbfgs import minimise

#: Returns the value and the gradient at weights.
Objective = Callable[[Array], tuple[float, Array]]

#: Number of draws of the bootstrap.
N_DRAWS: Final = 300
#: Strength of the penalty that keeps weights near equal ones if there are few rows.
SHRINKAGE: Final = 0.1
#: Smaller weights become 0.
MIN_WEIGHT: Final = 0.03
#: Squared errors are as good as 0 below this share of the variance of the targets.
MIN_ERROR: Final = 1e-6
_MAX_ITER: Final = 500
_TOLERANCE: Final = 1e-9


def task_means(values: Array, owner: Indices, row_weights: Array, n_tasks: int) -> Array:
    """Return the weighted mean of values (n, ...) over the rows of each task, (n_tasks, ...)."""
    total = np.zeros((n_tasks, *values.shape[1:]))
    np.add.at(total, owner, values * row_weights.reshape(-1, *[1] * (values.ndim - 1)))
    size = np.bincount(owner, row_weights, minlength=n_tasks)
    return np.asarray(total / size.reshape(-1, *[1] * (values.ndim - 1)))


def bootstrap_shares(L: Array, rng: np.random.Generator) -> Array:
    """Return u from the losses (T, A): the shares of draws that each method wins, (A,)."""
    draws = rng.exponential(size=(N_DRAWS, len(L)))
    winners = (draws @ L).argmin(axis=1)
    return np.bincount(winners, minlength=L.shape[1]) / N_DRAWS


def squares_objective(Q: Array, floor: float) -> Objective:
    """Return mean_t log(wᵀQ_t w + floor) for Q (T, A, A)."""

    def objective(w: Array) -> tuple[float, Array]:
        products = Q @ w
        errors = products @ w + floor
        gradient = 2.0 * (products / errors[:, np.newaxis]).mean(axis=0)
        return float(np.log(errors).mean()), gradient

    return objective


def log_loss_objective(log_p: Array, of_class: Array, shares: Array) -> Objective:
    """Return the mean of −log p of the class of each row, with log p = Σ w_a log p_a + constant.

    Parameters
    ----------
    log_p : (A, n, C)
        −inf where a row cannot have the class.
    of_class : (A, n)
        Those of the row's class.
    shares : (n,)
        Weights of the rows, of sum 1.
    """

    def objective(w: Array) -> tuple[float, Array]:
        p, logarithm = mix(log_p, w)
        finite = np.where(np.isfinite(log_p), log_p, 0.0)
        expected = np.einsum("anc,nc->an", finite, p)
        value = float(shares @ (logarithm - w @ of_class))
        return value, (expected - of_class) @ shares

    return objective


def mix(log_p: Array, w: Array) -> tuple[Array, Array]:
    """Return p ∝ exp(Σ w_a log p_a) of rows, (n, C), and the logarithm of the sum, (n,).

    Parameters
    ----------
    log_p : (A, n, C)
        −inf where a row cannot have the class, in all or none of the methods.
    """
    is_possible = np.isfinite(log_p[0])
    joint = np.einsum("a,anc->nc", w, np.where(is_possible, log_p, 0.0))
    joint = np.where(is_possible, joint, -math.inf)
    peak = joint.max(axis=1, keepdims=True)
    powers = np.exp(joint - peak)
    total = powers.sum(axis=1, keepdims=True)
    return powers / total, (peak + np.log(total))[:, 0]


def fit_simplex(
    objective: Objective, n_methods: int, n_rows: int, *, trace: Trace, loop: str
) -> Array:
    """Return v: nonnegative weights of sum 1 that minimise an objective and the penalty, (A,).

    With v_a = z_a²/‖z‖² there are no constraints, and weights can be 0.
    """
    strength = SHRINKAGE * n_methods**2 / n_rows

    def of_roots(z: Array) -> tuple[float, Array]:
        size = float(z @ z)
        v = z**2 / size
        value, gradient = objective(v)
        away = v - 1.0 / n_methods
        gradient = gradient + strength * away
        value += 0.5 * strength * float(away @ away)
        return value, 2.0 * z / size * (gradient - float(v @ gradient))

    start = np.full(n_methods, 1.0 / math.sqrt(n_methods))
    found = minimise(
        of_roots, start, trace=trace, loop=loop, max_iter=_MAX_ITER, tolerance=_TOLERANCE
    )
    return np.asarray(found.z**2 / (found.z @ found.z))


def combine(u: Array, v: Array) -> Array:
    """Return w = (u + v)/2 without weights below :data:`MIN_WEIGHT`, of sum 1."""
    w = (u + v) / 2.0
    w = np.where(w < min(MIN_WEIGHT, float(w.max())), 0.0, w)
    return np.asarray(w / w.sum())
