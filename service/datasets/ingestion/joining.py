"""Tasks of several datasets joined: their columns, and the rows of tasks with the same name."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task
from algorithms.numerics.sparse_rows import concatenate_rows, is_sparse
from algorithms.wrappers.preparation.columns import Column, DateWriting, NumberWriting
from algorithms.wrappers.preparation.learning import columns_of
from algorithms.wrappers.preparation.recoding import recode
from service.datasets.formats.validation import check_classes
from service.datasets.ingestion.selected import ArrayCache, SelectedDataset
from service.datasets.issues import ValidationIssues, reject


def join_columns(sources: Sequence[SelectedDataset]) -> dict[str, Column]:
    """Return the columns by name, each with the levels of all datasets; empty for plain numbers."""
    if all(source.columns is None for source in sources):
        return {}
    joined: dict[str, Column] = {}
    issues = ValidationIssues()
    for source in sources:
        for column in dict.fromkeys(c for task in source.tasks for c in _columns(task, source)):
            other = joined.setdefault(column.name, column)
            if other.kind != column.kind:
                detail = (
                    f"column '{column.name}' has the kind {column.kind} in dataset "
                    f"'{source.selection.dataset_id}', but {other.kind} in an earlier one; "
                    f"upload one of them again with column_kind={column.name}:KIND"
                )
                issues.add("different-columns", detail, column=column.name)
            else:
                joined[column.name] = _join_column(other, column)
    issues.check()
    return joined


def _join_column(ours: Column, theirs: Column) -> Column:
    """Return a column of two datasets, with the levels of both."""
    levels = ours.levels
    if levels != theirs.levels:
        levels = _join_levels(levels, theirs.levels)
    numbers = ours.numbers
    if numbers != theirs.numbers:
        numbers = NumberWriting(unit=numbers.unit or theirs.numbers.unit)
    dates = _join_dates(ours.dates, theirs.dates)
    missing = tuple(dict.fromkeys(ours.missing + theirs.missing))
    return replace(ours, levels=levels, dates=dates, numbers=numbers, missing=missing)


def _join_dates(ours: DateWriting, theirs: DateWriting) -> DateWriting:
    orders = {ours.day_first, theirs.day_first} - {None}
    day_first = orders.pop() if len(orders) == 1 else None  # written in two ways: unknown
    return DateWriting(day_first, ours.has_short_years or theirs.has_short_years)


def _join_levels(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    """Return all levels: sorted if both are, otherwise ours and then the levels only in theirs."""
    joined = tuple(dict.fromkeys(ours + theirs))
    is_sorted = all(list(levels) == sorted(levels) for levels in (ours, theirs))
    return tuple(sorted(joined)) if is_sorted else joined


def _columns(task: Task, source: SelectedDataset) -> tuple[Column, ...]:
    return columns_of(task, source.columns) if task.input == "rows" else ()


def with_levels(
    task: Task, source: SelectedDataset, kinds: Mapping[str, Column], cache: ArrayCache
) -> Task:
    """Return the task with the categories of its columns as positions in the joint levels.

    Parameters
    ----------
    kinds
        Columns of all datasets by name, with the joint levels.
    """
    columns = _columns(task, source)
    joint = [kinds.get(column.name, column) for column in columns]
    if not columns or list(columns) == joint or is_sparse(task.X):  # all of these are numbers
        return task
    X = task.X
    key = id(X), columns, tuple(joint)
    return replace(task, X=cache.get(key, X, lambda: recode(X, columns, joint, task=task.name)))


def merge(members: Sequence[Task], cache: ArrayCache, left_out: Collection[str]) -> Task:
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
    subject = f"task '{task.name}' has"
    if task.input != first.input:
        detail = f"{subject} {first.input} in one dataset and {task.input} in another"
        reject("different-columns", detail, task=task.name)
    if is_sparse(task.X) != is_sparse(first.X):
        ours, theirs = ("sparse", "dense") if is_sparse(task.X) else ("dense", "sparse")
        detail = f"{subject} {ours} rows in one dataset and {theirs} ones in another"
        reject("different-columns", f"{detail}; upload one of them again", task=task.name)
    _check_same_columns(task, first, left_out)
    if _label_kind(task.y) != _label_kind(first.y):
        detail = (
            f"{subject} {_label_kind(first.y)} in one dataset and {_label_kind(task.y)} in another"
        )
        reject(
            "different-targets",
            f"{detail}; upload one of them again with the same kind",
            task=task.name,
        )
    if (task.groups is None) != (first.groups is None):
        detail = f"{subject} groups in only one of the datasets; upload the other again"
        reject("different-groups", detail, task=task.name)
    if (task.weights is None) != (first.weights is None):
        detail = f"{subject} weights in only one of the datasets; upload the other again"
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


def check_groups(sources: Sequence[SelectedDataset], tasks: Sequence[Task]) -> None:
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
