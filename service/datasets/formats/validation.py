"""Validation shared by all formats: names, targets and tasks."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.task_values import has_forbidden_character, label_problem
from algorithms.interface.tasks import Task
from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.invalid_column import shown
from algorithms.wrappers.preparation.text_values import is_inexact, read_number
from service.datasets.formats.options import Limits, TargetKind
from service.datasets.formats.row_extras import NO_EXTRAS, RowExtras
from service.datasets.issues import ValidationIssues, reject

Labels = NDArray[Any]

#: Use of stored rows without a target, for messages.
USE_WITHOUT_TARGET: Final = "used only by methods that need no targets"


@dataclass(frozen=True, slots=True)
class Target:
    """The targets of a table.

    Attributes
    ----------
    values : (n_known,)
        The targets of the rows that have one.
    rows : (n_known,) or None
        These rows; None for all rows.
    """

    values: Labels
    rows: NDArray[np.intp] | None = None

    def take(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of the rows that have a target."""
        return array if self.rows is None else array[self.rows]

    def unlabelled(self, n_rows: int) -> NDArray[np.intp]:
        """Return the rows without a target, of ``n_rows`` in all."""
        if self.rows is None:
            return np.empty(0, np.intp)
        is_unlabelled = np.ones(n_rows, np.bool_)
        is_unlabelled[self.rows] = False
        return np.flatnonzero(is_unlabelled)


@dataclass(slots=True)
class SplitTasks:
    """The tasks of a table.

    Attributes
    ----------
    tasks
        Tasks with the rows that have a target, or with all rows if none has.
    unlabelled
        Tasks with the remaining rows, without targets; each name is also in ``tasks``.
    """

    tasks: list[Task]
    unlabelled: list[Task]


#: Labels of booleans, as text formats write them.
BOOLEAN_LABELS: Final = ("true", "false")
MAX_CLASSES: Final = 10_000
#: Advice about integer targets above 2**53.
INEXACT_TARGET: Final = (
    "use floats if it may be rounded, or set target_kind=classes if it is a label"
)
_MAX_NAME_SHOWN: Final = 40


def check_name(name: str, limits: Limits, *, what: str, place: int | None = None) -> str:
    """Return a name in Unicode normal form C, or raise Rejected if it is invalid.

    Parameters
    ----------
    what
        Kind of the name for messages: task or column.
    place
        Zero-based number of the column, for names of columns.
    """
    composed = unicodedata.normalize("NFC", name)
    which = f"the {what}" if place is None else f"{what} {place}"
    shown = composed[:_MAX_NAME_SHOWN] + ("..." if len(composed) > _MAX_NAME_SHOWN else "")
    if not composed.strip():
        reject("invalid-name", f"{which} has an empty name", column=place)
    if len(composed) > limits.name_length:
        reject(
            "invalid-name",
            f"{which} {shown!r} has a name of {len(composed)} characters, "
            f"more than {limits.name_length}",
            column=place,
        )
    if has_forbidden_character(composed):
        detail = f"{which} {shown!r} has a control character in its name; remove it"
        reject("invalid-name", detail, column=place)
    return composed


def check_counts(n_tasks: int, n_features: int, limits: Limits) -> None:
    """Raise Rejected if there are more tasks or columns than the limits."""
    if n_tasks > limits.tasks:
        reject("too-many-tasks", f"{n_tasks} tasks exceed the limit of {limits.tasks}")
    if n_features > limits.features:
        detail = f"{n_features} columns exceed the limit of {limits.features}"
        reject("too-many-features", detail)


def check_classes(n_classes: int, **place: Any) -> None:
    """Raise Rejected if there are more classes than a manifest can list."""
    if n_classes > MAX_CLASSES:
        detail = f"the targets have more than {MAX_CLASSES} distinct labels; are they ids?"
        reject("too-many-classes", detail, **place)


