"""Combination of tasks from stored datasets into a new dataset."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Array, Task, TaskSet
from algorithms.numerics.sparse_rows import concatenate_rows, is_sparse, take_columns
from algorithms.preparation.columns import Column, DateWriting, recode
from algorithms.preparation.learning import columns_of
from service.datasets.formats.options import Limits
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.validation import (
    USE_WITHOUT_TARGET,
    aligned,
    check_classes,
    check_counts,
)
from service.datasets.issues import ValidationIssues, reject
from service.datasets.selection import Selection

_VALUE_BYTES = 8
_INDEX_BYTES = 4


@dataclass(frozen=True, slots=True)
class SelectedDataset:
    """A stored dataset and the selection from it.

    Attributes
    ----------
    columns
        Kinds of the columns of all tasks; None if all are numbers without missing values.
    notes, ignored
        As in :class:`~service.datasets.formats.parsed.Parsed`.
    has_labels
        Whether the labels of its groups are known.
    unlabelled
        Rows without a target of some tasks. They have no numbers: a selection of rows has none.
    """

    tasks: TaskSet
    selection: Selection
    columns: tuple[Column, ...] | None = None
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    has_labels: bool = True
    unlabelled: tuple[Task, ...] = ()

    @property
    def selects_rows(self) -> bool:
        """Whether some rows are selected, rather than all of a task."""
        return self.selection.rows is not None or self.selection.row_numbers is not None


@dataclass(slots=True)
class _ArrayCache:
    """Cache of derived arrays, so that tasks with the same rows share one array."""

    made: dict[tuple[object, ...], tuple[Array, object]] = field(default_factory=dict)

    def get(self, key: tuple[object, ...], origin: object, make: Callable[[], Array]) -> Array:
        """Return the array of a key.

        ``origin`` is kept alive, so that Python does not reuse the ids in the key.
        """
        if key not in self.made:
            self.made[key] = make(), origin
        return self.made[key][0]


def combine(sources: Sequence[SelectedDataset], limits: Limits) -> Parsed:
    """Return the selected tasks; rows of tasks with the same name are concatenated.

    Raises
    ------
    Rejected
        A task, column or row does not exist, tasks with the same name differ in their columns,
        targets or groups, or the result exceeds a limit.
    """
    cache = _ArrayCache()
    kinds = _join_columns(sources)
    members = _members(sources, [_select(source, cache) for source in sources], kinds, cache)
    unlabelled = _members(
        sources, [_select_unlabelled(source, cache) for source in sources], kinds, cache
    )
    check_counts(len(members), max(own[0].n_features for own in members.values()), limits)
    every = [task for own in (*members.values(), *unlabelled.values()) for task in own]
    _check_groups(sources, every)
    issues = ValidationIssues()
    merged, others = [], []
    left_out = frozenset(name for source in sources for name in source.ignored)
    for name, own in members.items():
        with issues.collect():
            merged.append(_merge(own, cache, left_out))
            if name in unlabelled:
                others.append(_merge(unlabelled[name], cache, left_out))
    issues.check()
    every = aligned([*merged, *others])
    tasks, others = every[: len(merged)], every[len(merged) :]
    n_bytes = sum({id(task.X): _size_bytes(task) for task in every}.values())
    if n_bytes > limits.decompressed_bytes:
        detail = f"the tasks have {n_bytes} bytes, more than the limit of"
        reject("decompression-limit", f"{detail} {limits.decompressed_bytes}")
    used = {name for task in tasks for name in task.feature_names or ()}
    before = {
        name for source in sources for task in source.tasks for name in task.feature_names or ()
    }
    ignored = before.union(*(source.ignored for source in sources)) - used
    return Parsed.of(
        tasks,
        [kinds[name] for name in kinds if name in used],
        notes=tuple(dict.fromkeys(note for source in sources for note in _notes(source))),
        ignored=tuple(sorted(ignored)),
        unlabelled=others,
    )


def _notes(source: SelectedDataset) -> tuple[str, ...]:
    """Return the notes about a dataset, as they are true of what is selected from it."""
    if not source.selects_rows:
        return source.notes
    left_out = "left out of the selected rows"
    return tuple(note.replace(USE_WITHOUT_TARGET, left_out) for note in source.notes)


def _members(
    sources: Sequence[SelectedDataset],
    selected: Sequence[Sequence[Task]],
    kinds: Mapping[str, Column],
    cache: _ArrayCache,
) -> dict[str, list[Task]]:
    """Return the selected tasks of all datasets by name, with the categories of all."""
    members: dict[str, list[Task]] = {}
    for source, tasks in zip(sources, selected, strict=True):
        for task in tasks:
            known = _with_levels(task, source, kinds, cache) if kinds else task
            members.setdefault(task.name, []).append(known)
    return members


def _size_bytes(task: Task) -> int:
    """Return the size of the rows of a task as they are stored."""
    if task.n_stored is None:
        return int(task.X.size) * _VALUE_BYTES
    return task.n_stored * (_VALUE_BYTES + _INDEX_BYTES) + task.n_samples * _VALUE_BYTES


def _select(source: SelectedDataset, cache: _ArrayCache) -> list[Task]:
    """Return the selected tasks of a dataset with the selected columns and rows."""
    selection = source.selection
    names = selection.row_numbers or selection.tasks or source.tasks.names
    where = f"dataset '{selection.dataset_id}'"
    known = {task.name: task for task in source.tasks}
    issues = ValidationIssues()
    tasks = []
    for name in names:
        if name not in known:
            issues.add("missing-task", f"{where} has no task '{name}'", task=name)
            continue
        with issues.collect():
            tasks.append(_select_from_task(known[name], selection, where, cache))
    issues.check()
    return tasks


def _select_unlabelled(source: SelectedDataset, cache: _ArrayCache) -> list[Task]:
    """Return the rows without a target of the selected tasks; none of selected rows."""
    if source.selects_rows:
        return []
    selection = source.selection
    where = f"dataset '{selection.dataset_id}'"
    names = selection.tasks or source.tasks.names
    chosen = [task for task in source.unlabelled if task.name in names]
    return [_select_from_task(task, selection, where, cache) for task in chosen]


def _select_from_task(task: Task, selection: Selection, where: str, cache: _ArrayCache) -> Task:
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
    of = f"{where}, task '{task.name}'"
    if selection.row_numbers is not None:
        rows = np.array(selection.row_numbers[task.name], dtype=np.intp)
        if rows.max() >= n:
            detail = f"{of} has {n} rows, so there is no row {rows.max()}"
            reject("missing-row", detail, task=task.name, row=int(rows.max()))
        return rows
    chosen = selection.rows
    if chosen is None:
        return slice(None)
    if chosen.start >= n:
        detail = f"{of} has {n} rows, so there is no row {chosen.start}"
        reject("missing-row", detail, task=task.name, row=chosen.start)
    return slice(chosen.start, chosen.stop)


def _positions(task: Task, columns: Iterable[str | int] | None, where: str) -> list[int] | None:
    """Return the positions of the selected columns of a task; None for all."""
    if columns is None:
        return None
    known: dict[str | int, int] = {name: j for j, name in enumerate(task.feature_names or ())}
    if not known:
        known = {j: j for j in range(task.n_features)}
    found: list[int] = []
    issues = ValidationIssues()
    for column in columns:
        if column not in known:
            detail = f"{where}, task '{task.name}' has no column {column!r}"
            issues.add("missing-column", detail, task=task.name, column=column)
        elif known[column] in found:
            detail = f"column {column!r} is selected twice"
            issues.add("duplicate-column", detail, task=task.name, column=column)
        else:
            found.append(known[column])
    issues.check()
    return found


def _join_columns(sources: Sequence[SelectedDataset]) -> dict[str, Column]:
    """Return the columns by name, each with the levels of all datasets; empty for plain numbers."""
    if all(source.columns is None for source in sources):
        return {}
    found: dict[str, Column] = {}
    issues = ValidationIssues()
    for source in sources:
        for column in dict.fromkeys(c for task in source.tasks for c in _columns(task, source)):
            other = found.setdefault(column.name, column)
            if other.kind != column.kind:
                detail = (
                    f"column '{column.name}' has the kind {column.kind} in dataset "
                    f"'{source.selection.dataset_id}', but {other.kind} in an earlier one; "
                    f"upload one of them again with column_kind={column.name}:KIND"
                )
                issues.add("different-columns", detail, column=column.name)
            else:
                found[column.name] = _join_column(other, column)
    issues.check()
    return found


def _join_column(ours: Column, theirs: Column) -> Column:
    """Return a column of two datasets, with the levels of both."""
    levels = ours.levels
    if levels != theirs.levels:
        levels = _join_levels(levels, theirs.levels)
    return replace(ours, levels=levels, dates=_join_dates(ours.dates, theirs.dates))


def _join_dates(ours: DateWriting, theirs: DateWriting) -> DateWriting:
    orders = {ours.day_first, theirs.day_first} - {None}
    day_first = orders.pop() if len(orders) == 1 else None  # written in two ways: unknown
    return DateWriting(day_first, ours.has_short_years or theirs.has_short_years)


def _join_levels(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """Return all levels: sorted if both are, otherwise ours and then those only in theirs."""
    joined = tuple(dict.fromkeys(ours + theirs))
    is_sorted = all(list(levels) == sorted(levels) for levels in (ours, theirs))
    return tuple(sorted(joined)) if is_sorted else joined


def _columns(task: Task, source: SelectedDataset) -> tuple[Column, ...]:
    return columns_of(task, source.columns) if task.input == "rows" else ()


def _with_levels(
    task: Task, source: SelectedDataset, kinds: Mapping[str, Column], cache: _ArrayCache
) -> Task:
    """Return the task with the categories of its columns as positions in the joint levels."""
    given = _columns(task, source)
    wanted = [kinds.get(column.name, column) for column in given]
    if not given or list(given) == wanted or is_sparse(task.X):  # all of these are numbers
        return task
    X = task.X
    key = id(X), given, tuple(wanted)
    return replace(task, X=cache.get(key, X, lambda: recode(X, given, wanted, task=task.name)))


def _merge(members: Sequence[Task], cache: _ArrayCache, left_out: Collection[str]) -> Task:
    """Return the rows of tasks with the same name as one task.

    Parameters
    ----------
    left_out
        Columns of uploaded tables that their datasets do not have.
    """
    first, *others = members
    if not others:
        return first
    tasks = [first, *(_reorder_columns(task, first, left_out) for task in others)]
    arrays = [task.X for task in tasks]
    X = cache.get(tuple(map(id, arrays)), arrays, lambda: concatenate_rows(arrays))
    y = _concatenate([task.y for task in tasks])
    if first.target == "classes":
        check_classes(len(np.unique(y)), task=first.name)
    groups, weights = (
        _concatenate([getattr(task, name) for task in tasks]) for name in ("groups", "weights")
    )
    return replace(first, X=X, y=y, groups=groups, weights=weights)


def _concatenate(arrays: Sequence[NDArray[Any] | None]) -> Any:
    return None if arrays[0] is None else np.concatenate([a for a in arrays if a is not None])


def _reorder_columns(task: Task, first: Task, left_out: Collection[str]) -> Task:
    """Return the task with its columns in the order of ``first``.

    Raises
    ------
    Rejected
        The tasks differ in columns, kind of input or of targets, or only one has groups or
        weights.
    """
    what = f"task '{task.name}' has"
    if task.input != first.input:
        detail = f"{what} {first.input} in one dataset and {task.input} in another"
        reject("different-columns", detail, task=task.name)
    if is_sparse(task.X) != is_sparse(first.X):
        ours, theirs = ("sparse", "dense") if is_sparse(task.X) else ("dense", "sparse")
        detail = f"{what} {ours} rows in one dataset and {theirs} ones in another"
        reject("different-columns", f"{detail}; upload one of them again", task=task.name)
    _check_same_columns(task, first, left_out)
    if _label_kind(task.y) != _label_kind(first.y):
        detail = (
            f"{what} {_label_kind(first.y)} in one dataset and {_label_kind(task.y)} in another"
        )
        reject(
            "different-targets",
            f"{detail}; upload one of them again with the same kind",
            task=task.name,
        )
    if (task.groups is None) != (first.groups is None):
        detail = f"{what} groups in only one of the datasets; upload the other again"
        reject("different-groups", detail, task=task.name)
    if (task.weights is None) != (first.weights is None):
        detail = f"{what} weights in only one of the datasets; upload the other again"
        reject("different-weights", detail, task=task.name)
    if task.feature_names == first.feature_names:
        return task
    position = {name: j for j, name in enumerate(task.feature_names or ())}
    return task.select_columns([position[name] for name in first.feature_names or ()])


def _check_same_columns(task: Task, first: Task, left_out: Collection[str]) -> None:
    ours, theirs = task.feature_names, first.feature_names
    if ours is None and theirs is None and task.n_features == first.n_features:
        return
    if ours is not None and theirs is not None and {*ours} == {*theirs}:
        return
    if ours is None or theirs is None:
        names = (
            "column names in only one of the datasets" if (ours is None) != (theirs is None) else ""
        )
        sizes = f"{first.n_features} columns in one dataset and {task.n_features} in another"
        reject("different-columns", f"task '{task.name}' has {names or sizes}", task=task.name)
    only = min({*ours} ^ {*theirs})
    advice = "select columns that both have"
    if only in left_out:
        advice = (
            "the upload of the other left it out: upload that one again with "
            f"column_kind={only}:KIND, such as category, or {advice}"
        )
    detail = f"column '{only}' of task '{task.name}' is in only one of the datasets; {advice}"
    reject("different-columns", detail, task=task.name, column=only)


def _label_kind(y: NDArray[Any] | None) -> str:
    if y is None:
        return "no targets"
    kinds = {"f": "numbers as targets", "U": "text class labels"}
    return kinds.get(y.dtype.kind, "integer class labels")


def _check_groups(sources: Sequence[SelectedDataset], tasks: Sequence[Task]) -> None:
    """Raise Rejected if the group labels of several datasets cannot be compared."""
    grouped = [task for task in tasks if task.groups is not None]
    if len(sources) > 1 and grouped and not all(source.has_labels for source in sources):
        detail = "a dataset has too many groups to keep their labels, and cannot be combined"
        reject("different-groups", detail)
    kinds = {
        "text" if task.groups.dtype.kind == "U" else "numbers"
        for task in grouped
        if task.groups is not None
    }
    if len(kinds) > 1:
        reject("different-groups", "the groups are text in one dataset and numbers in another")
