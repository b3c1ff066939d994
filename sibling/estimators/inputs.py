"""Tasks from the arguments of ``fit``: arrays or tables, with the task of each row or by task."""

import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_array, validate_data

from algorithms.interface.errors import InvalidData
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.methods import FEATURE_METHODS
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.sparse_rows import is_sparse
from algorithms.wrappers.preparation.columns import Column, unnamed
from algorithms.wrappers.preparation.model import preparation_of
from sibling.estimators.kinds import Kind, as_labels, check_complete
from sibling.estimators.tables import read_new_table, read_tables
from sibling.frames import GROUP, TARGET, WEIGHT, as_entries, is_raw

#: Name of the only task if no names are given.
SOLE_TASK: Final = "all"
#: Checks of all rows. Whether an algorithm or a model takes sparse rows, it says itself.
_OPTIONS: Final[dict[str, Any]] = {
    "dtype": np.float64,
    "ensure_all_finite": "allow-nan",
    "accept_sparse": "csr",
}

Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Given:
    """The tasks of a fit.

    Attributes
    ----------
    columns
        Kinds of the columns; None if all are numbers without missing values.
    classes
        The distinct labels, sorted, in the dtype of the caller; None for other targets.
    task_column
        Name of the column of a data frame that had the task of each row.
    left_out
        Names of columns that the model does not use: columns of text or without values, targets,
        groups and weights.
    target_name
        Name of the targets, if they are a column of a data frame.
    """

    tasks: TaskSet
    columns: tuple[Column, ...] | None
    classes: NDArray[Any] | None
    task_column: str = DEFAULT_TASK_COLUMN
    left_out: frozenset[str] = frozenset()
    target_name: str | None = None

    @property
    def kind(self) -> Kind | None:
        """Kind of the targets; None if there are none, or they are ignored."""
        target = self.tasks.tasks[0].target
        return None if target == "none" else target


def read_tasks(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    tasks: Any,
    groups: Any,
    sample_weight: Any,
    needs: Needs,
    kind: Kind | None,
    min_rows: int,
) -> Given:
    """Return the tasks of a fit; the estimator gets the numbers and names of their columns.

    Parameters
    ----------
    min_rows
        Minimum number of rows of a single task.

    Raises
    ------
    ValueError
        The values cannot be used, or their lengths differ.
    """
    if is_by_task(X):
        if tasks is not None:
            raise InvalidData("X has the rows by task, so tasks= must be left out")
        return _read_by_task(X, y, groups, sample_weight, kind)
    check_by_task(X, y, "y")
    check_by_task(X, groups, "groups")
    check_by_task(X, sample_weight, "sample_weight")
    if isinstance(tasks, str) and tasks in (_frame_names(X) or ()):
        raise InvalidData(
            f"tasks={tasks!r} is the name of a column of X; pass the column itself, without it in "
            f"X: tasks=X[{tasks!r}], X without '{tasks}' (in pandas: tasks=X.pop({tasks!r}))"
        )
    n_min = min_rows if tasks is None else 1
    named, target = [y, groups, sample_weight], y
    columns = None
    if is_raw(X):
        rows, columns, _ = read_tables([X])
        y = None if kind is None else _check_targets(y, rows)
    else:
        rows, y = _read_rows(estimator, X, y, kind, needs, n_min=n_min)
    feature_names = _names_of(estimator) if columns is None else names_of_columns(columns)
    names, codes = read_names(tasks, rows.shape[0])
    labels = None if groups is None else _as_groups(groups, rows.shape[0])
    weights = None if sample_weight is None else _as_weights(sample_weight, rows.shape[0])
    targets, classes = _encode(y, kind, weights)
    made = []
    for code, name in enumerate(names):
        in_task = slice(None) if len(names) == 1 else np.flatnonzero(codes == code)
        made.append(
            Task.from_rows(
                name,
                rows[in_task],
                y=None if targets is None else targets[in_task],
                feature_names=feature_names,
                groups=None if labels is None else labels[in_task],
                weights=None if weights is None else weights[in_task],
                allows_missing=True,
            )
        )
    kinds = _kinds_of(made, columns)
    left_out = _left_out([X], named, feature_names)
    column = _column_of(tasks, X)
    return Given(TaskSet(tuple(made)), kinds, classes, column, left_out, _label_of(target))


