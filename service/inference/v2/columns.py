"""Inputs with one tensor for each column, for models that were trained on tables."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.columns import ColumnKind
from service.inference.call import (
    InputSpec,
    Matrix,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.formats.json_rows import JSON_NAMES
from service.inference.formats.table import TableRows
from service.inference.task_column import TASK, TaskSource
from service.inference.v2.datatypes import BOOL, BYTES, NUMBERS
from service.inference.v2.tensors import Tensor, Values, check_range, strings_of

#: Name of the input of all columns.
ROWS: Final = "rows"
#: Datatype of the values of each kind of column; dates are text such as 2026-01-31.
DATATYPES: Final[dict[ColumnKind, str]] = {
    "number": "FP64",
    "boolean": BOOL,
    "category": BYTES,
    "date": BYTES,
}
#: Prefix of an input whose column has a reserved name ('rows', the task column), or begins with it.
_PREFIX: Final = "column:"
_FLOAT: Final = np.dtype(np.float64)


class ColumnInputs(NamedTuple):
    """Rows that were received as one input for each column.

    Attributes
    ----------
    pointer
        JSON pointer to the first of these inputs.
    """

    table: TableRows
    pointer: str

    def n_values(self) -> int:
        """Return the number of values."""
        return self.table.n_values()

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows with columns in the order of the model."""
        if spec.columns() is None:
            (name, *_) = self.table.names or ("",)
            detail = (
                f"there is no input '{name[:100]}'; send the rows in the input '{ROWS}': {spec}"
            )
            raise_invalid_request(f"{self.pointer}/name", detail)
        return self.table.as_matrix(spec)


def input_name(column: str, task_column: str) -> str:
    """Return the name of the input of a column, in a model with a task column."""
    is_taken = column in (ROWS, task_column) or column.startswith(_PREFIX)
    return _PREFIX + column if is_taken else column


def task_inputs(tasks: TaskSource) -> list[str]:
    """Return the names of inputs with the task of each row, the best first.

    An input ``task`` is a column if the training table had it in another role.
    """
    names = tasks.names({ROWS})
    if len(names) == 2 and tasks.is_other(TASK):
        names.remove(TASK)
    return names


def labels_of(tensor: Tensor, values: Values) -> list[Any]:
    """Return the text or the integers of an input with tasks."""
    if tensor.datatype == BYTES or NUMBERS.get(tensor.datatype, _FLOAT).kind == "f":
        return strings_of(tensor, values)
    labels = _values(tensor, values)
    return labels.tolist() if isinstance(labels, np.ndarray) else labels


def rows_of_columns(inputs: Sequence[tuple[Tensor, Values]]) -> ColumnInputs:
    """Combine inputs that each hold one column into rows.

    Raises
    ------
    Problem
        An input has a different number of rows from the first one, or invalid values.
    """
    first = inputs[0][0]
    columns = []
    for tensor, values in inputs:
        if len(tensor.shape) not in (1, 2) or tensor.shape[1:] not in ((), (1,)):
            detail = (
                f"input '{tensor.name[:100]}' has shape {list(tensor.shape)}; expected [n] or "
                f"[n, 1] for one column; to send all columns together, use the input '{ROWS}'"
            )
            raise_invalid_request(f"{tensor.pointer}/shape", detail)
        if tensor.size != first.size:
            detail = f"input '{tensor.name}' has {tensor.size} rows, '{first.name}' {first.size}"
            raise_invalid_request(f"{tensor.pointer}/shape", detail)
        columns.append(_values(tensor, values))
    names = tuple(tensor.name.removeprefix(_PREFIX) for tensor, _ in inputs)
    return ColumnInputs(TableRows(names, columns, first.size), first.pointer)


def _values(tensor: Tensor, values: Values) -> NDArray[Any] | list[Any]:
    """Return the values of a column; None and NaN are missing."""
    if tensor.datatype == BYTES:
        return strings_of(tensor, values, allows_missing=True)
    if isinstance(values, memoryview):
        return _of_bytes(tensor, values)
    if isinstance(values, list):
        values = _of_list(tensor, values)
    tensor.check_count(len(values), "values")
    if tensor.datatype == BOOL:
        return values if isinstance(values, list) else values.tolist()
    dtype = NUMBERS[tensor.datatype]
    if dtype.kind == "f":
        return np.array(values, np.float64).astype(dtype).astype(np.float64)  # None becomes NaN
    if isinstance(values, np.ndarray):
        check_range(values[:, np.newaxis], dtype, tensor)
        return values.astype(dtype)
    return np.array(values, np.float64 if None in values else dtype)


def _of_bytes(tensor: Tensor, data: memoryview) -> NDArray[Any] | list[Any]:
    dtype = np.dtype(np.uint8) if tensor.datatype == BOOL else NUMBERS[tensor.datatype]
    tensor.check_count(len(data), "bytes", expected=tensor.size * dtype.itemsize)
    array = np.frombuffer(data, dtype)
    return array.astype(bool).tolist() if tensor.datatype == BOOL else array


def _of_list(tensor: Tensor, data: list[Any]) -> list[Any]:
    """Return the values of a JSON list, each of the type of the tensor or None."""
    flat = [value[0] if isinstance(value, list) and len(value) == 1 else value for value in data]
    types: tuple[type, ...] = (int, float)
    least, largest = -math.inf, math.inf
    expected = "a number"
    if tensor.datatype == BOOL:
        types, expected = (bool,), "true or false"
    elif NUMBERS[tensor.datatype].kind != "f":
        limits = np.iinfo(NUMBERS[tensor.datatype])
        least, largest = limits.min, limits.max
        types, expected = (int,), f"{tensor.datatype}, an integer from {least} to {largest}"
        if None in flat:  # becomes NaN among floats
            least, largest = max(least, -MAX_EXACT_INTEGER), min(largest, MAX_EXACT_INTEGER)
            expected = f"an integer from {least} to {largest}, or all values as FP64"
    for row, value in enumerate(flat):
        if value is not None and (type(value) not in types or not least <= value <= largest):
            actual = value if type(value) in (int, float) else JSON_NAMES[type(value)]
            raise_invalid_data(
                f"input '{tensor.name}', row {row} is {actual}; expected {expected}",
                row=row,
                pointer=f"{tensor.pointer}/data/{row}",
            )
    return flat
