"""Distributions of the values of columns and targets, small enough for a manifest."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task
from algorithms.numerics.sparse_rows import column_statistics, is_sparse
from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column

#: First columns of a task whose distributions are kept.
MAX_COLUMNS: Final = 100
#: First rows among which distinct values are counted, since that sorts them.
MAX_ROWS_COUNTED: Final = 100_000
#: Equal intervals of a histogram.
N_BINS: Final = 10
#: Most frequent classes that are listed.
MAX_CLASSES: Final = 50
_BLOCK_VALUES: Final = 2**20
#: Values of all tasks that are described together.
_MAX_VALUES: Final = 2**21

#: A value as it was uploaded.
Value = float | str | bool | None


def task_columns(
    task: Task, known: Sequence[Column] | None, *, n_max: int = MAX_COLUMNS
) -> list[Column]:
    """Return the first columns of a task, in its order; none for covariances.

    Parameters
    ----------
    known
        Kinds of the columns of all tasks; None if all are numbers.
    """
    if task.input == "covariances":
        return []
    n_shown = min(task.n_features, n_max)
    names = task.feature_names or [str(j) for j in range(n_shown)]
    kinds = {column.name: column for column in known or ()}
    return [kinds.get(name, Column(name)) for name in names[:n_shown]]


def summarise(X: NDArray[np.float64], columns: Sequence[Column]) -> dict[str, Any]:
    """Return statistics of the known values of each column.

    Statistics of a column without values, and infinite ones, are None.

    Parameters
    ----------
    X : (n_samples, n_features)
        NaN is a missing value. Sparse rows have none.
    columns
        The first columns, whose distributions are added if there are any: the number of distinct
        values, and the number of rows with each level of a category, or in each of :data:`N_BINS`
        equal intervals from the smallest to the largest value.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        statistics = _statistics_of_sparse(X) if is_sparse(X) else _statistics(X)
    summary: dict[str, Any] = {
        name: [float(value) if np.isfinite(value) else None for value in values]
        for name, values in statistics.items()
    }
    if columns:
        first = X[:, : len(columns)]
        summary["n_counted"] = min(X.shape[0], MAX_ROWS_COUNTED)
        summary["distinct"] = _count_distinct(first)
        summary["counts"] = _count_values(first, columns, statistics["min"], statistics["max"])
    return summary


