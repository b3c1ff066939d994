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
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import logsumexp

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Days between two starts of bets, so that a change is not weighed with all that was quiet before.
START_DAYS: Final = 7
#: Slopes of bets that values become smaller or larger.
_SLOPES: Final = np.array([-0.9, -0.3, 0.3, 0.9])
_N_BINS: Final = 10
#: Part of the weight of a p-value that is left after one more.
_MEMORY: Final = 0.99
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
    n = len(bins)
    is_in = bins[:, None] == np.arange(len(counts))
    seen = counts + np.cumsum(is_in, axis=0) - is_in
    below = np.where(np.arange(len(counts)) < bins[:, None], seen, 0).sum(axis=1)
    same = seen[np.arange(n), bins] + 1
    return np.asarray((below + rng.random(n) * same) / (counts.sum() + np.arange(n) + 1))


def uniformity_bets(p: Array) -> Array:
    """Return the logarithms of the factors (n, n_bets) of bets that p-values are not uniform.

    The last bet learns the density of the p-values from the earlier ones, of which it forgets old
    ones.
    """
    which = np.minimum((p * _N_BINS).astype(np.intp), _N_BINS - 1)
    is_in = (which[:, None] == np.arange(_N_BINS)).astype(np.float64)
    seen = lfilter([0.0, 1.0], [1.0, -_MEMORY], is_in, axis=0)
    shares = (seen + 1) / (seen.sum(axis=1, keepdims=True) + _N_BINS)
    learned = _N_BINS * shares[np.arange(len(p)), which]
    factors = [1 + np.outer(2 * p - 1, _SLOPES), learned]
    return np.asarray(np.log(np.column_stack(factors)))


def excess_bets(relative: Array) -> Array:
    """Return the logarithms of the factors (n, n_bets) of bets that losses are too large.

    Parameters
    ----------
    relative : (n,)
        Losses, at least 0, in units of what their mean may be at most.
    """
    return np.asarray(np.log1p((relative - 1)[:, None] * _STAKES))


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
    first = np.searchsorted(days, starts)
    gained = wealth[1:, None, :] - wealth[first]
    has_begun = days[:, None] >= starts
    parts = np.where(has_begun[:, :, None], gained, 0.0)
    mean = logsumexp(parts, axis=(1, 2)) - np.log(parts.shape[1] * parts.shape[2])
    return np.asarray(mean)


def first_above(evidence: Array, threshold: float) -> int | None:
    """Return the place of the first evidence that reaches a threshold, or None."""
    places = np.flatnonzero(evidence >= threshold)
    return int(places[0]) if len(places) else None
