"""Units: sets of rows, across tasks, that must be on the same side of every split.

Without units, a row that is held out of one task could train another. Rows of the same group are
one unit. Rows of different groups are in different units even if their values are equal: two pupils
may have the same attributes. Rows without a group are identified by their values: equal rows that
are the same sample (:mod:`algorithms.interface.equal_rows`) are one unit, in one task or in
several.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.equal_rows import TiedRows, tie_equal
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.ties import DEFAULT_TIES, Ties
from algorithms.numerics.arrays import Indices
from algorithms.numerics.row_hashes import Hashes, hash_rows


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of the rows of tasks, numbered over all tasks.

    Parameters
    ----------
    names
        Names of the tasks, sorted.
    starts : (n_tasks + 1,)
        Rows of task t are ``starts[t]`` to ``starts[t + 1]`` in ``unit``.
    unit : (n_rows,)
        Unit of each row of all tasks.
    """

    names: tuple[str, ...]
    starts: Indices
    unit: Indices

    def of(self, task: str) -> Indices:
        """Return the unit of each row of a task, (n_samples,)."""
        t = bisect_left(self.names, task)
        return self.unit[self.starts[t] : self.starts[t + 1]]

    def place(self, row: int) -> str:
        """Return a description of a row, given its position among the rows of all tasks."""
        t = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"row {row - int(self.starts[t])} of task '{self.names[t]}'"

    def by_task(self) -> list[Indices]:
        """Return the unit of each row of every task, in the order of their names."""
        return np.split(self.unit, self.starts[1:-1])

    @property
    def sizes(self) -> Indices:
        """Number of rows of each unit, (n_units,)."""
        return np.bincount(self.unit)

    @property
    def spans_tasks(self) -> bool:
        """Whether a unit has rows of different tasks."""
        return sum(len(np.unique(unit)) for unit in self.by_task()) > len(self.sizes)


def hashes_of(tasks: TaskSet) -> dict[str, Hashes]:
    """Return the hash of each row, by task."""
    distinct = {id(task.X): task.X for task in tasks}  # tasks may share one array
    hashed = {key: hash_rows(X) for key, X in distinct.items()}
    return {task.name: hashed[id(task.X)] for task in tasks}


def units_of(
    tasks: TaskSet, hashes: Mapping[str, Hashes] | None = None, *, is_category: bool = False
) -> Units:
    """Return the units of all rows, independent of the order of the tasks.

    Parameters
    ----------
    hashes
        The hash of each row, by task, if they are known.
    is_category
        As in :func:`tie_rows`.
    """
    return _find_units(tasks, hashes, DEFAULT_TIES, is_category=is_category)[0]


def tie_rows(tasks: TaskSet, ties: Ties, *, is_category: bool = False) -> TaskSet:
    """Return tasks whose rows have their unit as group, and a sentence about equal rows.

    So parts of the rows, and prepared rows, keep the units of the raw rows.

    Parameters
    ----------
    is_category
        Whether a category is the only column. Equal rows have the same level then, as answers of
        many persons to one item, and 'auto' ties none: a level that is held out from all tasks is
        one of which nothing can be known.
    """
    if all(task.groups is not None for task in tasks):
        return tasks
    units, tied = _find_units(tasks, None, ties, is_category=is_category)
    grouped = tuple(replace(task, groups=units.of(task.name)) for task in tasks)
    return replace(tasks, tasks=grouped, equal_rows=tied.describe())


def _find_units(
    tasks: TaskSet, hashes: Mapping[str, Hashes] | None, ties: Ties, *, is_category: bool
) -> tuple[Units, TiedRows]:
    is_shared = len({id(task.X) for task in tasks}) < len(tasks)
    has_levels = ties == "auto" and is_category and not is_shared
    ordered = tasks.by_name()
    task_hashes = hashes_of(tasks) if hashes is None else hashes
    values = np.concatenate([task_hashes[task.name] for task in ordered])
    content = np.unique(values, return_inverse=True)[1].astype(np.intp)
    if has_levels or all(task.groups is not None for task in tasks):  # the groups alone decide
        ties = "none"
    content, tied = tie_equal(ordered.tasks, content, ties)
    starts = np.cumsum([0, *(task.n_samples for task in ordered)])
    unit = _merge_groups(content, _groups(ordered.tasks)) if _has_groups(tasks) else content
    return Units(ordered.names, starts.astype(np.intp), unit), replace(tied, has_levels=has_levels)