def _statistics(X: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    low, high = X.min(0), X.max(0)
    is_complete = not np.isnan(low).any()
    if is_complete:
        n_known = np.full(len(low), len(X))
    else:
        n_known = len(X) - sum(np.isnan(part).sum(0) for part in blocks(X))
        low, high = np.fmin.reduce(X), np.fmax.reduce(X)
    mean = X.mean(0) if is_complete else np.nansum(X, 0) / n_known
    total = np.sum if is_complete else np.nansum  # the latter copies
    squares = sum(total((part - mean) ** 2, 0) for part in blocks(X))
    return {
        "min": low,
        "max": high,
        "mean": mean,
        "std": np.sqrt(squares / n_known),
        "missing": len(X) - n_known,
    }


def _statistics_of_sparse(X: Any) -> dict[str, NDArray[Any]]:
    statistics = column_statistics(X)
    return {
        "min": statistics.low,
        "max": statistics.high,
        "mean": statistics.mean,
        "std": statistics.deviation,
        "missing": np.zeros(X.shape[1]),
    }


def _count_distinct(X: NDArray[np.float64]) -> list[int]:
    first: Any = X[:MAX_ROWS_COUNTED]
    ordered = np.array((first.toarray() if is_sparse(first) else first).T, order="C")
    ordered.sort()  # missing values last
    is_known = ~np.isnan(ordered)
    is_new = is_known.copy()
    is_new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return [int(n) for n in is_new.sum(axis=1)]


def _count_values(
    X: NDArray[np.float64],
    columns: Sequence[Column],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> list[list[int]]:
    sizes = [len(c.levels) if c.kind == "category" else N_BINS for c in columns]
    histograms = [np.zeros(size, np.int64) for size in sizes]
    for part in blocks(X):
        for j, values in enumerate(np.ascontiguousarray(part.T)):
            known_values = values[~np.isnan(values)]
            if columns[j].kind == "category":
                bins = known_values[known_values != UNKNOWN_LEVEL].astype(np.intp)
            else:
                bins = _intervals(known_values, low[j], high[j])
            histograms[j] += np.bincount(bins, minlength=sizes[j])
    return [counts.tolist() for counts in histograms]


def describe_targets(task: Task) -> dict[str, Any] | None:
    """Return the rows by class, or the range and mean of targets; None without targets."""
    y = task.y
    if y is None:
        return None
    if task.target == "classes":
        labels, counts = np.unique(y, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:MAX_CLASSES]
        return {"kind": "classes", "counts": {str(labels[i]): int(counts[i]) for i in order}}
    mean = float((y / len(y)).sum())  # does not overflow
    return {"kind": "numbers", "min": float(y.min()), "max": float(y.max()), "mean": mean}


def blocks(X: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the rows in dense blocks, so that temporary arrays stay small."""
    n_rows = max(1, _BLOCK_VALUES // X.shape[1])
    for i in range(0, X.shape[0], n_rows):
        block: Any = X[i : i + n_rows]
        yield block.toarray() if is_sparse(block) else block


def _intervals(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.intp]:
    """Return the interval of each value."""
    low, high = low / 2, high / 2  # halves, as a difference may overflow
    if not len(values) or low == high:
        return np.zeros(len(values), np.intp)
    shares = (values / 2 - low) / (high - low)
    return np.minimum((shares * N_BINS).astype(np.intp), N_BINS - 1)


def column_summary(
    column: Column, j: int, features: Mapping[str, Any], n_rows: int
) -> dict[str, Any]:
    """Return the description of a column from the statistics of all columns of ``n_rows`` rows."""
    is_category = column.kind == "category"
    low, high = (None if is_category else features[name][j] for name in ("min", "max"))
    return {
        "name": column.name,
        "kind": column.kind,
        "missing": features["missing"][j] / n_rows,
        "n_distinct": features["distinct"][j],
        "min": None if low is None else shown_value(column, low),
        "max": None if high is None else shown_value(column, high),
        "counts": features["counts"][j],
        "values": list(column.levels) if is_category else None,
    }


def shown_value(column: Column, number: float) -> Value:
    """Return a stored number as it was uploaded."""
    if np.isnan(number):
        return None
    if column.kind == "boolean":
        return bool(number)
    if column.kind == "category":
        return None if number == UNKNOWN_LEVEL else column.levels[int(number)]
    if column.kind == "date":
        try:
            return datetime.fromtimestamp(float(number), UTC).isoformat().removesuffix("+00:00")
        except (ValueError, OverflowError, OSError):
            return float(number)
    return float(number)


def describe_all(tasks: Sequence[Task], kinds: Sequence[Column] | None) -> dict[str, Any]:
    """Return the columns and the target over the rows of all tasks.

    There are no columns if those of the tasks differ, have no names or are sparse; and no target if
    a task has none, or if they are of several kinds. Of very many rows, the first ones of each task
    are described.

    Parameters
    ----------
    kinds
        Kinds of the columns; None if all are numbers.
    """
    return {"columns": _all_columns(tasks, kinds), "target": _all_targets(tasks)}


def _all_columns(tasks: Sequence[Task], kinds: Sequence[Column] | None) -> list[dict[str, Any]]:
    columns, names = task_columns(tasks[0], kinds), tasks[0].feature_names
    is_same = names is not None and all(task.feature_names == names for task in tasks)
    if not columns or not is_same or any(is_sparse(task.X) for task in tasks):
        return []
    n_rows = max(1, _MAX_VALUES // (len(columns) * len(tasks)))
    return _describe(np.concatenate([task.X[:n_rows, : len(columns)] for task in tasks]), columns)


def _all_targets(tasks: Sequence[Task]) -> dict[str, Any] | None:
    targets = [task.y[: max(1, _MAX_VALUES // len(tasks))] for task in tasks if task.y is not None]
    kinds = {task.target for task in tasks}
    if len(targets) < len(tasks) or len(kinds) > 1:
        return None
    y = np.concatenate(targets)
    if kinds == {"numbers"}:
        return _describe(y[:, None], [Column("target")])[0]
    levels, codes = np.unique(y.astype(str), return_inverse=True)
    if len(levels) > MAX_CLASSES:
        return None
    column = Column("target", "category", tuple(levels.tolist()))
    return _describe(codes[:, None].astype(np.float64), [column])[0]


def _describe(X: NDArray[np.float64], columns: Sequence[Column]) -> list[dict[str, Any]]:
    features = summarise(X, columns)
    return [column_summary(column, j, features, len(X)) for j, column in enumerate(columns)]
