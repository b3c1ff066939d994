"""Bodies of requests: arrays, tables and records of callers as bytes or JSON."""

import io
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sibling.frames import (
    is_missing,
    is_sparse,
    plain_value,
    read_labels,
    read_rows,
    sparse_arrays,
    table_bytes,
)


def tasks_body(
    data: Mapping[str, ArrayLike],
    targets: Mapping[str, ArrayLike],
    extras: Mapping[str, Mapping[str, ArrayLike]],
) -> io.BytesIO:
    """Return the body of an upload, an .npz file with the arrays of all tasks.

    Raises
    ------
    ValueError
        There are targets, groups or weights for a task without rows.
    """
    for what, by_task in (("targets", targets), *extras.items()):
        unknown = sorted(by_task.keys() - data.keys())
        if unknown:
            raise ValueError(f"there are {what} for tasks without rows: {', '.join(unknown)}")
    arrays: dict[str, NDArray[Any]] = {}
    for task, X in data.items():
        if is_sparse(X):
            arrays |= sparse_arrays(X, f"{task}/X")
            continue
        rows = read_rows(X, of=f"task '{task}'")
        arrays[f"{task}/X"] = rows.array
        if rows.names is not None:
            arrays[f"{task}/feature_names"] = np.array(rows.names)
    for task, y in targets.items():
        arrays[f"{task}/y"] = read_labels(y, data[task], of=f"targets of task '{task}'")
    for what, by_task in extras.items():
        for task, values in by_task.items():
            arrays[f"{task}/{what}"] = read_labels(
                values, data[task], of=f"{what} of task '{task}'"
            )
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]  # no array has the name of an option
    body.seek(0)
    return body


def records_body(records: Any, task: str | None) -> dict[str, Any]:
    """Return the body of a request with records, with null for missing values.

    Raises
    ------
    ValueError
        A value is infinite.
    """
    for i, record in enumerate(records):
        for name, value in record.items():
            if isinstance(value, float | np.floating | Decimal) and math.isinf(value):
                raise ValueError(f"row {i}, column '{name}': {value} is not a finite number")
    rows = [
        {name: None if is_missing(value) else value for name, value in record.items()}
        for record in records
    ]
    return {"task": task, "inputs": rows}


def as_json(value: Any) -> Any:
    """Return a value that JSON does not have, such as a date or a scalar of NumPy.

    Raises
    ------
    TypeError
        The value is not one of those.
    """
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    plain = plain_value(value)
    if plain is not value:
        return plain
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"expected numbers, text, dates or None in records, got {type(value).__name__}; convert it"
    )


def row_ids_header(row_ids: str | Sequence[str | int] | None) -> dict[str, str]:
    """Return the header with the ids of rows; none without ids."""
    if row_ids is None:
        return {}
    ids = [row_ids] if isinstance(row_ids, str) else row_ids
    return {"Sibling-Row-Ids": ",".join(quote(str(row_id), safe="") for row_id in ids)}


def npz_body(matrix: Any) -> bytes:
    """Return a sparse matrix as an .npz file."""
    body = io.BytesIO()
    np.savez(body, **sparse_arrays(matrix, "X"))  # type: ignore[arg-type]  # no name of an option
    return body.getvalue()


def npy_body(array: NDArray[Any]) -> bytes:
    """Return an array as an .npy file."""
    body = io.BytesIO()
    # results depend on the memory layout in the last bits
    np.save(body, np.asarray(array, order="C"), allow_pickle=False)
    return body.getvalue()


def arrow_body(array: NDArray[Any], names: Sequence[str]) -> bytes:
    """Return an Arrow stream with named columns."""
    import pyarrow as pa  # slow to import, and not needed for arrays

    columns = [pa.array(column) for column in array.T]
    return table_bytes(pa.Table.from_arrays(columns, names=list(names)))
