"""Conversion of arrays and data frames (pandas, polars, Arrow, NumPy structured arrays).

Data frames are recognised by their methods, so none of these libraries is imported here.
"""

import json
from collections import Counter
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER

#: Columns that are added to the data frames of tasks.
TASK: Final = "task"
TARGET: Final = "target"
GROUP: Final = "group"
WEIGHT: Final = "sample_weight"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of numbers.

    Attributes
    ----------
    array : (n_rows, n_columns)
        Values; arrays keep their dtype.
    names
        Column names; None for arrays and for data frames with default labels.
    """

    array: NDArray[Any]
    names: tuple[str, ...] | None


def read_rows(data: ArrayLike, *, of: str) -> Rows:
    """Return the rows of an array or a data frame.

    Parameters
    ----------
    of
        Description of the data for messages, such as "task 'a'".

    Raises
    ------
    ValueError
        A column is not numeric, or two columns have the same name.
    TypeError
        A column name is not a string.
    """
    if not is_frame(data):
        if isinstance(data, np.ma.MaskedArray):
            data = np.ma.filled(data.astype(np.float64), np.nan)
        array = np.asarray(data)
        if array.dtype.hasobject:
            raise ValueError(f"expected an array of numbers as rows of {of}, got Python objects")
        return Rows(array, None)
    labels = _labels(data)
    names = _names(labels, of)
    columns = [_numbers(data, label, of) for label in labels]
    array = np.column_stack(columns) if columns else np.empty((len(data), 0))  # type: ignore[arg-type]
    return Rows(array, names)


def is_sparse(data: Any) -> bool:
    """Return whether data is a matrix of ``scipy.sparse``."""
    return hasattr(data, "tocsr") and hasattr(data, "nnz")


def sparse_arrays(matrix: Any, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a sparse matrix in compressed rows, named as in .npz."""
    rows = matrix.tocsr()
    arrays = {f"{name}.{part}": getattr(rows, part) for part in ("data", "indices", "indptr")}
    return arrays | {f"{name}.shape": np.array(rows.shape)}


def is_records(data: Any) -> bool:
    """Return whether data are records, such as ``[{"age": 61, "sex": "F"}]``."""
    return isinstance(data, list | tuple) and bool(data) and isinstance(data[0], Mapping)


def is_raw(data: Any) -> bool:
    """Return whether data is a data frame with a column that is not of numbers."""
    if not is_frame(data) or isinstance(data, np.ndarray):
        return False
    if hasattr(data, "column_names"):  # Arrow
        kinds = [str(field.type) for field in data.schema]
        numeric = ("int", "uint", "float", "double", "half", "bool")
        return not all(kind.startswith(numeric) for kind in kinds)
    types = data.dtypes
    listed = types if isinstance(types, list) else list(types)
    return not all(_is_numeric(dtype) for dtype in listed)


def has_tasks(data: Any, names: Container[str]) -> bool:
    """Return whether a data frame has a column, or named levels of an index, to send as a table.

    Parameters
    ----------
    names
        Names of columns with the task of each row.
    """
    if not is_frame(data) or isinstance(data, np.ndarray):
        return False
    return bool(_levels(data)) or any(label in names for label in _labels(data))


def with_index(frame: Any) -> Any:
    """Return a data frame of pandas with the named levels of its index as columns.

    Levels without a name, or with the name of a column, are left out. Other data frames have no
    index and are returned as they are.
    """
    kept = _levels(frame)
    return frame.reset_index(level=kept) if kept else frame


def _levels(frame: Any) -> list[Any]:
    """Return the named levels of the index of a data frame that are no columns as well."""
    if not (hasattr(frame, "columns") and hasattr(frame, "index")):
        return []
    levels = getattr(frame.index, "names", ())
    return [name for name in levels if name is not None and name not in frame.columns]


def rows_table(frame: Any, *, of: str) -> Any:
    """Return a data frame as an Arrow table that says which of its columns are an index.

    The service leaves these out unless the model has them. Errors are those of :func:`to_arrow`.
    """
    table = to_arrow(with_index(frame), of=of)
    levels = _levels(frame)
    if not levels:
        return table
    return table.replace_schema_metadata({"pandas": json.dumps({"index_columns": levels})})


