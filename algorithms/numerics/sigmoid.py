"""Maps from scores to probabilities: a sigmoid, and an increasing step function.

The sigmoid is p(s) = 1/(1 + exp(-(a s + b))). It maximises Σ_i w_i (τ_i log p_i + (1 - τ_i)
log(1 - p_i)) with τ = (N₊ + 1)/(N₊ + 2) for the class and 1/(N₋ + 2) for the others, where N₊ and
N₋ are their weights. These targets follow from a uniform prior of the probability, so that classes
that are separated do not get an infinite slope.

The step function minimises Σ_i w_i (p(s_i) - y_i)² over all increasing functions; between the
scores it is linear. Its values are limited to the same targets, so that no probability is 0 or 1.

References: Platt, *Probabilistic outputs for support vector machines*, 1999; Zadrozny, Elkan,
*Transforming classifier scores into accurate multiclass probability estimates*, KDD 2002,
doi:10.1145/775047.775151
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import expit

from algorithms.numerics.arrays import Array

#: Newton's method stops when the gradient, relative to the weight of all rows, is below.
_TOLERANCE: Final = 1e-10
_MAX_ITER: Final = 100
#: Rounding of the loss, a sum over many rows. A step that it hides is a step to the optimum.
_ROUNDING: Final = 1e-11
#: A step is halved at most so often.
_MAX_HALVINGS: Final = 40
#: Added to the Hessian, relative to its trace: it is singular if all scores are equal.
_RIDGE: Final = 1e-12


def prior_targets(is_class: NDArray[np.bool_], weights: Array) -> tuple[float, float]:
    """Return the targets 1/(N₋ + 2) of the others and (N₊ + 1)/(N₊ + 2) of the class."""
    n_class = float(weights[is_class].sum())
    n_others = float(weights[~is_class].sum())
    return 1.0 / (n_others + 2.0), (n_class + 1.0) / (n_class + 2.0)


def fit_sigmoid(scores: Array, is_class: NDArray[np.bool_], weights: Array) -> tuple[float, float]:
    """Return the slope a ≥ 0 and the intercept b of the sigmoid, by Newton's method.

    Scores that fall where the class is more frequent have a = 0: those of rows that were held out
    of a fit do so, if the fit only knows how frequent the class is in the other rows.

    Parameters
    ----------
    scores, is_class, weights : (n_samples,)
    """
    low, high = prior_targets(is_class, weights)
    targets = np.where(is_class, high, low)
    total = float(weights.sum())
    design = np.stack([scores, np.ones_like(scores)], axis=1)
    mean = float(weights @ targets) / total
    constant = np.array([0.0, np.log(mean / (1.0 - mean))])
    theta = constant
    loss = _loss(design @ theta, targets, weights)
    for _ in range(_MAX_ITER):
        p = expit(design @ theta)
        gradient = design.T @ (weights * (p - targets))
        if np.abs(gradient).max() <= _TOLERANCE * total:
            break
        hessian = design.T @ (design * (weights * p * (1.0 - p))[:, np.newaxis])
        hessian += _RIDGE * np.trace(hessian) * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        for _ in range(_MAX_HALVINGS):
            trial = theta - step
            trial_loss = _loss(design @ trial, targets, weights)
            if trial_loss <= loss * (1.0 + _ROUNDING):
                break
            step /= 2.0
        else:
            break
        theta, loss = trial, trial_loss
    # the loss is convex, so that the bound is the optimum if the slope would be negative
    a, b = theta if theta[0] > 0 else constant
    return float(a), float(b)


def fit_steps(scores: Array, is_class: NDArray[np.bool_], weights: Array) -> tuple[Array, Array]:
    """Return the knots of the step function: distinct scores, increasing, and their values.

    Knots inside a step are left out.

    Parameters
    ----------
    scores, is_class, weights : (n_samples,)
    """
    x, position = np.unique(scores, return_inverse=True)
    weight = np.bincount(position, weights)
    mean = np.bincount(position, weights * is_class) / weight
    values = np.clip(isotonic_regression(mean, weights=weight).x, *prior_targets(is_class, weights))
    is_inside = np.zeros(len(x), dtype=bool)
    is_inside[1:-1] = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    return x[~is_inside], values[~is_inside]


def _loss(margins: Array, targets: Array, weights: Array) -> float:
    """Return the weighted sum of the logistic losses, log(1 + exp(m)) - τ m."""
    return float(weights @ (np.logaddexp(0.0, margins) - targets * margins))