def cells_of(tasks: TaskSet) -> Indices:
    """Return the class of each row, numbered over all tasks in the order of their names.

    A task without classes counts as one class.
    """
    cells, n_cells = [], 0
    for task in tasks.by_name():
        codes = np.zeros(task.n_samples, dtype=np.intp)
        if task.y is not None and task.target == "classes":
            codes = np.unique(task.y, return_inverse=True)[1].astype(np.intp)
        cells.append(n_cells + codes)
        n_cells += int(codes.max()) + 1
    return np.concatenate(cells)


def sole_units(cell: Indices, unit: Indices) -> NDArray[np.bool_]:
    """Return whether each unit is the only unit of a class of a task, (n_units,).

    Such a unit must always train.
    """
    n_units = int(unit.max()) + 1
    pairs = np.sort(cell * n_units + unit)
    pairs = pairs[np.append(True, np.diff(pairs) > 0)]  # faster than np.unique
    cells, units = np.divmod(pairs, n_units)
    is_sole = np.zeros(n_units, dtype=bool)
    is_sole[units[np.bincount(cells)[cells] == 1]] = True
    return is_sole


def divisible_rows(tasks: TaskSet, units: Units) -> dict[str, int]:
    """Return for each task how many rows can be held out while every class keeps a training row."""
    is_divisible = ~sole_units(cells_of(tasks), units.unit)
    return {name: int(np.count_nonzero(is_divisible[units.of(name)])) for name in units.names}


def tie_of(task: Task, unit: Indices) -> str | None:
    """Return why all rows of a task, or of each of its classes, are one unit; None if they are not.

    Parameters
    ----------
    unit : (n_samples,)
        Unit of each row of the task.
    """
    classes = task.y if task.y is not None and task.target == "classes" else np.zeros(len(unit))
    largest = None
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        if len(np.unique(unit[rows])) > 1:
            return None
        if largest is None or len(rows) > len(largest):
            largest = rows
    if largest is None or len(largest) == 1:
        return None
    which = "all" if len(largest) == task.n_samples else f"class '{classes[largest[0]]}'"
    return f"the rows of task '{task.name}' ({which}) {_tie_reason(task, largest)}"


def _tie_reason(task: Task, rows: Indices) -> str:
    if len(np.unique(hash_rows(task.X[rows]))) == 1:
        return "have the same values"
    groups = np.unique(task.groups[rows]) if task.groups is not None else np.empty(0)
    if len(groups) == 1:
        return f"are of one group, '{groups[0]}'"
    return "are of groups with rows in common"


def _has_groups(tasks: TaskSet) -> bool:
    return any(task.groups is not None for task in tasks)


def _groups(tasks: Sequence[Task]) -> Indices:
    """Return the index of each row's group, over all tasks; -1 for a row without a group."""
    labels = [task.groups for task in tasks if task.groups is not None]
    codes = np.unique(np.concatenate(labels), return_inverse=True)[1]
    groups, first = [], 0
    for task in tasks:
        if task.groups is None:
            groups.append(np.full(task.n_samples, -1))
        else:
            groups.append(codes[first : first + task.n_samples])
            first += task.n_samples
    return np.concatenate(groups).astype(np.intp)


def _merge_groups(content: Indices, group: Indices) -> Indices:
    """Return the unit of each row: connected components of "same group" and "same content".

    "Same content" connects rows only if one of them has no group. Labels propagate: every content
    gets the smallest label that its groups reach, until no label changes.
    """
    has_group = group >= 0
    is_of_ungrouped = np.zeros(int(content.max()) + 1, dtype=bool)
    is_of_ungrouped[content[~has_group]] = True
    is_separate = has_group & ~is_of_ungrouped[content]  # the group alone determines the unit
    content = np.where(is_separate, len(is_of_ungrouped) + group, content)
    rows = np.flatnonzero(has_group)
    pairs = np.unique(np.stack([content[rows], group[rows]]), axis=1)
    label, before = np.arange(int(content.max()) + 1), None
    while before is None or not np.array_equal(label, before):
        before = label.copy()
        smallest = np.full(int(group.max()) + 1, len(label))
        np.minimum.at(smallest, pairs[1], label[pairs[0]])
        np.minimum.at(label, pairs[0], smallest[pairs[1]])
        label = label[label]
    return np.unique(label[content], return_inverse=True)[1].astype(np.intp)