def split_rows(
    X: NDArray[np.float64],
    codes: NDArray[np.int32],
    names: Sequence[str],
    *,
    target: Target | None,
    feature_names: Sequence[str] | None,
    extras: RowExtras = NO_EXTRAS,
) -> SplitTasks:
    """Split a table of all tasks into tasks, in the order of names.

    Tasks without any target are left out, if others have targets.

    Parameters
    ----------
    X : (n_rows, n_features)
    codes : (n_rows,)
        Index of each row's task in ``names``.
    """
    if target is not None and target.rows is not None:
        unlabelled_rows = target.unlabelled(X.shape[0])
        labelled = split_rows(
            target.take(X),
            target.take(codes),
            names,
            target=Target(target.values),
            feature_names=feature_names,
            extras=extras.take(target.rows),
        ).tasks
        others = split_rows(
            X[unlabelled_rows],
            codes[unlabelled_rows],
            names,
            target=None,
            feature_names=feature_names,
            extras=extras.take(unlabelled_rows),
        ).tasks
        kept = {task.name for task in labelled}
        return SplitTasks(labelled, [task for task in others if task.name in kept])
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(names) + 1))
    issues = ValidationIssues()
    tasks = []
    for code, name in enumerate(names):
        if ends[code] == ends[code + 1]:
            continue
        rows = as_slice(order[ends[code] : ends[code + 1]])
        targets = None if target is None else target.values[rows]
        task_extras = extras.take(rows)
        tasks.append(rows_task(name, X[rows], targets, feature_names, issues, extras=task_extras))
    issues.check()
    return SplitTasks([task for task in tasks if task is not None], [])


def as_slice(rows: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Return consecutive rows as a slice, which avoids a copy; else return them as they are."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def tasks_of_targets(
    X: NDArray[np.float64],
    targets: Mapping[str, Target],
    *,
    feature_names: Sequence[str] | None,
    extras: RowExtras = NO_EXTRAS,
) -> SplitTasks:
    """Return one task per target, with the rows that have it; complete targets share one X.

    Targets without any value are left out. With a single target, the rows without it are kept; with
    many, copies of such rows would be far larger than the table.

    Parameters
    ----------
    extras
        Groups and weights of all rows of ``X``.
    """
    issues = ValidationIssues()
    tasks = []
    for name, target in targets.items():
        if len(target.values):
            task_extras, rows = extras.take(target.rows), target.take(X)
            tasks.append(
                rows_task(name, rows, target.values, feature_names, issues, extras=task_extras)
            )
    unlabelled_rows = target.unlabelled(X.shape[0]) if len(targets) == 1 else np.empty(0, np.intp)
    unlabelled = None
    if len(unlabelled_rows):
        task_extras = extras.take(unlabelled_rows)
        unlabelled = rows_task(
            name, X[unlabelled_rows], None, feature_names, issues, extras=task_extras
        )
    issues.check()
    return SplitTasks(
        [task for task in tasks if task is not None], [] if unlabelled is None else [unlabelled]
    )


def rows_task(
    name: str,
    X: NDArray[Any],
    y: Labels | None,
    feature_names: Sequence[str] | None,
    issues: ValidationIssues,
    *,
    extras: RowExtras = NO_EXTRAS,
) -> Task | None:
    """Return the task of rows and targets, or None after adding an issue.

    Parameters
    ----------
    X : (n_rows, n_features)
        NaN is a missing value.
    issues
        Collection to which the issue of an invalid task is added.
    """
    try:
        return Task.from_rows(
            name, X, y=y, feature_names=feature_names, allows_missing=True, **extras.options()
        )
    except InvalidData as error:
        _add_issue(issues, error)
        return None


def covariance_task(
    name: str,
    C: NDArray[Any],
    feature_names: Sequence[str] | None,
    issues: ValidationIssues,
    *,
    extras: RowExtras = NO_EXTRAS,
) -> Task | None:
    """Return the task of covariance matrices, or None after adding an issue.

    Parameters
    ----------
    issues
        Collection to which the issue of an invalid task is added.
    """
    try:
        return Task.from_covariances(name, C, feature_names=feature_names, **extras.options())
    except InvalidData as error:
        _add_issue(issues, error)
        return None


def missing_targets(n_missing: int, where: str, *, are_kept: bool = True) -> str:
    """Return the note about rows without a target.

    Parameters
    ----------
    where
        Place of the targets, such as "the target column 'y'".
    are_kept
        Whether the rows are stored without targets.
    """
    rows = "1 row has" if n_missing == 1 else f"{n_missing} rows have"
    subject = "it is" if n_missing == 1 else "they are"
    use = USE_WITHOUT_TARGET if are_kept else "left out"
    return f"{rows} no value in {where}; {subject} {use}"