def _left_out(
    frames: Iterable[Any], others: Iterable[Any], used: tuple[str, ...] | None
) -> frozenset[str]:
    """Return the names of columns of frames, targets, groups and weights that are not used."""
    names = {name for name in map(_label_of, others) if name is not None}
    if used is not None:  # else the columns of frames were used by position
        names |= {name for frame in frames for name in _frame_names(frame) or ()}
    return frozenset(names.difference(used or ()))


def _label_of(values: Any) -> str | None:
    """Return the name of a column of a data frame; None for other values and names."""
    name = getattr(values, "name", None)
    return name if isinstance(name, str) else None


def _column_of(tasks: Any, X: Any) -> str:
    """Return the name of the column that has the tasks; the default for other values."""
    name = getattr(tasks, "name", None)
    is_name = isinstance(name, str) and bool(name.strip()) and name not in (_frame_names(X) or ())
    return clean_name(name) if is_name else DEFAULT_TASK_COLUMN


def split_tasks(X: Any, tasks: Any, *, column: str, others: Container[str]) -> tuple[Any, Any]:
    """Return rows without a column that has the task of each row, and the tasks.

    Parameters
    ----------
    tasks
        Tasks that were given; None: the column has them.
    column
        Name of the column in the training table; the column may also be named ``task``.
    others
        Other columns of the model.

    Raises
    ------
    ValueError
        A row has another task in the column than was given.
    """
    names = _frame_names(X) or ()
    labels = {unicodedata.normalize("NFC", name.strip()): name for name in names}
    for wanted in dict.fromkeys((column, DEFAULT_TASK_COLUMN)):
        name = labels.get(wanted)
        if name is None or name in others:
            continue
        column_tasks = np.asarray(X[name])
        if tasks is not None:
            _check_same_tasks(column_tasks, tasks, name)
        tasks = column_tasks
        X = _without(X, {name})
    return X, tasks


def _check_same_tasks(column_tasks: NDArray[Any], tasks: Any, name: str) -> None:
    passed_tasks = [tasks] * len(column_tasks) if np.ndim(tasks) == 0 else list(tasks)
    for row, (mine, theirs) in enumerate(zip(column_tasks.tolist(), passed_tasks, strict=False)):
        if clean_name(mine) != clean_name(theirs):
            raise InvalidData(
                f"row {row} has the task '{mine}' in column '{name}', but tasks= has '{theirs}'; "
                "correct it, or leave tasks= out",
                row=row,
                column=name,
            )


def is_by_task(values: Any) -> bool:
    """Return whether values are given by task; a kind of sparse matrices is a mapping, too."""
    return isinstance(values, Mapping) and not issparse(values)


def check_by_task(X: Any, other: Any, what: str) -> None:
    """Raise InvalidData if only one of X and another argument is by task, or the tasks differ."""
    if other is None or (not is_by_task(X) and not is_by_task(other)):
        return
    if not is_by_task(X):
        raise InvalidData(f"{what} is by task, but X is not; pass X by task, too")
    if not (is_by_task(other) and other.keys() == X.keys()):
        raise InvalidData(f"X has the rows by task; pass {what} by task, too, for these tasks")


