"""Parser of .npz: arrays ``<task>/X``, ``<task>/y``, ``<task>/C``, or one table of all tasks.

A table has the rows of all tasks in ``X``, and the name of each row's task in ``task``. Names of
the columns are in ``feature_names``, or in ``<task>/feature_names`` if tasks differ. NaN in X is a
missing value; rows whose y is NaN have no target. In a y of text, the text that NumPy writes for
a missing value, such as 'nan', has the same meaning. A sparse X consists of the arrays ``X.data``,
``X.indices``, ``X.indptr`` and ``X.shape`` (:mod:`sparse_arrays`); it has no missing values.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.task_values import label_problem
from algorithms.interface.tasks import Task
from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.numerics.sparse_rows import as_canonical, is_sparse
from algorithms.wrappers.preparation.columns import Column
from service.datasets.formats.array_names import ChosenArrays, choose_arrays
from service.datasets.formats.npz_archive import Arrays, read_archive
from service.datasets.formats.options import COLUMN_OPTIONS, Limits, ReadOptions
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.row_extras import RowExtras
from service.datasets.formats.sparse_arrays import join_sparse
from service.datasets.formats.validation import (
    SplitTasks,
    Target,
    aligned,
    as_targets,
    check_counts,
    check_name,
    covariance_task,
    missing_targets,
    rows_task,
    split_rows,
    tasks_of_targets,
)
from service.datasets.issues import Rejected, ValidationIssues, reject

#: Maximum number of columns without values that have a note.
_MAX_NOTES: Final = 20
#: Arrays with a value for each row besides the targets.
_EXTRAS: Final = ("groups", "sample_weight")
_TABLE: Final = frozenset({"X", "task", "tasks", "y", *_EXTRAS, "feature_names"})
_NAMES: Final = "feature_names"
_PARTS: Final = frozenset({"X", "y", "C", *_EXTRAS, _NAMES})
_LAYOUTS: Final = (
    "expected '<task>/X' (and '<task>/y', '<task>/groups', '<task>/sample_weight', "
    "'<task>/feature_names') or '<task>/C' for each task, or one table in 'X' and 'task' (and 'y', "
    "'groups', 'sample_weight', 'feature_names'), or 'X' and targets of several tasks in the "
    "columns of 'y'; a sparse X as 'X.data', 'X.indices', 'X.indptr' "
    "and 'X.shape'"
)
#: Text that NumPy writes for missing values among text: NaN, None and pandas.NA.
MISSING_TEXTS: Final = ("nan", "None", "<NA>")


def read_parts(path: Path, options: ReadOptions, limits: Limits) -> ChosenArrays:
    """Return the arrays of an .npz file by task and part."""
    chosen = {entry.partition(":")[0] for entry in options.variables}
    arrays = read_archive(path, limits, size=path.stat().st_size, chosen=chosen)
    return parts_of(arrays, options, limits)


def parts_of(arrays: Arrays, options: ReadOptions, limits: Limits) -> ChosenArrays:
    """Return named arrays by task and part, with each sparse matrix as one."""
    arrays = join_sparse(arrays, limits)
    if not arrays:
        reject("empty-file", f"the file contains no arrays; {_LAYOUTS}")
    chosen = choose_arrays(arrays, options, _LAYOUTS)
    arrays.clear()  # only the arrays of one task are in memory twice
    return chosen


def tasks_of_parts(chosen: ChosenArrays, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks of arrays by task and part, with notes about their choice."""
    arrays, _, notes = chosen
    _check_options(options)
    read = _from_table if "X" in arrays or "task" in arrays else _from_parts
    split = read(arrays, options, limits, notes)
    tasks = split.tasks
    if not tasks:
        reject("no-rows", "no row has a target: all of them are NaN")
    notes += _empty_columns([*tasks, *split.unlabelled])
    names = dict.fromkeys(name for task in tasks for name in task.feature_names or ())
    columns = [Column(name) for name in names]
    return Parsed.of(tasks, columns, notes=tuple(notes), unlabelled=split.unlabelled)


def _empty_columns(tasks: Sequence[Task]) -> list[str]:
    """Return notes about columns that have no value in any task; tasks without names share them."""
    has_values: dict[str | int, bool] = {}
    for task in tasks:
        if task.input == "rows":
            labels: Sequence[str | int] = task.feature_names or range(task.n_features)
            is_known = np.ones(task.n_features, dtype=bool)  # sparse rows miss no values
            if not is_sparse(task.X):
                is_known = ~np.isnan(np.fmin.reduce(task.X))
            for label, is_filled in zip(labels, is_known.tolist(), strict=True):
                has_values[label] = is_filled or has_values.get(label, False)
    return [
        f"column {label!r} has no values and is the same in all rows of a fit; remove it"
        for label, is_filled in has_values.items()
        if not is_filled
    ][:_MAX_NOTES]


