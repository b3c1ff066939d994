"""Building blocks of limited-memory BFGS: search direction, line search and memory of pairs.

Near the optimum, values differ by less than their rounding error while gradients remain accurate.
There the line search checks the slope at the trial point (approximate Wolfe conditions).

Reference: Byrd, Nocedal, Schnabel, *Representations of quasi-Newton matrices and their use in
limited memory methods*, 1994, doi:10.1007/BF01582063; Lewis, Overton, *Nonsmooth optimization via
quasi-Newton methods*, 2013, doi:10.1007/s10107-012-0514-2 (the line search); Hager, Zhang, *A new
conjugate gradient method with guaranteed descent*, 2005, doi:10.1137/030601880 (the approximate
conditions).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from algorithms.numerics.arrays import Array

#: Number of stored pairs. Problems of shared features are ill conditioned, so many pairs pay off.
MAX_PAIRS = 30
#: Constants of the weak Wolfe conditions: sufficient decrease and curvature.
DECREASE = 1e-4
CURVATURE = 0.9
MAX_TRIALS = 25
#: Relative differences of values below this are rounding error; the slopes decide instead.
VALUE_RTOL = 1e-14


def direction(gradient: Array, S: Array, Y: Array) -> Array:
    """Return −H g for the inverse Hessian H of the pairs, in compact form (Byrd et al., eq. 3.1).

    The two-loop recursion gives the same result by many vector products, which cost more.

    Parameters
    ----------
    gradient : (p,)
    S, Y : (k, p)
        Steps and changes of the gradient, oldest first.
    """
    if len(S) == 0:
        return -gradient
    SY, YY = S @ Y.T, Y @ Y.T
    scale = SY[-1, -1] / YY[-1, -1]
    p, _ = dtrtrs(SY, S @ gradient)
    middle = np.diagonal(SY) * p + scale * (YY @ p - Y @ gradient)
    q, _ = dtrtrs(SY, middle, trans=1)
    return np.asarray(scale * (p @ Y - gradient) - q @ S)


def add_pair(
    S: Array, Y: Array, s: Array, y: Array, *, max_pairs: int = MAX_PAIRS
) -> tuple[Array, Array]:
    """Return the memory with one more pair if the curvature along it is positive.

    Parameters
    ----------
    S, Y : (k, p)
    s, y : (p,)
    max_pairs
        Number of pairs kept.
    """
    if s @ y <= 1e-14 * float(np.linalg.norm(s) * np.linalg.norm(y)):
        return S, Y
    first = 1 if len(S) >= max_pairs else 0
    return np.concatenate([S[first:], s[np.newaxis]]), np.concatenate([Y[first:], y[np.newaxis]])


def norm(x: Array) -> float:
    """Return ‖x‖."""
    return float(np.linalg.norm(x))


class Point(NamedTuple):
    """Value and gradient (p,) at x (p,)."""

    x: Array
    value: float
    gradient: Array


def initial_step_length(point: Point, along: Array, S: Array) -> float:
    """Return the first trial length: 1, or 0.1‖x‖/‖along‖ without pairs."""
    return 1.0 if len(S) else 0.1 * norm(point.x) / max(norm(along), 1e-300)


def line_search(
    evaluate: Callable[[Array], Point],
    start: Point,
    along: Array,
    *,
    initial_step: float = 1.0,
    max_step: float = np.inf,
) -> Point | None:
    """Return a point along a direction that meets the weak Wolfe conditions, or ``None``.

    If no trial meets both, return the last trial with sufficient decrease.

    Parameters
    ----------
    evaluate
        Returns value and gradient at x; an infinite value marks an undefined point.
    along : (p,)
        Descent direction.
    initial_step
        Length of the first trial.
    max_step
        No trial is longer than the first trial of at least this length.
    """
    slope = float(start.gradient @ along)
    if not slope < 0:
        return None
    low, high, length = 0.0, np.inf, initial_step
    value_low, slope_low = start.value, slope
    best = None
    for _ in range(MAX_TRIALS):
        trial = evaluate(start.x + length * along)
        end = float(trial.gradient @ along)
        if not _is_lower(start, trial, slope=slope, end=end, by=length):
            high = length
            length = _between(low, high, value_low, slope_low, trial.value)
            continue
        best = trial
        if end >= CURVATURE * slope or (np.isinf(high) and length >= max_step):
            return trial
        low, value_low, slope_low = length, trial.value, end
        length = 2 * length if np.isinf(high) else (low + high) / 2
    return best


def _is_lower(start: Point, trial: Point, *, slope: float, end: float, by: float) -> bool:
    """Return whether a step of length ``by`` decreases the value enough.

    If the change of the value is a rounding error, the slopes at both ends decide.
    """
    if trial.value <= start.value + DECREASE * by * slope:
        return True
    is_rounding = trial.value <= start.value + VALUE_RTOL * abs(start.value)
    return bool(is_rounding and end <= (2 * DECREASE - 1) * slope)


def _between(low: float, high: float, value: float, slope: float, value_high: float) -> float:
    """Return the minimum of the interpolating parabola, clipped to the interior; or the middle."""
    width = high - low
    curvature = (value_high - value - slope * width) / width**2
    t = -0.5 * slope / curvature if np.isfinite(curvature) and curvature > 0 else 0.5 * width
    return low + float(np.clip(t, 0.1 * width, 0.9 * width))
