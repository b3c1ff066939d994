"""A call below the wire: what is wanted, of which rows; every format ends here."""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.errors import Problem

#: Of a request; a large one is in memory that is used again once it is answered.
Body: TypeAlias = bytes | bytearray
Matrix = NDArray[np.float64]
#: Gives the names of the columns that a model was trained on, None where they had none.
Columns = Callable[[], tuple[str, ...] | None]


# these are named tuples, which are made several times as fast as frozen dataclasses
class InputSpec(NamedTuple):
    """What rows a method takes for a task.

    Attributes
    ----------
    columns
        Looked up by the formats that have names themselves.
    """

    task: str
    method: str
    width: int
    allow_missing: bool
    columns: Columns

    def __str__(self) -> str:
        return f"task '{self.task}' expects rows of {self.width} numbers for {self.method}"


class Rows(Protocol):
    """Rows as they came; they are looked at closely where their width is known."""

    def n_values(self) -> int:
        """Return the number of values in all rows."""

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows (n_rows, width), NaN where a value is missing, or say what is wrong."""


class Call(NamedTuple):
    """What a caller wants computed: rows of one task, or rows that each name theirs."""

    task: str | list[str]
    rows: Rows


class InferenceResult(NamedTuple):
    """What a model made of the rows, in their order.

    Attributes
    ----------
    classes
        Labels of the columns, where the columns are classes.
    """

    name: str
    version: int
    task: str | list[str]
    method: str
    outputs: NDArray[Any]
    classes: tuple[str, ...] | tuple[int, ...]


class ArrayRows(NamedTuple):
    """Rows of an array that came as one."""

    array: NDArray[Any]

    def n_values(self) -> int:
        """Return the number of values."""
        return self.array.size

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows, without a copy where they are float64."""
        if self.array.ndim != 2 or self.array.shape[1] != spec.width:
            raise_invalid_data(f"{spec}, got an array of shape {self.array.shape}", task=spec.task)
        return to_float64(self.array, task=spec.task)


#: From here on float64 has no place of its own for every integer.
_MAX_EXACT = 2**53


def to_float64(array: NDArray[Any], *, task: str) -> Matrix:
    """Return numbers (n_rows, n_columns) as float64, or say which integer would not be itself."""
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        is_beyond = (array > _MAX_EXACT) | (
            array < -_MAX_EXACT if array.dtype.kind == "i" else False
        )
        if is_beyond.any():
            row, column = (int(i) for i in np.argwhere(is_beyond)[0])
            raise_invalid_data(
                f"task '{task}', row {row}, column {column} is {array[row, column]}; integers "
                "beyond 2**53 are not exact as float64, send floats",
                task=task,
                row=row,
                column=column,
            )
    return array.astype(np.float64, copy=False)


def raise_invalid_data(
    detail: str,
    *,
    task: str | None = None,
    row: int | None = None,
    column: str | int | None = None,
    pointer: str | None = None,
) -> NoReturn:
    """Raise the problem of rows that do not fit, with their place."""
    place = {"task": task, "row": row, "column": column, "pointer": pointer}
    entry = {name: value for name, value in place.items() if value is not None}
    entry |= {"code": "invalid-data", "detail": detail}
    raise Problem("invalid-data", detail, errors=[entry])


def raise_invalid_request(place: str, detail: str) -> NoReturn:
    """Raise the problem of a request: a pointer into its body, or ``query:name``."""
    kind = "parameter" if place.startswith(("query:", "header:")) else "pointer"
    entry = {kind: place, "code": "invalid", "detail": detail}
    raise Problem("invalid-request", detail, errors=[entry])
