"""Reference implementation of :mod:`algorithms.numerics.kernels.fmtl_step` in numpy, for tests.

It applies a general root finder to the derivative of the dual, in place of the closed form and the
bracketed Newton method.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from algorithms.numerics.theta_rules import EXP, FIXED, MAX_ARGUMENT, POWER, Rule

Array = NDArray[np.float64]


def thetas(rule: Rule, g: Array) -> Array:
    """Return θ(g) entry by entry; infinity on overflow."""
    z = rule[2] * g
    with np.errstate(over="ignore"):
        if rule[0] == POWER:
            return np.asarray(z ** rule[1])
        return np.asarray(rule[3] * (np.exp(z) if rule[0] == EXP else np.sinh(z)))


def predict_after(
    delta: float, *, rule: Rule, Theta: Array, k_ii: float, b: Array, g: Array, r: int
) -> float:
    """Return F(δ), the prediction for the example after a step δ.

    Parameters
    ----------
    rule, Theta
        Rule for Θ as a function of g, and Θ (T, T) if it is fixed.
    k_ii
        Kernel of the example with itself.
    b : (T,)
        Products of the example's kernel row with the κ of each output.
    g : (T, T)
        Gram matrix of the functions.
    r
        Output of the example.
    """
    moved = b.copy()
    moved[r] += k_ii * delta
    if rule[0] == FIXED:
        return float(Theta[r] @ moved)
    g_r = g[r] + b * delta
    g_r[r] += moved[r] * delta
    if rule[0] != POWER:
        g_r = np.clip(g_r, -MAX_ARGUMENT / rule[2], MAX_ARGUMENT / rule[2])
    return float(thetas(rule, g_r) @ moved)


def best_kappa(
    kappa: float,
    piece: Array,
    *,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    k_ii: float,
    b: Array,
    g: Array,
    r: int,
) -> float:
    """Return the κ_i that maximises the dual with all others fixed.

    Parameters
    ----------
    piece
        (y, q, lo, hi, w) of the example, from ``Loss.pieces``.
    eps
        Half the width of the insensitive tube.
    rule, Theta, k_ii, b, g, r
        As in :func:`predict_after`.
    """
    y, q, lo, hi, w = piece

    def predicted(new: float) -> float:
        return predict_after(new - kappa, rule=rule, Theta=Theta, k_ii=k_ii, b=b, g=g, r=r)

    if is_logistic:

        def slope(v: float) -> float:
            return float(-v - y * predicted(y * w * expit(v)))

        if slope(-700.0) <= 0:  # then κ is 0 to working precision
            return 0.0
        return float(y * w * expit(brentq(slope, -700.0, 700.0, xtol=1e-14, maxiter=1000)))
    if eps > 0:
        if abs(y - predicted(0.0)) <= eps:
            return 0.0
        y -= np.copysign(eps, y - predicted(0.0))

    def derivative(new: float) -> float:
        return float(y - q * new - predicted(new))

    max_step = abs(derivative(kappa)) / q if q > 0 else np.inf
    lo, hi = max(lo, kappa - max_step), min(hi, kappa + max_step)
    if derivative(lo) <= 0:
        return float(lo)
    if derivative(hi) >= 0:
        return float(hi)
    root = brentq(derivative, lo, hi, xtol=1e-15, rtol=1e-14, maxiter=1000)
    return float(root)