def _check_options(options: ReadOptions) -> None:
    issues = ValidationIssues()
    for name in COLUMN_OPTIONS:
        if getattr(options, name):
            detail = (
                f"{name} applies to tables only; in files of arrays, the names define the layout"
            )
            issues.add("unused-option", detail, parameter=f"query:{name}")
    issues.check()


def _from_table(
    arrays: Arrays, options: ReadOptions, limits: Limits, notes: list[str]
) -> SplitTasks:
    check_table(arrays)
    X = _as_rows(arrays["X"], "X", None, limits)
    labels = arrays.get("task")
    if labels is None:
        return _from_targets(X, arrays, options, limits, notes)
    y = arrays.get("y")
    target = None if y is None else _target(y, "y", None, options, notes)
    features = _feature_names(arrays.get(_NAMES), X.shape[1], limits)
    unique_labels, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    check_counts(len(unique_labels), X.shape[1], limits)
    order = np.argsort(first)  # tasks keep the order of their first rows
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    names = _task_names([str(unique_labels[i]) for i in order], limits)
    extras = _extras(arrays, None)
    split = split_rows(
        X, position[codes], names, target=target, feature_names=features, extras=extras
    )
    names_left = {task.name for task in split.tasks}
    notes += [_no_targets(name) for name in names if name not in names_left]
    return split


def _from_targets(
    X: NDArray[Any], arrays: Arrays, options: ReadOptions, limits: Limits, notes: list[str]
) -> SplitTasks:
    """Return a task for each column of targets of the same rows, or one task without targets."""
    y = arrays.get("y")
    columns = [] if y is None else [*y.reshape(X.shape[0], -1).T]
    names = ["X" if y is None else "y"]
    if len(columns) > 1:
        labels = arrays.get("tasks", np.arange(1, len(columns) + 1))
        if labels.shape != (len(columns),):
            detail = f"'tasks' has shape {labels.shape}, but 'y' {len(columns)} columns of targets"
            reject("wrong-shape", f"{detail}; one name for each is expected")
        names = _task_names([str(label) for label in labels.tolist()], limits)
    else:
        notes.append(f"there is no array 'task': all rows are one task, '{names[0]}'")
    check_counts(len(names), X.shape[1], limits)
    features = _feature_names(arrays.get(_NAMES), X.shape[1], limits)
    extras = _extras(arrays, None)
    if not columns:
        codes = np.zeros(X.shape[0], np.int32)
        return split_rows(X, codes, names, target=None, feature_names=features, extras=extras)
    targets = {
        name: _target(np.ascontiguousarray(column), f"y ({name})", None, options, notes)
        for name, column in zip(names, columns, strict=True)
    }
    notes += [_no_targets(name) for name, target in targets.items() if not len(target.values)]
    return tasks_of_targets(X, targets, feature_names=features, extras=extras)


def check_table(arrays: Arrays) -> None:
    """Raise Rejected unless arrays are a table, with one entry for each row."""
    issues = ValidationIssues()
    for name in sorted(arrays.keys() - _TABLE):
        issues.add("unexpected-array", f"unexpected array '{name}' in a table; {_LAYOUTS}")
    if "X" not in arrays:
        issues.add("missing-array", f"a table requires the array 'X'; {_LAYOUTS}")
    issues.check()
    X = arrays["X"]
    if X.ndim != 2:
        reject("wrong-shape", f"'X' needs shape (rows, columns), got {X.shape}")
    if X.shape[0] == 0:
        reject("no-rows", f"'X' has shape {X.shape}; at least one row is required")
    for name in ("task", "y", *_EXTRAS):
        shape = arrays[name].shape if name in arrays else X.shape[:1]
        has_columns = name == "y" and "task" not in arrays and len(shape) == 2
        if (shape[:1] if has_columns else shape) != X.shape[:1]:
            detail = f"'{name}' needs shape {X.shape[:1]}, one entry per row of 'X', got"
            issues.add("wrong-shape", f"{detail} {shape}")
    labels = arrays.get("task")
    if labels is not None and labels.dtype.kind not in "Uiu":
        detail = f"'task' has dtype {labels.dtype}; name tasks by text or integers"
        issues.add("unsupported-dtype", detail)
    issues.check()


def _task_names(texts: list[str], limits: Limits) -> list[str]:
    issues = ValidationIssues()
    names: dict[str, None] = {}
    for text in texts:
        try:
            name = check_name(text, limits, what="task")
        except Rejected as rejected:
            issues.extend(rejected)
            continue
        if name in names:
            detail = f"two tasks are named '{name}' (in different Unicode forms)"
            issues.add("duplicate-task", detail, task=name)
        names[name] = None
    issues.check()
    return list(names)


