"""Tables of targets with the ids of their rows, from bodies and from datasets."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.column_matching import clean_name
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from service.datasets.blocks import DatasetReader
from service.datasets.distributions import shown_value
from service.datasets.formats.validation import BOOLEAN_LABELS
from service.datasets.manifest import (
    columns_of_manifest,
    feature_names_by_task,
)
from service.errors.problems import Problem
from service.inference.call import Body, raise_invalid_request
from service.inference.formats import reader_of
from service.inference.formats.table import TableRows, listed, raise_invalid_values
from service.inference.row_ids import ROW_ID, read_ids
from service.inference.sent_rows import table_of
from service.inference.task_column import TaskSource

TARGET: Final = "target"
#: Maximum number of characters of a label.
MAX_LABEL: Final = 1000
_BLOCK_ROWS: Final = 1000
#: How ids begin that are made of the cells of rows, and the number of bytes that follow.
_MADE_ID: Final = "file-"
_DIGEST_BYTES: Final = 16
_BEGINS_WITH_ZERO: Final = re.compile(r"\s*0\d")


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
    has_ids
        Whether the table has ids; if not, they are made of the other cells, so that a row that is
        sent again is the same.
    """

    row_ids: list[str]
    targets: list[float | str | None]
    tasks: list[str] | None
    rows: TableRows
    has_ids: bool


def read_feedback(
    body: Body, content_type: str, source: TaskSource, *, target_name: str, classes: Collection[str]
) -> FeedbackTable:
    """Return the targets in a body, which has a format of requests with rows.

    Parameters
    ----------
    source
        Source of the tasks of rows of the model.
    target_name
        Name of the target in the training table, which the column may have in place of ``target``.
    classes
        The classes of the model, as text; none if it predicts numbers.

    Raises
    ------
    Problem
        The body is not a table with these columns, or an id or a target is not valid.
    """
    call = reader_of(content_type)[0](body, source._replace(known=lambda: ("",)))
    table = table_of(call.rows)
    names = () if table is None else (table.names or ())
    own = next((name for name in names if clean_name(name) == clean_name(target_name)), TARGET)
    if table is None or own not in names:
        wanted = " or ".join(f"'{name}'" for name in dict.fromkeys((target_name, TARGET)))
        shown = ", ".join(map(repr, names)) or "no names"
        raise_invalid_request("", f"expected a column {wanted} with the true values, got {shown}")
    tasks = call.task if isinstance(call.task, list) else None
    targets = _read_targets(table, own, classes)
    if tasks is None and ROW_ID not in names and len(source.known()) > 1:
        detail = f"expected a column '{source.column}' with the task of each row, or '{ROW_ID}'"
        raise_invalid_request("", f"{detail}, got {', '.join(map(repr, names))}")
    return _identified(targets, tasks, table.without({own}))


def _identified(
    targets: list[float | str | None], tasks: list[str] | None, rows: TableRows
) -> FeedbackTable:
    """Return rows with the ids in their column ``row_id``; else ids are made."""
    if ROW_ID in (rows.names or ()):
        ids = read_ids(listed(rows.values_of(ROW_ID)))
        return FeedbackTable(ids, targets, tasks, rows.without({ROW_ID}), has_ids=True)
    return FeedbackTable(_made_ids(rows, tasks), targets, tasks, rows, has_ids=False)


def _made_ids(rows: TableRows, tasks: list[str] | None) -> list[str]:
    """Return ids of a hash of the cells of each row; rows that are the same are numbered."""
    by_name = sorted(zip(rows.names or (), rows.columns, strict=True), key=lambda pair: pair[0])
    columns = [tasks or [""] * rows.n_rows, *(listed(values) for _, values in by_name)]
    seen: Counter[str] = Counter()
    ids = []
    for cells in zip(*columns, strict=True):
        text = "\0".join(map(_written, cells)).encode("utf-8", "surrogatepass")
        name = f"{_MADE_ID}{blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()}"
        ids.append(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return ids


def _written(cell: Any) -> str:
    """Return a cell as text: the same for 1, 1.0 and "1.00", and for all that is missing.

    Ids and codes stay apart: integers with more digits than a float has, and texts such as "007".
    """
    if cell is None or cell != cell:  # noqa: PLR0124 - NaN
        return ""
    if isinstance(cell, str) and _BEGINS_WITH_ZERO.match(cell):
        return cell.strip()
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return str(cell).strip()
    if abs(number) >= MAX_EXACT_INTEGER and not isinstance(cell, float):
        with suppress(ValueError, OverflowError):
            if (whole := int(cell)) != number:
                return str(whole)
    return repr(number)


def _read_targets(
    table: TableRows, name: str, classes: Collection[str]
) -> list[float | str | None]:
    values = table.values_of(name)
    if classes:
        return [_label(value, classes) for value in listed(values)]
    try:
        numbers = encode(values, Column(name), decimal=table.decimal)
    except InvalidColumn as error:
        raise_invalid_values(error, task="")
    return [_number(number) for number in numbers]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _label(value: Any, classes: Collection[str]) -> str | None:
    """Return a label as predictions have it; None for a missing one.

    A class that is a whole number may come as 1.0, as where a column has gaps.
    """
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, list | dict):
        raise_invalid_request("", f"expected a label, got {value!r:.60}")
    label = BOOLEAN_LABELS[not value] if isinstance(value, bool) else str(value).strip()
    if len(label) > MAX_LABEL:
        detail = f"the label '{label:.40}...' has {len(label)} characters, more than {MAX_LABEL}"
        raise_invalid_request("", detail)
    if label not in classes:
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
            if number.is_integer() and str(int(number)) in classes:
                return str(int(number))
    return label or None


def read_dataset(
    path: Path,
    manifest: dict[str, Any],
    dataset_id: str,
    *,
    classes: Collection[str],
    max_rows: int,
) -> FeedbackTable:
    """Return the targets of a dataset, with ids from its column ``row_id``; else ids are made.

    Parameters
    ----------
    classes
        As of :func:`read_feedback`.

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
    if not classes and any("classes" in entry for entry in entries):
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
    known = [_label(y, classes) if classes else _number(float(y)) for y in targets]
    return _identified(known, tasks, table)


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
        table.rows.take(places),
        table.has_ids,
    )
