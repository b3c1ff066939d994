"""Tables of targets with the ids of their rows, from bodies and from datasets."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from service.datasets.blocks import DatasetReader
from service.datasets.distributions import shown_value
from service.datasets.manifest import (
    columns_of_manifest,
    feature_names_by_task,
)
from service.errors.problems import Problem
from service.inference.call import Body, raise_invalid_request
from service.inference.formats import reader_of
from service.inference.formats.table import ColumnValues, TableRows, raise_invalid_values
from service.inference.row_ids import MAX_ID
from service.inference.sent_rows import table_of
from service.inference.task_column import TaskSource, task_names

ROW_ID: Final = "row_id"
TARGET: Final = "target"
#: Maximum number of characters of a label.
MAX_LABEL: Final = 1000
_BLOCK_ROWS: Final = 1000


class FeedbackTable(NamedTuple):
    """Targets with the ids of their rows.

    Attributes
    ----------
    targets
        A number or a label as text; None where there is none.
    tasks
        Task of each row; None if the table has no tasks.
    rows
        The other columns.
    """

    row_ids: list[str]
    targets: list[float | str | None]
    tasks: list[str] | None
    rows: TableRows


def read_feedback(
    body: Body, content_type: str, *, task_column: str, target_name: str, has_labels: bool
) -> FeedbackTable:
    """Return the targets in a body, which has a format of requests with rows.

    Parameters
    ----------
    target_name
        Name of the target in the training table, which the column may have in place of ``target``.

    Raises
    ------
    Problem
        The body is not a table with these columns, or an id or a target is not valid.
    """
    source = TaskSource(None, task_column, lambda _: True, known=lambda: ("",))
    call = reader_of(content_type)[0](body, source)
    table = table_of(call.rows)
    names = () if table is None else (table.names or ())
    chosen = target_name if target_name in names else TARGET
    for name in (ROW_ID, chosen):
        if table is None or name not in names:
            detail = f"expected columns '{ROW_ID}' and '{target_name}' or '{TARGET}'"
            raise_invalid_request("", f"{detail}, got {', '.join(map(repr, names)) or 'no names'}")
    assert table is not None  # checked above
    return FeedbackTable(
        _read_ids(_listed(table.values_of(ROW_ID))),
        _read_targets(table, chosen, has_labels=has_labels),
        call.task if isinstance(call.task, list) else None,
        table.without({ROW_ID, chosen}),
    )


def _read_targets(table: TableRows, name: str, *, has_labels: bool) -> list[float | str | None]:
    values = table.values_of(name)
    if has_labels:
        return [_label(value) for value in _listed(values)]
    try:
        numbers = encode(values, Column(name), decimal=table.decimal)
    except InvalidColumn as error:
        raise_invalid_values(error, task="")
    return [_number(number) for number in numbers]


def _read_ids(values: Iterable[Any]) -> list[str]:
    ids = task_names(values, ROW_ID)
    for row, name in enumerate(ids):
        if len(name) > MAX_ID or not name.isprintable():
            detail = f"row {row} has the id {name!r:.60}; expected up to {MAX_ID} printable"
            raise_invalid_request("", f"{detail} characters in column '{ROW_ID}'")
    return ids


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _label(value: Any) -> str | None:
    """Return a label as predictions have it; None for a missing one."""
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    label = str(value).strip()
    if len(label) > MAX_LABEL:
        detail = f"the label '{label:.40}...' has {len(label)} characters, more than {MAX_LABEL}"
        raise_invalid_request("", detail)
    return label or None


def _listed(values: ColumnValues) -> list[Any]:
    if isinstance(values, pa.ChunkedArray):
        return list(values.to_pylist())
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


def read_dataset(
    path: Path, manifest: dict[str, Any], dataset_id: str, *, has_labels: bool, max_rows: int
) -> FeedbackTable:
    """Return the targets of a dataset, with ids from its column ``row_id``; else ids are made.

    Raises
    ------
    Problem
        The dataset has no targets, tasks of different columns, or too many rows.
    """
    entries = manifest["tasks"]
    names = set(feature_names_by_task(manifest).values())
    if len(names) != 1 or None in names or any(e["target"] == "none" for e in entries):
        detail = f"dataset {dataset_id} has no targets, no names of columns, or tasks that differ"
        raise_invalid_request("/dataset_id", f"{detail} in their columns")
    if not has_labels and any("classes" in entry for entry in entries):
        detail = f"dataset {dataset_id} has classes as targets, but the model predicts numbers"
        raise_invalid_request("/dataset_id", detail)
    n_rows = sum(entry["n_samples"] for entry in entries)
    if n_rows > max_rows or any("n_stored" in entry for entry in entries):
        detail = f"the dataset has {n_rows} rows, or is sparse; the maximum is {max_rows}"
        raise Problem("too-many-rows", f"{detail} rows: send parts of it")
    (columns,) = names
    assert columns is not None  # checked above
    reader, kinds = DatasetReader(path, manifest), columns_of_manifest(manifest)
    tasks: list[str] = []
    targets: list[float | str] = []
    values: list[list[Any]] = [[] for _ in columns]
    for entry in entries:
        shown = _all_columns(entry, columns, kinds)
        for X in reader.rows(entry["name"], _BLOCK_ROWS):
            for j, column in enumerate(shown):
                values[j] += [shown_value(column, number) for number in X[:, j]]
        y = np.concatenate([*reader.targets(entry["name"])]).tolist()
        labels = entry.get("classes")
        targets += y if labels is None else [labels[k] for k in y]
        tasks += [entry["name"]] * len(y)
    table = TableRows(tuple(columns), values, n_rows)
    if ROW_ID in columns:
        ids = _read_ids(table.values_of(ROW_ID))
    else:
        ids = [f"{dataset_id}-{i}" for i in range(n_rows)]
    known = [_label(y) if has_labels else _number(float(y)) for y in targets]
    return FeedbackTable(ids, known, tasks, table.without({ROW_ID}))


def _all_columns(
    entry: dict[str, Any], names: Sequence[str], kinds: tuple[Column, ...] | None
) -> list[Column]:
    of_name = {column.name: column for column in kinds or ()}
    return [of_name.get(name, Column(name)) for name in names[: entry["n_features"]]]


def take(table: FeedbackTable, places: Sequence[int]) -> FeedbackTable:
    """Return some of the rows."""
    return FeedbackTable(
        [table.row_ids[i] for i in places],
        [table.targets[i] for i in places],
        None if table.tasks is None else [table.tasks[i] for i in places],
        replace(table.rows.take(places), n_rows=len(places)),
    )