def _from_parts(
    arrays: Arrays, options: ReadOptions, limits: Limits, notes: list[str]
) -> SplitTasks:
    shared = {_NAMES: arrays.pop(_NAMES)} if _NAMES in arrays else {}
    parts = _group(arrays, limits)
    issues = ValidationIssues()
    split = SplitTasks([], [])
    for name, task_arrays in parts.items():
        try:
            _add_task(
                name, shared | task_arrays, options, limits, split=split, issues=issues, notes=notes
            )
        except Rejected as rejected:
            issues.extend(rejected)
        task_arrays.clear()  # frees memory: only the arrays of one task are in memory twice
    issues.check()
    tasks = aligned([*split.tasks, *split.unlabelled])
    return SplitTasks(tasks[: len(split.tasks)], tasks[len(split.tasks) :])


def _group(arrays: Arrays, limits: Limits) -> dict[str, Arrays]:
    """Move the arrays to a dictionary by task and part."""
    issues = ValidationIssues()
    parts: dict[str, Arrays] = {}
    for name in list(arrays):
        task, _, part = name.rpartition("/")
        if not task or part not in _PARTS:
            issues.add("unexpected-array", f"array '{name}' does not belong to a task; {_LAYOUTS}")
            continue
        parts.setdefault(task, {})[part] = arrays.pop(name)
    issues.check()
    if not parts:
        reject("missing-array", f"the archive contains no task; {_LAYOUTS}")
    check_counts(len(parts), 0, limits)
    names = _task_names(list(parts), limits)
    return dict(zip(names, parts.values(), strict=True))


def _add_task(
    name: str,
    arrays: Arrays,
    options: ReadOptions,
    limits: Limits,
    *,
    split: SplitTasks,
    issues: ValidationIssues,
    notes: list[str],
) -> None:
    """Add the task of some arrays, and a task of its rows without a target."""

    def add(tasks: list[Task], X: NDArray[Any], y: Any, extras: RowExtras) -> None:
        task = rows_task(name, X, y, features, issues, extras=extras)
        if task is not None:
            tasks.append(task)

    data_arrays = {part: array for part, array in arrays.items() if part not in (_NAMES, *_EXTRAS)}
    extras = _extras(arrays, name)
    if data_arrays.keys() == {"C"}:
        C = _as_numbers(data_arrays["C"], f"{name}/C", name)
        width = C.shape[-1] if C.ndim else 0
        check_counts(1, width, limits)
        features = _feature_names(arrays.get(_NAMES), width, limits, task=name)
        task = covariance_task(name, C, features, issues, extras=extras)
        split.tasks += [] if task is None else [task]
        return
    if "C" in data_arrays or "X" not in data_arrays:
        has = " and ".join(sorted(data_arrays or arrays))
        detail = f"task '{name}' has {has}; expected X (and y), or only C"
        reject("missing-array" if "X" not in data_arrays else "unexpected-array", detail, task=name)
    X = _as_rows(data_arrays["X"], f"{name}/X", name, limits)
    y = data_arrays.get("y")
    if y is not None and y.shape != X.shape[:1]:
        detail = f"'{name}/y' needs shape {X.shape[:1]}, one entry per row of X, got {y.shape}"
        reject("wrong-shape", detail, task=name)
    features = _feature_names(arrays.get(_NAMES), X.shape[1], limits, task=name)
    if y is None:
        add(split.tasks, X, None, extras)
        return
    target = _target(y, f"{name}/y", name, options, notes)
    if not len(target.values):
        notes.append(_no_targets(name))
        return
    _check_lengths(name, extras, X.shape[0])
    add(split.tasks, target.take(X), target.values, extras.take(target.rows))
    unlabelled_rows = target.unlabelled(X.shape[0])
    if len(unlabelled_rows):
        add(split.unlabelled, X[unlabelled_rows], None, extras.take(unlabelled_rows))


def _target(
    y: NDArray[Any], name: str, task: str | None, options: ReadOptions, notes: list[str]
) -> Target:
    """Return the targets of the rows that have one, and add a note about the others."""
    is_missing = np.zeros(y.shape, np.bool_)
    if y.dtype.kind == "f":
        _check_finite(y, name, task, allows_missing=True)
        is_missing = np.isnan(y)
    elif y.dtype.kind == "U":
        is_missing = np.isin(y, MISSING_TEXTS)
    if not is_missing.any():
        return Target(as_targets(y, options.target_kind, task=task))
    rows = np.flatnonzero(~is_missing)
    n_missing = len(y) - len(rows)
    marker = "NaN" if y.dtype.kind == "f" else repr(str(y[is_missing][0]))
    notes.append(missing_targets(n_missing, f"'{name}' ({marker})"))
    return Target(as_targets(y[rows], options.target_kind, task=task), rows)