def to_arrow(data: Any, *, of: str) -> Any:
    """Return a data frame as an Arrow table, with its own types.

    Raises
    ------
    ValueError
        A column has values of several types, or two columns have the same name.
    TypeError
        A column name is not a string.
    """
    import pyarrow as pa  # slow to import, and not needed for arrays

    if _names(_labels(data), of) is None:
        raise TypeError(f"expected strings as column names of {of}; rename the columns")
    if isinstance(data, pa.Table):
        return data
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.Table.from_pandas(data, preserve_index=False)
    try:
        return pa.Table.from_pandas(_with_plain_values(data), preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        why = "; ".join(map(str, error.args))
        raise ValueError(f"a column of {of} has values of several types: {why}") from None


def plain_value(value: Any) -> Any:
    """Return an interval or a period of pandas as it is in an upload; other values as they are.

    An interval is text; a period is the date on which it starts, or the number of a year.
    """
    if hasattr(value, "start_time"):
        is_year = value.freqstr[0] in "YA"
        return value.year if is_year else value.start_time.isoformat()
    return str(value) if hasattr(value, "closed") else value


def _with_plain_values(frame: Any) -> Any:
    """Return a data frame of pandas without objects that are intervals or periods."""
    columns = {label: c.map(plain_value) for label, c in frame.items() if c.dtype == object}
    return frame.assign(**columns)


def table_bytes(table: Any) -> bytes:
    """Return an Arrow table as an IPC stream."""
    import pyarrow as pa  # as above

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def join_tables(
    data: Mapping[str, Any],
    targets: Mapping[str, Any],
    groups: Mapping[str, Any],
    sample_weight: Mapping[str, Any],
) -> tuple[Any, dict[str, str]]:
    """Return data frames by task as one Arrow table, and the options that describe its columns.

    Raises
    ------
    ValueError
        Only some tasks have targets, groups or weights, or a frame already has such a column.
    """
    import pyarrow as pa  # as above

    options = {"task_column": TASK}
    for option, name, labels in (
        ("target_column", TARGET, targets),
        ("group_column", GROUP, groups),
        ("weight_column", WEIGHT, sample_weight),
    ):
        if labels:
            options[option] = name
            if labels.keys() != data.keys():
                missing = sorted(data.keys() - labels.keys()) or sorted(labels.keys() - data.keys())
                raise ValueError(f"expected a {name} for every task; '{missing[0]}' differs")
    tables = []
    for task, frame in data.items():
        table = to_arrow(frame, of=f"task '{task}'")
        own: dict[str, Any] = {TASK: [task] * table.num_rows}
        own |= {TARGET: targets[task]} if targets else {}
        own |= {GROUP: groups[task]} if groups else {}
        own |= {WEIGHT: sample_weight[task]} if sample_weight else {}
        for name, values in own.items():
            if name in table.column_names:
                raise ValueError(f"the rows of task '{task}' have a column '{name}'; rename it")
            of = f"{name}s of task '{task}'"
            entries = values if name == TASK else read_labels(values, frame, of=of)
            table = table.append_column(name, pa.array(entries))
        tables.append(table)
    return pa.concat_tables(tables, promote_options="permissive"), options


def read_labels(values: ArrayLike, rows: ArrayLike, *, of: str) -> NDArray[Any]:
    """Return the targets or groups of rows as an array of numbers or of text.

    Raises
    ------
    ValueError
        The values have mixed types, or their index has another order than that of the rows.
    """
    ours: Any = getattr(rows, "index", None)
    theirs: Any = getattr(values, "index", None)
    is_labelled = hasattr(ours, "equals") and hasattr(theirs, "equals")
    if is_labelled and not ours.equals(theirs) and set(ours) == set(theirs):
        raise ValueError(
            f"the index of the {of} is in another order than that of the rows; "
            f"use {of.split(maxsplit=1)[0]}.loc[rows.index]"
        )
    array, entries = np.asarray(values), as_entries(values)
    if array.dtype.kind in "OU" and entries.dtype.kind == "O":
        if not all(isinstance(entry, str) for entry in entries.ravel()):
            raise ValueError(f"expected the {of} to be all numbers or all text, got both")
        return array.astype(str)
    return array


def as_entries(values: ArrayLike) -> NDArray[Any]:
    """Return values as an array; others than arrays as objects, which keep their types.

    NumPy alone would convert numbers and missing values next to text into text.
    """
    return values if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, or NaN, NaT or NA, which all do not equal themselves."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124
    except TypeError:  # of NA
        return True
    except ValueError:  # of arrays
        return False


def is_frame(data: Any) -> bool:
    """Return whether data is a data frame, or a NumPy structured array."""
    if isinstance(data, np.ndarray):
        return data.dtype.names is not None
    return hasattr(data, "__dataframe__") or (
        hasattr(data, "to_numpy") and hasattr(data, "columns")
    )


def _is_numeric(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"


def _labels(frame: Any) -> list[Any]:
    if isinstance(frame, np.ndarray):
        return list(frame.dtype.names or ())
    # the attribute ``columns`` of an Arrow table holds the values
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _names(labels: list[Any], of: str) -> tuple[str, ...] | None:
    if labels == list(range(len(labels))):
        return None
    for label in labels:
        if not isinstance(label, str):
            raise TypeError(
                f"expected strings as column names of {of}, got {label!r}; rename it, or send an "
                "array"
            )
    for name, count in Counter(labels).items():
        if count > 1:
            detail = f"{count} columns of {of} are named '{name}'"
            raise ValueError(f"{detail}; column names must be unique")
    return tuple(labels)


def _numbers(frame: Any, label: Any, of: str) -> NDArray[np.float64]:
    """Return a column as floats, with NaN for missing values."""
    column = frame[label]
    values = np.asarray(column)
    dtype = getattr(column, "dtype", getattr(column, "type", values.dtype))
    if values.dtype.kind == "O" and getattr(dtype, "kind", "O") in "biuf":
        # a nullable dtype of pandas
        values = column.to_numpy(dtype="float64", na_value=np.nan)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"column '{label}' of {of} is not numeric: it has type {dtype}; encode or drop it"
        )
    if values.dtype.kind in "iu" and values.size:
        largest = max(abs(int(values.min())), abs(int(values.max())))
        if largest > MAX_EXACT_INTEGER:
            raise ValueError(
                f"column '{label}' of {of} has the integer {largest}; integers beyond 2**53 are "
                "not exact as float64; drop the column if it is an id"
            )
    return values.astype(np.float64)
