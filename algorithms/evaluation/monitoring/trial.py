"""Is a challenger better than the champion? A test on the rows that both predict, for every day.

The observation is a day: its mean difference of losses over all tasks. So neither the rows of a day
nor those of a task need to be independent of each other. Days are bets as in
:mod:`algorithms.evaluation.monitoring.sequential`, against the hypothesis that, given all earlier
days, the expected size of a day, cut as follows, is not above 0. Losses are bounded, so that
targets without moments are no trouble. A day counts at most once its usual size where the
challenger is better, and twice where it is worse: a bet without a cut could lose all. So very large
losses on few days count less than in the mean.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from algorithms.numerics.arrays import Array

#: Probability that any of the challengers in a row is promoted though it is not better.
ALPHA: Final = 0.05
#: A loss counts at most as so many usual ones.
MAX_RATIO: Final = 16.0
#: How many times its usual size a day counts at most where the challenger is worse.
_MAX_WORSE: Final = 2.0
#: Stakes of the bets; the largest is below 1 / _MAX_WORSE, so that no day takes all.
_STAKES: Final = np.array([0.1, 0.25, 0.45])
#: Median of squared normal errors in units of their mean.
_MEDIAN: Final = 0.4549


def usual_loss(losses: ArrayLike) -> float:
    """Return the mean of squared errors without outliers; 1 if all are 0."""
    values = np.asarray(losses, float)
    return float(np.median(values)) / _MEDIAN or float(values.mean()) or 1.0


def advantage(champion: ArrayLike, challenger: ArrayLike, usual: ArrayLike) -> Array:
    """Return by how much the challenger's loss is smaller (n,), in units of usual losses (n,)."""
    ours, theirs = (
        np.minimum(np.asarray(losses, float) / usual, MAX_RATIO)
        for losses in (champion, challenger)
    )
    return np.asarray(ours - theirs)


def trial_evidence(means: ArrayLike, n_rows: ArrayLike) -> Array:
    """Return the logarithm (n_days,) of the evidence after each day that the challenger is better.

    If it is not, by the hypothesis above, it ever exceeds log(1/α) with a probability of at most α.

    Parameters
    ----------
    means : (n_days,)
        Mean advantage of the rows of each day, in the order in which days are weighed.
    n_rows : (n_days,)
        Their numbers, which must not depend on the advantage.
    """
    x = np.asarray(means, float) * np.sqrt(np.asarray(n_rows, float))
    if not len(x):
        return np.zeros(0)
    n_before = np.arange(len(x))
    squares = np.concatenate([[0.0], np.cumsum(x**2)[:-1]])
    size = np.sqrt(squares / np.maximum(n_before, 1))  # known before the day; at first unknown
    bets = np.where(size > 0, np.clip(x / np.where(size > 0, size, 1), -_MAX_WORSE, 1), 0)
    wealth = np.cumsum(np.log1p(bets[:, None] * _STAKES), axis=0)
    return np.asarray(logsumexp(wealth, axis=1) - np.log(len(_STAKES)))


def needed_evidence(n_trials: int) -> float:
    """Return the logarithm of the evidence that promotes the n-th challenger of a champion.

    The levels of all of them add up to :data:`ALPHA`.
    """
    return float(np.log(n_trials * (n_trials + 1) / ALPHA))


def shown_worse(evidence: dict[str, float]) -> list[str]:
    """Return the tasks in which the challenger is worse, by the evidence for that of each task."""
    return [task for task, log_e in evidence.items() if log_e >= np.log(len(evidence) / ALPHA)]
