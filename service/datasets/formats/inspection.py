"""A first look at a file that is not stored: its columns, what each may be for, and first rows."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.tasks import Task
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import is_text
from algorithms.wrappers.preparation.texts import Texts
from service.datasets.distributions import (
    MAX_COLUMNS,
    MAX_ROWS_COUNTED,
    column_summary,
    shown_value,
    summarise,
)
from service.datasets.formats.one_sided_groups import find_one_sided
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.proposals import Division, divide, is_id, propose

#: First rows that are shown.
N_ROWS: Final = 20


def inspect_table(
    table: pa.Table,
    X: NDArray[np.float64],
    columns: Sequence[Column],
    *,
    options: ReadOptions,
    reasons: Mapping[str, str],
) -> dict[str, Any]:
    """Return the first columns and rows of a table, and proposals for groups and target.

    Parameters
    ----------
    table
        Text in it has each different text once.
    X : (n_rows, n_columns)
        The columns that can be features, as numbers.
    options
        Task and target that they name are kept.
    reasons
        Why columns cannot be read, by name.
    """
    names = table.column_names[:MAX_COLUMNS]
    places = {column.name: j for j, column in enumerate(columns) if column.name in names}
    first = list(columns[: max(places.values(), default=-1) + 1])
    features = summarise(X[:, : len(first)], first) if first else {}
    described: list[dict[str, Any]] = []
    divisions: dict[str, Division] = {}
    for name in names:
        j = places.get(name)
        column = None if j is None else columns[j]
        values = table.column(name).slice(0, MAX_ROWS_COUNTED)
        codes = _codes_of(values, name) if j is None else _codes(X[:MAX_ROWS_COUNTED, j])
        kind = None if column is None else column.kind
        is_whole = j is None or kind != "number" or bool((np.mod(X[:, j], 1) == 0).all())
        division = divide(codes, name, kind) if is_whole else None
        if division is not None:
            divisions[name] = division
        if column is None or j is None:
            described.append(_left_out(name, codes))
        else:
            described.append(column_summary(column, j, features, len(X)))
        found = described[-1]
        found["reason"] = reasons.get(name)
        found["is_id"] = is_id(name, kind, found["n_distinct"], table.num_rows)
    divisions = dict(sorted(divisions.items(), key=lambda pair: -pair[1].score))
    is_named = DEFAULT_TASK_COLUMN in table.column_names
    task = options.task_column or (DEFAULT_TASK_COLUMN if is_named else None)
    group, target = propose(described, divisions, task)
    target = next(iter(options.target_column), target)
    by_rank = sorted(divisions, key=lambda name: name != group)  # those proposed are first
    two_valued = [c["name"] for c in described if c["name"] in places and c["n_distinct"] == 2]
    without = find_one_sided(
        ((n, _all_codes(table, X, places, n)) for n in by_rank),
        {name: X[:, places[name]] for name in sorted(two_valued, key=lambda name: name != target)},
    )
    return {
        "n_samples": table.num_rows,
        "n_columns": table.num_columns,
        "columns": [
            _with_groups(column, divisions.get(column["name"]), without) for column in described
        ],
        "rows": _rows(table, X, columns, places, names),
        "task_columns": list(divisions),
        "task_column": group,
        "target_column": target,
    }


def inspect_tasks(tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the tasks of a file of arrays, whose roles its names have."""
    kept = ("name", "n_samples", "n_features", "target")
    return {
        "n_samples": sum(task.n_samples for task in tasks),
        "n_columns": max(task.n_features for task in tasks),
        "tasks": [{name: getattr(task, name) for name in kept} for task in tasks],
    }


def _left_out(name: str, codes: NDArray[np.intp]) -> dict[str, Any]:
    """Return the description of a column that cannot be a feature without being declared."""
    n_distinct = len(np.unique(codes[codes >= 0]))
    return {
        "name": name,
        "kind": None,
        "missing": float((codes < 0).mean()),
        "n_distinct": n_distinct,
        "min": None,
        "max": None,
        "counts": [],
        "values": None,
    }


def _with_groups(
    column: dict[str, Any], division: Division | None, without: Mapping[str, Any]
) -> dict[str, Any]:
    column["groups"] = None
    if division is not None:
        column["groups"] = {
            "n": division.n,
            "smallest": division.smallest,
            "largest": division.largest,
            "without": without.get(column["name"], {}),
        }
    return column


def _all_codes(
    table: pa.Table, X: NDArray[np.float64], places: Mapping[str, int], name: str
) -> NDArray[np.intp]:
    """Return the number of the group of each row of the table."""
    if name in places:
        return _codes(X[:, places[name]])
    return _codes_of(table.column(name), name)


def _codes(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the number of the value of each row; -1 if it is missing."""
    _, codes = np.unique(values, return_inverse=True)
    return np.where(np.isnan(values), -1, codes)


def _codes_of(values: pa.ChunkedArray, name: str) -> NDArray[np.intp]:
    """Return the same of a column of the table, -1 for values that are not text."""
    if not is_text(values.type):
        return np.full(len(values), -1)
    texts = Texts.of(values, name)
    return np.where(texts.is_known()[texts.positions], texts.positions, -1).astype(np.intp)


def _rows(
    table: pa.Table,
    X: NDArray[np.float64],
    columns: Sequence[Column],
    places: Mapping[str, int],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    n = min(N_ROWS, table.num_rows)
    shown: dict[str, list[Any]] = {}
    for name in names:
        if name in places:
            j = places[name]
            shown[name] = [shown_value(columns[j], x) for x in X[:n, j]]
        else:
            cells = table.column(name).slice(0, n).to_pylist()
            shown[name] = [None if cell is None else str(cell) for cell in cells]
    return [{name: shown[name][i] for name in names} for i in range(n)]
