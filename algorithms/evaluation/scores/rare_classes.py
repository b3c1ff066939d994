"""Rare classes, and the metric that sees them.

If 5 % of the rows are "ill", the answer "ok" for every row has an error rate of 5 %, and methods
that find the ill look no better. AUC says how well a method ranks the ill above the others; the
threshold of an answer is another choice. Log loss would see them as well, but only calibrated
models have probabilities, and methods are compared without calibration.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from algorithms.interface.tasks import TaskSummary

#: Share of rows below which the smallest of two classes is rare.
DEFAULT_RARE_SHARE: Final = 0.2
#: Least number of rows of every class in a task so that inner folds can hold a pair out.
_MIN_CLASS_ROWS: Final = 3


@dataclass(frozen=True, slots=True)
class RareClass:
    """A class with a small share of the rows of the tasks that have it.

    Parameters
    ----------
    relative
        Share relative to that of classes of equal size.
    """

    label: str
    share: float
    relative: float


def rarest_class(tasks: Iterable[TaskSummary]) -> RareClass | None:
    """Return the class with the smallest relative share; None if the counts are unknown."""
    n_rows: dict[str, int] = {}
    n_all: dict[str, int] = {}
    expected: dict[str, float] = {}
    for task in tasks:
        counts = task.class_counts or {}
        for label, n in counts.items():
            if len(counts) > 1:
                total = sum(counts.values())
                n_rows[label] = n_rows.get(label, 0) + n
                n_all[label] = n_all.get(label, 0) + total
                expected[label] = expected.get(label, 0.0) + total / len(counts)
    if not n_rows:
        return None
    label = min(n_rows, key=lambda label: n_rows[label] / expected[label])
    n = n_rows[label]
    return RareClass(label, n / n_all[label], n / expected[label])


def find_rare_class(tasks: Sequence[TaskSummary], rare_share: float) -> RareClass | None:
    """Return the rarest class if its share is below the limit, ``rare_share`` of two classes."""
    rarest = rarest_class(tasks)
    return rarest if rarest is not None and rarest.relative < 2 * rare_share else None


def can_rank(tasks: Sequence[TaskSummary], *, min_rows: int) -> bool:
    """Return whether a task has rows of every class in folds of the training rows of a split."""
    return any(
        _has_rows_of_each(task.class_counts) and task.n_samples >= min_rows for task in tasks
    )


def _has_rows_of_each(counts: Mapping[str, int] | None) -> bool:
    return counts is not None and len(counts) > 1 and min(counts.values()) >= _MIN_CLASS_ROWS
