"""Frames: tables with named columns, of pandas, polars, Arrow, or as a structured array of NumPy.

They are recognised by what they can do, so that none of these libraries is needed here.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Integers beyond this are not all kept by 64-bit floats.
_MAX_EXACT: Final = 2**53


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of numbers.

    Attributes
    ----------
    array : (n_rows, n_columns)
        As it came, where it came as an array.
    names
        Of the columns; None for an array, and for a frame that has its library's default labels.
    """

    array: NDArray[Any]
    names: tuple[str, ...] | None


def read_rows(data: ArrayLike, *, of: str) -> Rows:
    """Return the rows in an array, or in a frame.

    Parameters
    ----------
    of
        What the rows are of, for messages: "task 'a'".

    Raises
    ------
    ValueError
        A column is not numeric, or two have one name.
    TypeError
        The name of a column is no text.
    """
    if not _is_frame(data):
        array = np.asarray(data)
        if array.dtype.hasobject:
            raise ValueError(f"the rows of {of} are not numbers: they hold Python objects")
        return Rows(array, None)
    labels = _labels(data)
    names = _names(labels, of)
    columns = [_numbers(data, label, of) for label in labels]
    array = np.column_stack(columns) if columns else np.empty((len(data), 0))  # type: ignore[arg-type]
    return Rows(array, names)


def read_labels(values: ArrayLike, rows: ArrayLike, *, of: str) -> NDArray[Any]:
    """Return the targets or groups of rows as an array of numbers or of text.

    Raises
    ------
    ValueError
        They are neither, or have the index of the rows in another order.
    """
    ours: Any = getattr(rows, "index", None)
    theirs: Any = getattr(values, "index", None)
    is_labelled = hasattr(ours, "equals") and hasattr(theirs, "equals")
    if is_labelled and not ours.equals(theirs) and set(ours) == set(theirs):
        raise ValueError(
            f"the {of} have the index of its rows in another order; "
            f"send {of.split(maxsplit=1)[0]}.loc[rows.index]"
        )
    array = np.asarray(values)
    # numpy makes text of numbers beside text: they stay what they are, to be refused
    entries = array if isinstance(values, np.ndarray) else np.asarray(values, dtype=object)
    if array.dtype.kind in "OU" and entries.dtype.kind == "O":
        if not all(isinstance(entry, str) for entry in entries.ravel()):
            raise ValueError(f"the {of} are neither all numbers nor all text")
        return array.astype(str)
    return array


def _is_frame(data: Any) -> bool:
    if isinstance(data, np.ndarray):
        return data.dtype.names is not None
    return hasattr(data, "__dataframe__") or (
        hasattr(data, "to_numpy") and hasattr(data, "columns")
    )


def _labels(frame: Any) -> list[Any]:
    if isinstance(frame, np.ndarray):
        return list(frame.dtype.names or ())
    # of an Arrow table ``columns`` are the values
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def _names(labels: list[Any], of: str) -> tuple[str, ...] | None:
    if labels == list(range(len(labels))):
        return None
    for label in labels:
        if not isinstance(label, str):
            raise TypeError(
                f"the columns of {of} need names of text, one is {label!r}; "
                "rename it, or send an array"
            )
    for name, count in Counter(labels).items():
        if count > 1:
            detail = f"{count} columns of {of} are named '{name}'"
            raise ValueError(f"{detail}; each needs a name of its own")
    return tuple(labels)


def _numbers(frame: Any, label: Any, of: str) -> NDArray[np.float64]:
    """Return a column as floats, NaN where a value is missing."""
    column = frame[label]
    values = np.asarray(column)
    holds = getattr(column, "dtype", getattr(column, "type", values.dtype))
    if values.dtype.kind == "O" and getattr(holds, "kind", "O") in "biuf":
        # a type of pandas' own, with missing values
        values = column.to_numpy(dtype="float64", na_value=np.nan)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"column '{label}' of {of} is not numeric: it holds {holds}; encode or drop it"
        )
    if values.dtype.kind in "iu" and values.size:
        largest = max(abs(int(values.min())), abs(int(values.max())))
        if largest > _MAX_EXACT:
            raise ValueError(
                f"column '{label}' of {of} holds the integer {largest}, beyond 2**53; is it an id?"
            )
    return values.astype(np.float64)
