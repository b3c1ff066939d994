"""Rows that belong together: what is held out of one task must not train another.

A *unit* is a set of rows, of any tasks, that are on the same side of every split. Where rows have
groups, rows of the same group are one unit, and rows of different groups are different even if
their values are equal: two pupils may have the same attributes. Rows without a group are identified
by their values, in whatever order they come, in one task or in several.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.row_hashes import hash_rows

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """The units of the rows of tasks, numbered over all tasks.

    Parameters
    ----------
    names
        The tasks, sorted.
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
        t = self.names.index(task)
        return self.unit[self.starts[t] : self.starts[t + 1]]

    def place(self, row: int) -> str:
        """Return where a row of all tasks stands, in words."""
        t = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"row {row - int(self.starts[t])} of task '{self.names[t]}'"

    def by_task(self) -> list[Indices]:
        """Return the unit of each row of every task, in the order of their names."""
        return np.split(self.unit, self.starts[1:-1])

    @property
    def sizes(self) -> Indices:
        """Number of rows of each unit, (n_units,)."""
        return np.bincount(self.unit)


def units_of(tasks: TaskSet) -> Units:
    """Return the units of all rows; they do not depend on the order of the tasks."""
    ordered = tasks.by_name()
    distinct = {id(task.X): task.X for task in ordered}  # tasks may share one array
    hashed = {key: hash_rows(X) for key, X in distinct.items()}
    hashes = np.concatenate([hashed[id(task.X)] for task in ordered])
    content = np.unique(hashes, return_inverse=True)[1].astype(np.intp)
    starts = np.cumsum([0, *(task.n_samples for task in ordered)])
    unit = _joined(content, _groups(ordered.tasks)) if _has_groups(tasks) else content
    return Units(ordered.names, starts.astype(np.intp), unit)


def cells_of(tasks: TaskSet) -> Indices:
    """Return the class of each row, numbered over all tasks; a task without classes has one.

    The tasks stand in the order of their names.
    """
    cells, n_cells = [], 0
    for task in tasks.by_name():
        own = np.zeros(task.n_samples, dtype=np.intp)
        if task.y is not None and task.target == "classes":
            own = np.unique(task.y, return_inverse=True)[1].astype(np.intp)
        cells.append(n_cells + own)
        n_cells += int(own.max()) + 1
    return np.concatenate(cells)


def sole_units(cell: Indices, unit: Indices) -> NDArray[np.bool_]:
    """Return which units are the only one of a class of a task, which must train: (n_units,)."""
    n_units = int(unit.max()) + 1
    pairs = np.sort(cell * n_units + unit)
    pairs = pairs[np.append(True, np.diff(pairs) > 0)]  # faster than np.unique
    cells, units = np.divmod(pairs, n_units)
    is_sole = np.zeros(n_units, dtype=bool)
    is_sole[units[np.bincount(cells)[cells] == 1]] = True
    return is_sole


def divisible_rows(tasks: TaskSet) -> dict[str, int]:
    """Return for each task how many rows can be held out while every class has others."""
    units = units_of(tasks)
    is_divisible = ~sole_units(cells_of(tasks), units.unit)
    return {name: int(np.count_nonzero(is_divisible[units.of(name)])) for name in units.names}


def tie_of(task: Task, unit: Indices) -> str | None:
    """Return what ties all rows of a task, or of each of its classes, together; None if nothing.

    Parameters
    ----------
    unit : (n_samples,)
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
    which = "all" if len(largest) == task.n_samples else f"those of class '{classes[largest[0]]}'"
    return f"the rows of task '{task.name}' ({which}) {_tie(task, largest)}"


def _tie(task: Task, rows: Indices) -> str:
    groups = np.unique(task.groups[rows]) if task.groups is not None else np.empty(0)
    if len(groups) == 1:
        return f"are of one group, '{groups[0]}'"
    if not np.ptp(task.X[rows], axis=0).any():
        return "have the same values"
    return "are of groups that have rows in common"


def _has_groups(tasks: TaskSet) -> bool:
    return any(task.groups is not None for task in tasks)


def _groups(tasks: Sequence[Task]) -> Indices:
    """Return the position of each row's group among those of all tasks; -1 for a row without."""
    known = [task.groups for task in tasks if task.groups is not None]
    codes = np.unique(np.concatenate(known), return_inverse=True)[1]
    found, first = [], 0
    for task in tasks:
        if task.groups is None:
            found.append(np.full(task.n_samples, -1))
        else:
            found.append(codes[first : first + task.n_samples])
            first += task.n_samples
    return np.concatenate(found).astype(np.intp)


def _joined(content: Indices, group: Indices) -> Indices:
    """Return the connected components of rows of one group, or equal to a row without group.

    Every content takes the least label among those that its groups lead to, until none changes.
    """
    has_group = group >= 0
    is_of_ungrouped = np.zeros(int(content.max()) + 1, dtype=bool)
    is_of_ungrouped[content[~has_group]] = True
    own = has_group & ~is_of_ungrouped[content]  # the group alone says what belongs together
    content = np.where(own, len(is_of_ungrouped) + group, content)
    rows = np.flatnonzero(has_group)
    pairs = np.unique(np.stack([content[rows], group[rows]]), axis=1)
    label, before = np.arange(int(content.max()) + 1), None
    while before is None or not np.array_equal(label, before):
        before = label.copy()
        least = np.full(int(group.max()) + 1, len(label))
        np.minimum.at(least, pairs[1], label[pairs[0]])
        np.minimum.at(label, pairs[0], least[pairs[1]])
        label = label[label]
    return np.unique(label[content], return_inverse=True)[1].astype(np.intp)
