"""Nested parts of the rows of tasks: a quarter, half and three quarters of each.

Units of rows (:mod:`algorithms.interface.units`) are not divided. A part keeps at least some rows
of each task and class, even if that is more than its share.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import TaskSet
from algorithms.interface.units import units_of
from algorithms.splits.folds import SplitRows, spread_folds
from algorithms.splits.splits import by_task, rows_of

#: Number of parts into which the rows are divided; a subsample has some of them.
N_PARTS: Final = 4
#: Rows of each class of a task that every subsample keeps, so that one can be held out.
_MIN_CLASS_ROWS: Final = 2
#: Rows of a task that every subsample keeps, if it has as many.
_MIN_ROWS: Final = 2


def subsample(tasks: TaskSet, n_parts: int, *, seed: int) -> TaskSet:
    """Return about ``n_parts`` / :data:`N_PARTS` of the rows of each task and class.

    With the same seed, the rows of a small part are also in every larger one.
    """
    if n_parts == N_PARTS:
        return tasks
    rows = rows_of(tasks, units_of(tasks), seed=[seed])
    part = spread_folds(rows, n_folds=N_PARTS)
    is_kept = part < n_parts
    for key, at_least in ((rows.cell, _MIN_CLASS_ROWS), (rows.task, _MIN_ROWS)):
        is_kept |= _first_units(rows, key, part, at_least)
    kept = by_task(tasks, is_kept)
    return TaskSet(tuple(task.take(np.flatnonzero(kept[task.name])) for task in tasks))


def _first_units(
    rows: SplitRows, key: NDArray[np.intp], part: NDArray[np.intp], at_least: int
) -> NDArray[np.bool_]:
    """Return the rows of the units that hold the first rows of each key, in the order of parts."""
    order = np.lexsort((rows.rank, part, key))
    ends = np.cumsum(np.bincount(key))
    place = np.arange(len(order)) - np.concatenate([[0], ends])[key[order]]
    return np.isin(rows.unit, rows.unit[order[place < at_least]])