def read_names(tasks: Any, n_rows: int) -> tuple[list[str], Codes]:
    """Return the names of tasks in the order of their first rows, and the position of each row's.

    Parameters
    ----------
    tasks : (n_rows,), or the name of the task of all rows; None for a single task without a name
        Text or integers.

    Raises
    ------
    ValueError
        There is not one name for each row, or a name is missing or of another type.
    """
    if tasks is None or _is_name(tasks):
        return [SOLE_TASK if tasks is None else clean_name(tasks)], np.zeros(n_rows, np.intp)
    labels = np.asarray(tasks)
    if labels.dtype.kind == "U":
        labels = as_entries(tasks)
    if labels.ndim != 1 or len(labels) != n_rows:
        raise InvalidData(
            f"expected the task of each of the {n_rows} rows as tasks, got shape {labels.shape}"
        )
    if labels.dtype.kind not in "iuU":
        for row, label in enumerate(labels.tolist()):
            if not _is_name(label):
                raise InvalidData(
                    f"the task of row {row} is {label!r}; expected text or an integer", row=row
                )
    listed = labels.tolist()
    cleaned = {label: clean_name(label) for label in set(listed)}
    texts = np.array([cleaned[label] for label in listed])
    names, first, codes = np.unique(texts, return_index=True, return_inverse=True)
    order = np.argsort(first)
    position = np.empty(len(names), np.intp)
    position[order] = np.arange(len(names))
    return [str(names[i]) for i in order], position[codes]


def read_new_rows(
    estimator: Any, X: Any, method: str, *, expected: tuple[str, ...] | None
) -> NDArray[np.float64]:
    """Return rows for a method of the model as numbers.

    Parameters
    ----------
    expected
        Names of the columns, where tasks have columns of their own.

    Raises
    ------
    ValueError
        The columns differ from the columns of the training rows.
    """
    check_no_times(X, "X")
    if method not in FEATURE_METHODS:
        return np.asarray(check_array(X, **_OPTIONS | {"accept_sparse": False}))
    left_out = estimator._left_out  # noqa: SLF001 - of the estimators
    X = _without(X, left_out or ())
    read_table = partial(read_new_table, allows_others=left_out is None)
    columns = raw_columns(estimator.model_)
    if columns is not None:
        return read_table(X, columns)
    rows: NDArray[np.float64]
    known = _names_of(estimator)
    if known is not None and is_raw(X) and _frame_names(X) == known:  # text of numbers
        preparation = preparation_of(estimator.model_)
        plain = tuple(map(Column, known))
        return read_table(X, plain if preparation is None else preparation.parts[0].columns)
    if hasattr(estimator, "n_features_in_"):
        rows = validate_data(estimator, X, reset=False, **_OPTIONS)
        return rows
    names = _frame_names(X)
    if expected is not None and names is not None and names != expected:
        raise InvalidData(
            f"expected the columns {', '.join(expected)}, in this order, got {', '.join(names)}"
        )
    if expected is not None and names is not None and is_raw(X):
        return read_table(X, tuple(map(Column, expected)))
    rows = check_array(X, **_OPTIONS)
    return rows


def _without(X: Any, left_out: Container[str]) -> Any:
    """Return rows without the columns of a data frame that training left out."""
    labels = [name for name in _frame_names(X) or () if name in left_out]
    if not labels:
        return X
    return X.drop(columns=labels) if hasattr(X, "iloc") else X.drop(labels)


def read_new_task(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    task: str | int,
    groups: Any,
    sample_weight: Any,
    kind: Kind | None,
) -> Given:
    """Return a task to be added to the model of an estimator.

    Parameters
    ----------
    kind
        Kind of the targets; None: they are ignored.

    Raises
    ------
    ValueError
        The values cannot be used, or the columns differ from the columns of the other tasks.
    """
    rows = read_new_rows(estimator, X, "transform", expected=None)
    weights = None if sample_weight is None else _as_weights(sample_weight, rows.shape[0])
    if kind is not None:
        check_complete(y, "target")
    targets, classes = _encode(y, kind, weights)
    names = _names_of(estimator)
    if kind is not None and raw_columns(estimator.model_) is not None:
        _check_targets(y, rows)
    new = Task.from_rows(
        clean_name(task),
        rows,
        y=targets,
        feature_names=_frame_names(X) if names is None else names,
        groups=None if groups is None else _as_groups(groups, rows.shape[0]),
        weights=weights,
        allows_missing=True,
    )
    return Given(TaskSet((new,)), _kinds_of([new], raw_columns(estimator.model_)), classes)