def _no_targets(task: str) -> str:
    return f"task '{task}' has no targets and is left out"


def _extras(arrays: Arrays, task: str | None) -> RowExtras:
    """Return the groups and weights of the rows; `Task` checks the weights."""
    return RowExtras(_groups(arrays, task), arrays.get("sample_weight"))


def _check_lengths(task: str, extras: RowExtras, n_rows: int) -> None:
    for part, array in (("groups", extras.groups), ("sample_weight", extras.weights)):
        if array is not None and array.shape != (n_rows,):
            detail = f"'{task}/{part}' needs shape {(n_rows,)}, one entry per row of X, got"
            reject("wrong-shape", f"{detail} {array.shape}", task=task)


def _groups(arrays: Arrays, task: str | None) -> NDArray[Any] | None:
    """Return the groups, with labels of text checked; `Task` checks numbers."""
    groups = arrays.get("groups")
    if groups is None or groups.dtype.kind != "U":
        return groups
    for label in np.unique(groups).tolist():
        problem = label_problem(label) if label.strip() else "a group is empty; give it a name"
        if problem is not None:
            reject("invalid-label", f"'groups': {problem}", task=task)
    return groups


def _as_rows(array: NDArray[Any], name: str, task: str | None, limits: Limits) -> NDArray[Any]:
    if array.ndim != 2:
        detail = f"'{name}' needs shape (rows, columns), got {array.shape}"
        reject("wrong-shape", detail, task=task)
    if array.shape[0] == 0:
        reject(
            "no-rows", f"'{name}' has shape {array.shape}; at least one row is required", task=task
        )
    if array.shape[1] == 0:
        detail = f"'{name}' has shape {array.shape}; at least one column is required"
        reject("no-features", detail, task=task)
    check_counts(1, array.shape[1], limits)
    if is_sparse(array):
        _check_numeric(array.data, name, task)
        rows: NDArray[Any] = as_canonical(array)
        return rows
    return _as_numbers(array, name, task, allows_missing=True)


def _as_numbers(
    array: NDArray[Any], name: str, task: str | None, *, allows_missing: bool = False
) -> NDArray[np.float64]:
    _check_numeric(array, name, task)
    values = np.ascontiguousarray(array, dtype=np.float64)
    _check_finite(values, name, task, allows_missing=allows_missing)
    return values


def _check_numeric(array: NDArray[Any], name: str, task: str | None) -> None:
    """Raise Rejected unless an array has numbers that are exact as 64-bit floats."""
    if array.dtype.kind not in "fiub":
        detail = f"'{name}' has dtype {array.dtype}; numbers are required"
        reject("not-a-number", f"{detail}, so convert it with .astype(float)", task=task)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        if largest > MAX_EXACT_INTEGER:
            detail = f"'{name}' contains the integer {largest}, above 2**53; remove columns of ids"
            reject("inexact-integer", detail, task=task)


def _check_finite(
    values: NDArray[Any], name: str, task: str | None, *, allows_missing: bool
) -> None:
    """Raise Rejected with the location of each value that is not finite, or missing."""
    if np.isfinite(values).all():
        return
    issues = ValidationIssues()
    for place in np.argwhere(np.isinf(values) if allows_missing else ~np.isfinite(values)):
        row, *further_indices = (int(i) for i in place)
        column = further_indices[-1] if further_indices else None
        where = f"'{name}', row {row}" + ("" if column is None else f", column {column}")
        value = values[tuple(place)]
        detail = f"{where} is {value}, not a finite number; remove the row"
        issues.add("not-finite", detail, task=task, row=row, column=column)
    issues.check()


def _feature_names(
    names: NDArray[Any] | None, width: int, limits: Limits, *, task: str | None = None
) -> list[str] | None:
    """Return the names of the columns of X, or None if the upload has none."""
    if names is None:
        return None
    where = "" if task is None else f"task '{task}': "
    if names.dtype.kind != "U" or names.shape != (width,):
        actual = f"got {names.dtype} of shape {names.shape}"
        reject("wrong-shape", f"{where}'{_NAMES}' needs {width} texts, {actual}", task=task)
    checked = [
        check_name(str(name).strip(), limits, what="column", place=i)
        for i, name in enumerate(names)
    ]
    duplicate = next((name for name, count in Counter(checked).items() if count > 1), None)
    if duplicate is not None:
        detail = f"{where}two columns are named '{duplicate}'; column names must be unique"
        reject("duplicate-column", detail, task=task, column=duplicate)
    return checked
