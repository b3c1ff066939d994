"""Changes of the distributions of columns from training rows to new rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from algorithms.evaluation.monitoring.sequential import (
    conformal_p_values,
    design_effect,
    first_above,
    log_evidence,
    uniformity_bets,
)
from algorithms.numerics.arrays import Array, Indices

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
            width = (self.high / 2 - self.low / 2) or 1.0  # halves, as a difference may overflow
            inside = np.clip((known / 2 - self.low / 2) / width * n, 0, n - 1) + 1
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
    found = []
    rngs = np.random.default_rng(seed).spawn(len(histograms))
    for ((task, column), histogram), rng in zip(histograms.items(), rngs, strict=True):
        new = values.get((task, column), np.zeros(0))
        kept = np.isfinite(new) | np.isnan(new)
        bins, before = histogram.bins(new[kept]), histogram.all_counts()
        p = conformal_p_values(bins, before, rng)
        index = stability_index(before, np.bincount(bins, minlength=len(before)))
        found.append(_PValues(task, column, p, days.get(task, np.zeros(0))[kept], index))
    for column in dict.fromkeys(column for _, column in histograms):
        found.append(_of_all_tasks([one for one in found if one.column == column]))
    threshold = np.log(len(found) / alpha)
    changes = [one.change(n_days, threshold) for one in found]
    return sorted(changes, key=lambda change: -change.log_e)


@dataclass(frozen=True, slots=True, eq=False)
class _PValues:
    """P-values of the new values of a column, and their days."""

    task: str
    column: str
    p: Array
    days: Array
    stability_index: float

    def change(self, n_days: float, threshold: float) -> ColumnChange:
        """Return whether, and when, they stop being uniform."""
        bets = uniformity_bets(self.p, self.days) / design_effect(self.p, self.days)
        evidence = log_evidence(bets, self.days, n_days)
        first = first_above(evidence, threshold)
        return ColumnChange(
            task=self.task,
            column=self.column,
            n_rows=len(self.p),
            stability_index=self.stability_index,
            log_e=float(evidence.max(initial=0.0)),
            alarm_day=None if first is None else float(self.days[first]),
        )


def _of_all_tasks(tasks: Sequence[_PValues]) -> _PValues:
    days = np.concatenate([task.days for task in tasks])
    order = np.argsort(days, kind="stable")
    p = np.concatenate([task.p for task in tasks])
    index = float(np.median([task.stability_index for task in tasks]))
    return _PValues(ALL_TASKS, tasks[0].column, p[order], days[order], index)


def stability_index(before: ArrayLike, after: ArrayLike) -> float:
    """Return the population stability index of two histograms; 0 if one has no values."""
    old, new = np.asarray(before, float), np.asarray(after, float)
    if not old.sum() or not new.sum():
        return 0.0
    used = (old + new) > 0
    p, q = ((counts[used] + _PRIOR) / (counts[used] + _PRIOR).sum() for counts in (old, new))
    return float(((q - p) * np.log(q / p)).sum())