def names_of_columns(columns: Sequence[Column]) -> tuple[str, ...] | None:
    """Return the names of the columns of a preparation; None if they were not named."""
    names = tuple(column.name for column in columns)
    return None if names == tuple(column.name for column in unnamed(len(names))) else names


def raw_columns(model: Model) -> tuple[Column, ...] | None:
    """Return the columns of a model that takes other values than numbers; None for others."""
    preparation = preparation_of(model)
    if preparation is None:
        return None
    columns = preparation.parts[0].columns
    return columns if any(column.kind != "number" for column in columns) else None


def _check_targets(y: Any, rows: NDArray[np.float64]) -> NDArray[Any]:
    """Return the targets of a table after the checks that scikit-learn makes of arrays."""
    targets = column_or_1d(y, warn=True)
    check_consistent_length(rows, targets)
    assert_all_finite(targets, input_name="y")
    return np.asarray(targets)


def _read_rows(
    estimator: Any, X: Any, y: Any, kind: Kind | None, needs: Needs, *, n_min: int
) -> tuple[NDArray[np.float64], Any]:
    """Return rows and targets that scikit-learn's checks accept."""
    check_no_times(X, "X")
    options = _OPTIONS | {"order": "C", "ensure_min_samples": n_min}
    if kind is None and needs.target == "none":
        return validate_data(estimator, X, **options), None
    rows, targets = validate_data(estimator, X, y, y_numeric=kind == "numbers", **options)
    return rows, targets


def _read_by_task(
    X: Mapping[Any, Any], y: Any, groups: Any, sample_weight: Any, kind: Kind | None
) -> Given:
    """Return tasks of rows, or of covariance matrices, that are given by task."""
    for other, what in ((y, "y"), (groups, "groups"), (sample_weight, "sample_weight")):
        check_by_task(X, other, what)
    done: dict[int, tuple[NDArray[np.float64], tuple[str, ...] | None]] = {}
    columns = None
    if any(map(is_raw, X.values())):
        all_rows, columns, counts = read_tables(list(X.values()))
        parts = np.split(all_rows, np.cumsum(counts)[:-1])
        named = names_of_columns(columns)
        done = {id(frame): (part, named) for frame, part in zip(X.values(), parts, strict=True)}
    targets, classes = _encode_by_task(y, kind, sample_weight)
    made = []
    for label, values in X.items():
        name = clean_name(label)
        if id(values) not in done:  # tasks may share one array
            done[id(values)] = _read_task_rows(values, name)
        rows, names = done[id(values)]
        labels = None if groups is None else _as_groups(groups[label], rows.shape[0], name)
        weights = None
        if sample_weight is not None:
            weights = _as_weights(sample_weight[label], rows.shape[0])
        if rows.ndim == 3:
            made.append(
                Task.from_covariances(
                    name, rows, feature_names=names, groups=labels, weights=weights
                )
            )
            continue
        made.append(
            Task.from_rows(
                name,
                rows,
                y=None if targets is None else targets[label],
                feature_names=names,
                groups=labels,
                weights=weights,
                allows_missing=True,
            )
        )
    used = tuple(name for task in made for name in task.feature_names or ())
    left_out = _left_out(X.values(), (), used)
    if any(_frame_names(rows) for rows in X.values()):  # as in an upload of frames
        others = {TARGET: y, GROUP: groups, WEIGHT: sample_weight}
        left_out |= {name for name, values in others.items() if values is not None}
    return Given(TaskSet(tuple(made)), _kinds_of(made, columns), classes, left_out=left_out)


def _read_task_rows(values: Any, task: str) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    name = f"X of task '{task}'"
    check_no_times(values, name)
    checked = check_array(values, **_OPTIONS, order="C", allow_nd=True, input_name=name)
    return checked, _frame_names(values)