def aligned(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks, with columns in the order of the first task that has the same names.

    Raises
    ------
    Rejected
        Some tasks have column names and others do not, so their order is unknown.
    """
    unnamed = next((task for task in tasks if task.feature_names is None), None)
    named = next((task for task in tasks if task.feature_names is not None), None)
    if unnamed is not None and named is not None:
        detail = f"task '{named.name}' has column names, task '{unnamed.name}' has none"
        reject(
            "missing-names",
            f"{detail}; name the columns of all tasks or of none",
            task=unnamed.name,
        )
    if named is None:
        return list(tasks)
    order_of: dict[frozenset[str], tuple[str, ...]] = {}
    return [_in_order(task, order_of) for task in tasks]


def _in_order(task: Task, order_of: dict[frozenset[str], tuple[str, ...]]) -> Task:
    names = task.feature_names
    assert names is not None
    order = order_of.setdefault(frozenset(names), names)
    if order == names:
        return task
    position = {name: i for i, name in enumerate(names)}
    return task.select_columns([position[name] for name in order])


def _add_issue(issues: ValidationIssues, error: InvalidData) -> None:
    issues.add("invalid-task", error.message, task=error.task, row=error.row, column=error.column)


def as_targets(values: NDArray[Any], target_kind: TargetKind, *, task: str | None = None) -> Labels:
    """Return targets as floats or as labels.

    Raises
    ------
    Rejected
        The values do not match the target kind.
    """
    kind = values.dtype.kind
    where = "" if task is None else f"task '{task}': "
    if kind == "U":
        if target_kind == "numbers":
            return _read_numbers(values, where, task)
        _check_labels(values, where, task)
        return values
    if kind not in "biuf":
        detail = f"{where}targets of dtype {values.dtype} are not supported; use numbers or text"
        reject("unsupported-dtype", detail, task=task)
    if kind == "b" and target_kind != "numbers":
        return np.where(values, *BOOLEAN_LABELS)
    if target_kind == "classes":
        return _as_labels(values, where, task)
    if kind in "iu":
        _check_exact(values, where, task)
    return values.astype(np.float64)


def _read_numbers(texts: NDArray[Any], where: str, task: str | None) -> Labels:
    """Return targets that are text as numbers."""
    for row, text in enumerate(texts.tolist()):
        number = read_number(text)
        if number is None or not math.isfinite(number) or is_inexact(text):
            detail = f"{where}row {row}: expected an exact and finite number, got {shown(text)}"
            advice = "correct it, or leave out target_kind=numbers to use text as labels"
            reject("not-a-number", f"{detail}; {advice}", task=task, row=row)
    return texts.astype(np.float64)


def _check_exact(values: NDArray[Any], where: str, task: str | None) -> None:
    """Raise Rejected if a target is an integer that a float64 does not hold."""
    is_inexact = (values > MAX_EXACT_INTEGER) | (values < -MAX_EXACT_INTEGER)
    if is_inexact.any():
        row = int(np.flatnonzero(is_inexact)[0])
        detail = f"{where}row {row}: the integer {values[row]} is above 2**53"
        reject("inexact-integer", f"{detail}; {INEXACT_TARGET}", task=task, row=row)


def _check_labels(values: NDArray[Any], where: str, task: str | None) -> None:
    labels = np.unique(values)
    check_classes(len(labels), task=task)
    for label in labels:
        is_blank = not str(label).strip()
        empty = "the target is empty; add a value or remove the row"
        reason = empty if is_blank else label_problem(str(label))
        if reason is not None:
            row = int(np.flatnonzero(values == label)[0])
            code = "empty-cell" if is_blank else "invalid-label"
            reject(code, f"{where}row {row}: {reason}", task=task, row=row)


def _as_labels(values: NDArray[Any], where: str, task: str | None) -> Labels:
    wide = values.astype(np.float64)
    is_label = np.isfinite(wide) & (np.rint(wide) == wide) & (np.abs(wide) < 2.0**62)
    if not is_label.all():
        row = int(np.flatnonzero(~is_label)[0])
        detail = f"{where}row {row}: {values[row]} cannot be a class label; "
        reject(
            "invalid-label",
            f"{detail}labels are text or integers below 2**62",
            task=task,
            row=row,
        )
    check_classes(len(np.unique(values)), task=task)
    return values.astype(np.int64)
