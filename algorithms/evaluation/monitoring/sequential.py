"""Evidence that may be looked at every day: e-processes, made of bets against a null hypothesis.

Each observation multiplies the wealth of a bet by a factor whose mean is at most 1 if the null
hypothesis holds. By Ville's inequality, the wealth then ever exceeds 1/α with a probability of at
most α. The mean of several bets, and of bets that begin at several times, is a bet again.

Reference: Ramdas, Grünwald, Vovk, Shafer, *Game-theoretic statistics and safe anytime-valid
inference*, Statistical Science 2023, doi:10.1214/23-STS894; Vovk, Gammerman, Shafer, *Algorithmic
Learning in a Random World*, 2022, chapter 8 (conformal test martingales).
"""

from typing import Final

import numpy as np
from scipy.signal import lfilter
from scipy.special import logsumexp
from scipy.stats import chi2

from algorithms.numerics.arrays import Array, Indices

#: Days between two starts of bets, so that a change is not weighed with all that was quiet before.
START_DAYS: Final = 7
#: Slopes of bets that values become smaller or larger.
_SLOPES: Final = np.array([-0.9, -0.3, 0.3, 0.9])
_N_BINS: Final = 10
#: Part of the weight of a p-value that is left after one more.
_MEMORY: Final = 0.99
#: Correlation of rows of one day that is assumed until so many days can be compared with the next,
#: and taken as the least one until there are more.
_LIKENESS: Final = 0.05
_MIN_STEPS: Final = 4
_N_EARLY_STEPS: Final = 14
#: Quantile at which the design effect is taken, so that it is rarely too small.
_CAUTION: Final = 0.8
#: Maximum size of temporary arrays of rows by bins.
_MAX_CELLS: Final = 2**20
#: Stakes of bets that losses are larger.
_STAKES: Final = np.array([0.05, 0.2, 0.5, 0.8])


def conformal_p_values(bins: Indices, counts: Array, rng: np.random.Generator) -> Array:
    """Return p-values (n,) of binned values among training values and the earlier ones.

    If all are exchangeable, they are independent and uniform; ties are broken at random.

    Parameters
    ----------
    bins : (n,)
        The bin of each value.
    counts : (n_bins,)
        Number of training values in each bin.
    rng
        Breaks ties. Each sequence of values needs one of its own, or all would have the same luck.
    """
    p = np.empty(len(bins))
    step = max(1, _MAX_CELLS // len(counts))
    for first in range(0, len(bins), step):
        part = bins[first : first + step]
        is_in = part[:, None] == np.arange(len(counts))
        seen = counts + np.cumsum(is_in, axis=0) - is_in
        below = np.where(np.arange(len(counts)) < part[:, None], seen, 0).sum(axis=1)
        same = seen[np.arange(len(part)), part] + 1
        p[first : first + step] = (below + rng.random(len(part)) * same) / (seen.sum(axis=1) + 1)
        counts = counts + is_in.sum(axis=0)
    return p


def uniformity_bets(p: Array, days: Array) -> Array:
    """Return the logarithms of the factors (n, n_bets) of bets that p-values are not uniform.

    Some bet on smaller or larger values, and on very small or very large ones. The last bet learns
    the density of the p-values from those of earlier days, of which it forgets old ones: values of
    one day may be alike, and would tell it of each other.
    """
    which = np.minimum((p * _N_BINS).astype(np.intp), _N_BINS - 1)
    is_in = (which[:, None] == np.arange(_N_BINS)).astype(np.float64)
    seen = lfilter([0.0, 1.0], [1.0, -_MEMORY], is_in, axis=0)
    seen = seen[np.searchsorted(np.floor(days), np.floor(days))]
    shares = (seen + 1) / (seen.sum(axis=1, keepdims=True) + _N_BINS)
    learned = _N_BINS * shares[np.arange(len(p)), which]
    ends = 0.5 + 0.5 * _N_BINS * is_in[:, [0, -1]]
    factors = [1 + np.outer(2 * p - 1, _SLOPES), ends, learned]
    return np.asarray(np.log(np.column_stack(factors)))


def excess_bets(relative: Array) -> Array:
    """Return the logarithms of the factors (n, n_bets) of bets that losses are too large.

    Parameters
    ----------
    relative : (n,)
        Losses, at least 0, in units of what their mean may be at most.
    """
    return np.asarray(np.log1p((relative - 1)[:, None] * _STAKES))


def design_effect(x: Array, days: Array) -> float:
    """Return how many rows count as one, since rows of one day may be alike.

    Dividing the logarithms of the factors by it keeps a bet fair: if rows of a day are
    independent, by any number above 1; and if they are the same, by their number. Between these,
    it is the ratio of the variance of the means of days to that of the means of as many independent
    rows (Kish, *Survey Sampling*, 1965), drawn upwards if days are few; of the first days, from a
    small correlation, so that a large change is found at once. Means are compared with those of the
    next day, so that a change of all later days has little part in it.

    Parameters
    ----------
    x, days : (n,)
        What bets depend on, and the day of each row.
    """
    _, day, sizes = np.unique(np.floor(days), return_inverse=True, return_counts=True)
    n, n_days = len(x), len(sizes)
    if n == n_days:
        return 1.0
    largest = float((sizes**2).sum() / n)
    means = np.bincount(day, x) / sizes
    within = float(((x - means[day]) ** 2).sum()) / (n - n_days)
    steps = np.diff(means) ** 2 / (1 / sizes[1:] + 1 / sizes[:-1])
    least = 1 + (_LIKENESS * (largest - 1) if len(steps) < _N_EARLY_STEPS else 0)
    if len(steps) < _MIN_STEPS:
        return least
    if not within:
        return largest
    between = (steps.sum() - steps.max()) / chi2.ppf(1 - _CAUTION, len(steps) - 1)
    total = within + max(0.0, between - within) / largest
    return max(least, float(between / total))


def log_evidence(log_factors: Array, days: Array, n_days: float) -> Array:
    """Return the logarithm (n,) of the mean wealth of bets after each observation.

    Parameters
    ----------
    log_factors : (n, n_bets)
        Logarithms of the factors of each bet, in the order of time.
    days : (n,)
        Time of each observation in days from the start of the period.
    n_days
        Length of the period, which is known beforehand.
    """
    if not len(days):
        return np.zeros(0)
    starts = np.arange(0, n_days, START_DAYS)
    wealth = np.vstack([np.zeros(log_factors.shape[1]), np.cumsum(log_factors, axis=0)])
    # a bet that began at s has W_t / W_s at t: the sum over s, of those that have begun
    since = np.logaddexp.accumulate(-wealth[np.searchsorted(days, starts)], axis=0)
    n_begun = np.searchsorted(starts, days, side="right")
    begun = logsumexp(wealth[1:] + since[n_begun - 1], axis=1)
    with np.errstate(divide="ignore"):  # all have begun
        idle = np.log((len(starts) - n_begun) * log_factors.shape[1])
    return np.asarray(np.logaddexp(begun, idle) - np.log(len(starts) * log_factors.shape[1]))


def first_above(evidence: Array, threshold: float) -> int | None:
    """Return the place of the first evidence that reaches a threshold, or None."""
    places = np.flatnonzero(evidence >= threshold)
    return int(places[0]) if len(places) else None