def _frame_names(values: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame; None for arrays and names that are not text."""
    labels = getattr(values, "columns", ())
    # the attribute ``columns`` of an Arrow table holds the values
    is_arrow = hasattr(values, "column_names") and not hasattr(values, "iloc")
    names = tuple(values.column_names if is_arrow else labels)
    return names if names and all(isinstance(name, str) for name in names) else None


def _names_of(estimator: Any) -> tuple[str, ...] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(names)


def _kinds_of(
    tasks: Sequence[Task], columns: tuple[Column, ...] | None
) -> tuple[Column, ...] | None:
    """Return the kinds of columns; None if all are plain numbers and no value is missing."""
    is_plain = all(column == Column(column.name) for column in columns or ())
    is_complete = all(is_sparse(task.X) or not np.isnan(task.X).any() for task in tasks)
    return None if is_plain and is_complete else columns or ()


def _encode(
    y: Any, kind: Kind | None, weights: Any
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return targets as tasks have them, and the distinct labels of rows of positive weight."""
    if y is None or kind is None:
        return None, None
    values = np.asarray(y)
    if kind == "classes":
        # tasks report other lengths
        is_counted = None if np.shape(weights) != values.shape else np.asarray(weights) > 0
        counted = values if is_counted is None else values[is_counted]
        return as_labels(values), np.unique(counted)
    check_no_times(values, "y")
    return values.astype(np.float64), None


def check_no_times(values: Any, what: str) -> None:
    """Raise InvalidData for an array of dates or durations, whose numbers depend on their unit."""
    if getattr(getattr(values, "dtype", None), "kind", None) in ("m", "M"):
        raise InvalidData(
            f"{what} has values of type {values.dtype}; expected numbers, such as days: in pandas, "
            "durations.dt.total_seconds() / 86400"
        )


def _encode_by_task(
    y: Mapping[Any, Any] | None, kind: Kind | None, weights: Mapping[Any, Any] | None
) -> tuple[dict[Any, NDArray[Any]] | None, NDArray[Any] | None]:
    if y is None or kind is None:
        return None, None
    pairs = {
        name: _encode(values, kind, None if weights is None else weights[name])
        for name, values in y.items()
    }
    labels = [classes for _, classes in pairs.values() if classes is not None]
    encoded = {name: values for name, (values, _) in pairs.items() if values is not None}
    return encoded, np.unique(np.concatenate(labels)) if labels else None


def _as_groups(groups: Any, n_rows: int, task: str | None = None) -> NDArray[Any]:
    labels = np.asarray(groups)
    if labels.shape != (n_rows,):
        raise InvalidData(
            f"expected the group of each of the {n_rows} rows, got shape {labels.shape}"
        )
    check_complete(groups, "group", task=task)
    return labels.astype(str) if labels.dtype.kind == "O" else labels


def _as_weights(weights: Any, n_rows: int) -> NDArray[np.float64]:
    """Return the weights of rows, whose values a task checks; one number holds for all rows."""
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData("expected the weights of rows as numbers in sample_weight") from None
    check_no_times(np.asarray(weights), "sample_weight")
    if values.ndim == 0:
        values = np.full(n_rows, float(values))
    if values.shape != (n_rows,):
        raise InvalidData(
            f"expected the weight of each of the {n_rows} rows as sample_weight, got shape "
            f"{values.shape}"
        )
    return values


def clean_name(name: Any) -> str:
    """Return the name of a task, which is text or an integer, as datasets have it.

    Raises
    ------
    InvalidData
        The name is empty or of another type.
    """
    if not _is_name(name):
        raise InvalidData(f"the name of a task is {name!r}; expected text or an integer")
    text = unicodedata.normalize("NFC", str(name).strip())
    if not text:
        raise InvalidData("the name of a task is empty; expected text or an integer")
    return text


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int | np.integer) and not isinstance(value, bool)
