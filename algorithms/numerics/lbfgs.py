"""Limited-memory BFGS in pieces: a direction, a line search, and a memory that can be kept.

Near the optimum values differ by less than they are rounded, while gradients still tell: there the
decrease is judged by the slope at the end (approximate Wolfe conditions).

Reference: Byrd, Nocedal, Schnabel, *Representations of quasi-Newton matrices and their use in
limited memory methods*, 1994, doi:10.1007/BF01582063; Lewis, Overton, *Nonsmooth optimization via
quasi-Newton methods*, 2013, doi:10.1007/s10107-012-0514-2 (the line search); Hager, Zhang, *A new
conjugate gradient method with guaranteed descent*, 2005, doi:10.1137/030601880 (the approximate
conditions).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtrs

Array = NDArray[np.float64]

#: Pairs kept. Problems of shared features are ill conditioned: more pairs save more than they cost.
MEMORY = 30
#: Decrease and curvature that a step has to reach (weak Wolfe conditions).
DECREASE = 1e-4
CURVATURE = 0.9
MAX_TRIALS = 25
#: Differences of values below this part of them are rounding; there the slopes decide.
VALUE_RTOL = 1e-14

Value = TypeVar("Value")


def direction(gradient: Array, S: Array, Y: Array) -> Array:
    """Return −H g for the inverse Hessian H of the pairs, in compact form (Byrd et al., eq. 3.1).

    The recursion in common use gives the same by many products of vectors, which cost more.

    Parameters
    ----------
    gradient : (p,)
    S, Y : (k, p)
        Steps and changes of the gradient, the oldest first.
    """
    if len(S) == 0:
        return -gradient
    SY, YY = S @ Y.T, Y @ Y.T
    scale = SY[-1, -1] / YY[-1, -1]
    p, _ = dtrtrs(SY, S @ gradient)
    middle = np.diagonal(SY) * p + scale * (YY @ p - Y @ gradient)
    q, _ = dtrtrs(SY, middle, trans=1)
    return np.asarray(scale * (p @ Y - gradient) - q @ S)


def remember(S: Array, Y: Array, s: Array, y: Array, *, most: int = MEMORY) -> tuple[Array, Array]:
    """Return the memory with one more pair, if the curvature along it is positive.

    Parameters
    ----------
    S, Y : (k, p)
    s, y : (p,)
    most
        Pairs kept.
    """
    if s @ y <= 1e-14 * float(np.linalg.norm(s) * np.linalg.norm(y)):
        return S, Y
    first = 1 if len(S) >= most else 0
    return np.concatenate([S[first:], s[np.newaxis]]), np.concatenate([Y[first:], y[np.newaxis]])


def length_of(x: Array) -> float:
    """Return ‖x‖."""
    return float(np.linalg.norm(x))


class Point(NamedTuple):
    """Value and gradient (p,) at x (p,)."""

    x: Array
    value: float
    gradient: Array


def first_length(point: Point, along: Array, S: Array) -> float:
    """Return the first trial: 1, or without a memory a tenth of the way back to zero."""
    return 1.0 if len(S) else 0.1 * length_of(point.x) / max(length_of(along), 1e-300)


def search(
    evaluate: Callable[[Array], Point],
    start: Point,
    along: Array,
    *,
    first: float = 1.0,
    longest: float = np.inf,
) -> Point | None:
    """Return a point along a direction that meets the weak Wolfe conditions, or ``None``.

    Failing that, the last that goes down enough.

    Parameters
    ----------
    evaluate
        The value may be infinite: there is no point.
    along : (p,)
        A direction of descent.
    first
        Length of the first trial.
    longest
        Length from which on no longer one is tried.
    """
    slope = float(start.gradient @ along)
    if not slope < 0:
        return None
    low, high, length = 0.0, np.inf, first
    value_low, slope_low = start.value, slope
    best = None
    for _ in range(MAX_TRIALS):
        found = evaluate(start.x + length * along)
        end = float(found.gradient @ along)
        if not _is_lower(start, found, slope=slope, end=end, by=length):
            high = length
            length = _between(low, high, value_low, slope_low, found.value)
            continue
        best = found
        if end >= CURVATURE * slope or (np.isinf(high) and length >= longest):
            return found
        low, value_low, slope_low = length, found.value, end
        length = 2 * length if np.isinf(high) else (low + high) / 2
    return best


def _is_lower(start: Point, found: Point, *, slope: float, end: float, by: float) -> bool:
    """Whether a step of some length goes down enough, by the values or by the slopes."""
    if found.value <= start.value + DECREASE * by * slope:
        return True
    is_rounding = found.value <= start.value + VALUE_RTOL * abs(start.value)
    return bool(is_rounding and end <= (2 * DECREASE - 1) * slope)


def _between(low: float, high: float, value: float, slope: float, value_high: float) -> float:
    """Return the minimum of the parabola through both ends if well inside, else the middle."""
    width = high - low
    curvature = (value_high - value - slope * width) / width**2
    t = -0.5 * slope / curvature if np.isfinite(curvature) and curvature > 0 else 0.5 * width
    return low + float(np.clip(t, 0.1 * width, 0.9 * width))
