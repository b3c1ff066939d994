"""Selection of tasks, columns and rows from stored datasets."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.arrays import Array
from algorithms.numerics.sparse_rows import take_columns
from algorithms.wrappers.preparation.columns import Column
from service.datasets.issues import ValidationIssues, reject
from service.datasets.number_writings import PLAIN_TABLE, NumberWritings
from service.datasets.selection import Selection


@dataclass(frozen=True, slots=True)
class SelectedDataset:
    """A stored dataset and the selection from it.

    Attributes
    ----------
    columns
        Kinds of the columns of all tasks; None if all are numbers without missing values.
    notes, ignored, task_column, numbers
        As in :class:`~service.datasets.formats.parsed.Parsed`.
    has_labels
        Whether the labels of its groups are known.
    unlabelled
        Rows without a target. They have no row numbers, so a selection of rows has none of them.
    """

    tasks: TaskSet
    selection: Selection
    columns: tuple[Column, ...] | None = None
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    task_column: str | None = None
    numbers: NumberWritings = PLAIN_TABLE
    has_labels: bool = True
    unlabelled: tuple[Task, ...] = ()

    @property
    def selects_rows(self) -> bool:
        """Whether some rows are selected, rather than all of a task."""
        return self.selection.rows is not None or self.selection.row_numbers is not None


@dataclass(slots=True)
class ArrayCache:
    """Cache of derived arrays, so that tasks with the same rows share one array."""

    made: dict[tuple[object, ...], tuple[Array, object]] = field(default_factory=dict)

    def get(self, key: tuple[object, ...], origin: object, make: Callable[[], Array]) -> Array:
        """Return the array of a key.

        ``origin`` is kept alive, so that Python does not reuse the ids in the key.
        """
        if key not in self.made:
            self.made[key] = make(), origin
        return self.made[key][0]


def select(source: SelectedDataset, cache: ArrayCache) -> list[Task]:
    """Return the selected tasks of a dataset with the selected columns and rows."""
    selection = source.selection
    names = selection.row_numbers or selection.tasks or source.tasks.names
    where = f"dataset '{selection.dataset_id}'"
    by_name = {task.name: task for task in source.tasks}
    issues = ValidationIssues()
    tasks = []
    for name in names:
        if name not in by_name:
            issues.add("missing-task", f"{where} has no task '{name}'", task=name)
            continue
        with issues.collect():
            tasks.append(_select_from_task(by_name[name], selection, where, cache))
    issues.check()
    return tasks


def select_unlabelled(source: SelectedDataset, cache: ArrayCache) -> list[Task]:
    """Return the rows without a target of the selected tasks; empty if rows are selected."""
    if source.selects_rows:
        return []
    selection = source.selection
    where = f"dataset '{selection.dataset_id}'"
    names = selection.tasks or source.tasks.names
    chosen = [task for task in source.unlabelled if task.name in names]
    return [_select_from_task(task, selection, where, cache) for task in chosen]


def _select_from_task(task: Task, selection: Selection, where: str, cache: ArrayCache) -> Task:
    rows = _rows(task, selection, where)
    columns = _positions(task, selection.columns, where)
    key = id(task.X), str(columns), rows.tobytes() if isinstance(rows, np.ndarray) else str(rows)
    X = cache.get(key, task.X, lambda: _slice_array(task, rows, columns))
    names = task.feature_names
    if columns is not None and names is not None:
        names = tuple(names[j] for j in columns)
    y = None if task.y is None else task.y[rows]
    groups = None if task.groups is None else task.groups[rows]
    weights = None if task.weights is None else task.weights[rows]
    if weights is not None and y is not None and not weights.any():
        detail = f"the weights of the selected rows of task '{task.name}' are all zero; select more"
        reject("invalid-weight", detail, task=task.name)
    return replace(task, X=X, y=y, groups=groups, weights=weights, feature_names=names)


def _slice_array(task: Task, rows: slice | NDArray[np.intp], columns: list[int] | None) -> Array:
    X = task.X[rows]
    if columns is None:
        return X
    if task.input == "rows":
        chosen: Array = take_columns(X, columns)
        return chosen
    return np.ascontiguousarray(X[..., columns][:, columns])


def _rows(task: Task, selection: Selection, where: str) -> slice | NDArray[np.intp]:
    n = task.n_samples
    subject = f"{where}, task '{task.name}'"
    if selection.row_numbers is not None:
        rows = np.array(selection.row_numbers[task.name], dtype=np.intp)
        if rows.max() >= n:
            detail = f"{subject} has {n} rows, so there is no row {rows.max()}"
            reject("missing-row", detail, task=task.name, row=int(rows.max()))
        return rows
    chosen = selection.rows
    if chosen is None:
        return slice(None)
    if chosen.start >= n:
        detail = f"{subject} has {n} rows, so there is no row {chosen.start}"
        reject("missing-row", detail, task=task.name, row=chosen.start)
    return slice(chosen.start, chosen.stop)


def _positions(task: Task, columns: Iterable[str | int] | None, where: str) -> list[int] | None:
    """Return the positions of the selected columns of a task; None for all."""
    if columns is None:
        return None
    position_of: dict[str | int, int] = {name: j for j, name in enumerate(task.feature_names or ())}
    if not position_of:
        position_of = {j: j for j in range(task.n_features)}
    positions: list[int] = []
    issues = ValidationIssues()
    for column in columns:
        if column not in position_of:
            detail = f"{where}, task '{task.name}' has no column {column!r}"
            issues.add("missing-column", detail, task=task.name, column=column)
        elif position_of[column] in positions:
            detail = f"column {column!r} is selected twice"
            issues.add("duplicate-column", detail, task=task.name, column=column)
        else:
            positions.append(position_of[column])
    issues.check()
    return positions
