"""Changes of the distributions of columns from training rows to new rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algorithms.evaluation.monitoring.sequential import (
    conformal_p_values,
    first_above,
    log_evidence,
    uniformity_bets,
)

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

#: Added to each count before shares are compared.
_PRIOR: Final = 0.5
#: Stands for all tasks in results.
ALL_TASKS: Final = ""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Training values of a column: in equal intervals, or by level.

    Attributes
    ----------
    counts : (n_bins,)
        Numbers of values.
    n_missing
        Number of missing values.
    low, high
        Ends of the intervals; None for levels.
    """

    counts: Array
    n_missing: int
    low: float | None = None
    high: float | None = None

    def all_counts(self) -> Array:
        """Return the counts with those of values below, above or unknown, and missing."""
        return np.concatenate([[0.0], self.counts, [0.0, float(self.n_missing)]])

    def bins(self, values: Array) -> Indices:
        """Return the places of values among all counts."""
        n = len(self.counts)
        is_missing = np.isnan(values)
        known = np.where(is_missing, 0.0, values)
        if self.low is None or self.high is None:  # levels; -1 is an unknown one
            places = np.where(known < 0, n + 1, known + 1)
        else:
            width = (self.high - self.low) or 1.0
            inside = np.clip((known - self.low) / width * n, 0, n - 1) + 1
            places = np.where(known < self.low, 0, np.where(known > self.high, n + 1, inside))
        return np.where(is_missing, n + 2, places).astype(np.intp)


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """How far a column of a task has moved.

    Attributes
    ----------
    task
        :data:`ALL_TASKS` for the rows of all tasks.
    stability_index
        Population stability index of the new values: below 0.1 is small, above 0.25 large.
    log_e
        Logarithm of the largest evidence so far.
    alarm_day
        Day on which the evidence reached the threshold; None if it did not.
    """

    task: str
    column: str
    n_rows: int
    stability_index: float
    log_e: float
    alarm_day: float | None


def column_changes(
    histograms: Mapping[tuple[str, str], Histogram],
    values: Mapping[tuple[str, str], Array],
    days: Mapping[str, Array],
    *,
    n_days: float,
    alpha: float,
    seed: int,
) -> list[ColumnChange]:
    """Return the changes of columns by task, and over all tasks, the strongest evidence first.

    Parameters
    ----------
    histograms
        Training values by task and column.
    values : (n_rows,)
        New values by task and column, in the order of time.
    days : (n_rows,)
        Their days in the period, by task.
    n_days
        Length of the period.
    alpha
        Probability of any false alarm in it, however often it is looked at.
    seed
        Breaks ties, the same way at every look.
    """
    threshold = np.log((len(histograms) + len({c for _, c in histograms})) / alpha)
    found, bets = [], {}
    rngs = np.random.default_rng(seed).spawn(len(histograms))
    for ((task, column), histogram), rng in zip(histograms.items(), rngs, strict=True):
        new = values.get((task, column), np.zeros(0))
        kept = np.isfinite(new) | np.isnan(new)
        bins, at = histogram.bins(new[kept]), days.get(task, np.zeros(0))[kept]
        p = conformal_p_values(bins, histogram.all_counts(), rng)
        bets[task, column] = uniformity_bets(p), at
        n_new = np.bincount(bins, minlength=len(histogram.all_counts()))
        index = stability_index(histogram.all_counts(), n_new)
        evidence = log_evidence(*bets[task, column], n_days)
        found.append(_change(task, column, index, at, evidence, threshold))
    for column in dict.fromkeys(column for _, column in histograms):
        of_tasks = [bets[key] for key in histograms if key[1] == column]
        at = np.concatenate([of_task[1] for of_task in of_tasks])
        order = np.argsort(at, kind="stable")
        factors = np.concatenate([of_task[0] for of_task in of_tasks])[order]
        indices = [change.stability_index for change in found if change.column == column]
        index = float(np.median(indices))
        evidence = log_evidence(factors, at[order], n_days)
        found.append(_change(ALL_TASKS, column, index, at[order], evidence, threshold))
    return sorted(found, key=lambda change: -change.log_e)


def _change(  # noqa: PLR0917
    task: str, column: str, index: float, days: Array, evidence: Array, threshold: float
) -> ColumnChange:
    first = first_above(evidence, threshold)
    day = None if first is None else float(days[first])
    return ColumnChange(task, column, len(days), index, float(evidence.max(initial=0.0)), day)


def stability_index(before: ArrayLike, after: ArrayLike) -> float:
    """Return the population stability index of two histograms; 0 if one has no values."""
    old, new = np.asarray(before, float), np.asarray(after, float)
    if not old.sum() or not new.sum():
        return 0.0
    used = (old + new) > 0
    p, q = ((counts[used] + _PRIOR) / (counts[used] + _PRIOR).sum() for counts in (old, new))
    return float(((q - p) * np.log(q / p)).sum())
