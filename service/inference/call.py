"""Types of an inference call: the rows, the input that a method expects, and the result."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.new_tasks import NewTasks
from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import without_markers
from service.datasets.number_writings import NumberWritings
from service.errors.problems import Problem

#: Body of a request.
Body: TypeAlias = bytes | bytearray
Matrix = NDArray[np.float64]
#: Returns the column names of the training data, None if they had no names.
Columns = Callable[[], tuple[str, ...] | None]


# NamedTuples: creating one is several times faster than creating a frozen dataclass
class InputSpec(NamedTuple):
    """The input that a method of a model expects for a task.

    Attributes
    ----------
    width
        Number of columns.
    allow_missing
        Whether NaN is accepted as a missing value.
    columns
        Called only for formats with column names, as the lookup takes time.
    kinds
        Raw columns of a model that takes more than numbers; else None.
    ignored
        Returns the names of columns that rows may have, but the model does not use.
    numbers
        Returns how the numbers of the training table were written, for models of numbers alone.
    """

    task: str
    method: str
    width: int
    allow_missing: bool
    columns: Columns
    kinds: tuple[Column, ...] | None = None
    ignored: Callable[[], frozenset[str]] = frozenset
    numbers: Callable[[], NumberWritings] = NumberWritings

    def columns_of(self, names: Sequence[str | int]) -> Sequence[Column]:
        """Return the columns of rows by their names; columns without a name have a position."""
        if self.kinds is not None:
            return self.kinds
        has_names = bool(names) and isinstance(names[0], str)
        written = self.numbers() if has_names else NumberWritings()
        return [
            Column(str(name), numbers=written.of(str(name)), missing=written.missing)
            for name in names
        ]

    def without_markers(self, numbers: Matrix) -> Matrix:
        """Return rows of named columns of numbers without declared markers of missing values."""
        return without_markers(numbers, self.numbers().missing)

    def __str__(self) -> str:
        noun = "numbers" if self.kinds is None else "values"
        return f"task '{self.task}' expects rows of {self.width} {noun} for {self.method}"


class Rows(Protocol):
    """Rows as received; they are validated once the model and its input are known."""

    def n_values(self) -> int:
        """Return the number of values in all rows."""

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows (n_rows, width), with NaN for missing values.

        Raises
        ------
        Problem
            The rows do not match the specification.
        """


class RowsByTask(NamedTuple):
    """Rows of tasks one after the other, each with columns of its own."""

    parts: Sequence[tuple[str, Rows]]

    def n_values(self) -> int:
        """Return the number of values in all rows."""
        return sum(rows.n_values() for _, rows in self.parts)

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Raise a problem, since the rows of each task are computed on their own."""
        raise_invalid_data("expected rows of one task", task=spec.task)


class Call(NamedTuple):
    """Rows to compute, all of one task, or with one task name per row.

    Attributes
    ----------
    level
        Level of intervals and sets; None: the default.
    new_tasks
        What to do about tasks that the model was not trained on; None: as the model says.
    """

    task: str | list[str]
    rows: Rows
    level: float | None = None
    new_tasks: NewTasks | None = None


class InferenceResult(NamedTuple):
    """Outputs of a model, in the order of the rows.

    Attributes
    ----------
    classes
        Class labels of the output columns; empty if the columns are not classes.
    new_tasks
        Tasks that the model was not trained on, for which its common part answered.
    inputs
        The encoded rows that the method took, in one array or in several.
    """

    name: str
    version: int
    task: str | list[str]
    method: str
    outputs: NDArray[Any]
    classes: tuple[str, ...] | tuple[int, ...]
    new_tasks: tuple[str, ...] = ()
    inputs: tuple[Matrix, ...] = ()


class ArrayRows(NamedTuple):
    """Rows that were received as one array."""

    array: NDArray[Any]

    def n_values(self) -> int:
        """Return the number of values."""
        return self.array.size

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows; float64 arrays are not copied."""
        if spec.kinds is not None:
            detail = f"{spec}, not all of them numbers; send the columns by name"
            raise_invalid_data(detail, task=spec.task)
        if self.array.ndim != 2 or self.array.shape[1] != spec.width:
            raise_invalid_data(f"{spec}, got an array of shape {self.array.shape}", task=spec.task)
        return to_float64(self.array, task=spec.task)


def to_float64(array: NDArray[Any], *, task: str) -> Matrix:
    """Return numbers (n_rows, n_columns) as float64.

    Raises
    ------
    Problem
        An integer is too large to be represented exactly.
    """
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        is_beyond = array > MAX_EXACT_INTEGER
        if array.dtype.kind == "i":
            is_beyond |= array < -MAX_EXACT_INTEGER
        if is_beyond.any():
            row, column = (int(i) for i in np.argwhere(is_beyond)[0])
            raise_invalid_data(
                f"task '{task}', row {row}, column {column} is {array[row, column]}; integers "
                "beyond 2**53 are not exact as float64; send floats",
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
    """Raise an ``invalid-data`` problem with the location of the data."""
    place = {"task": task, "row": row, "column": column, "pointer": pointer}
    entry = {name: value for name, value in place.items() if value is not None}
    entry |= {"code": "invalid-data", "detail": detail}
    raise Problem("invalid-data", detail, errors=[entry])


def raise_invalid_request(place: str, detail: str) -> NoReturn:
    """Raise an ``invalid-request`` problem.

    Parameters
    ----------
    place
        JSON pointer into the body, ``query:name`` or ``header:name``.
    """
    kind = "parameter" if place.startswith(("query:", "header:")) else "pointer"
    entry = {kind: place, "code": "invalid", "detail": detail}
    raise Problem("invalid-request", detail, errors=[entry])
