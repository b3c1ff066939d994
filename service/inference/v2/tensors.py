"""Validation of input tensors, in JSON or binary."""

from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.inference.call import (
    ArrayRows,
    InputSpec,
    Matrix,
    Rows,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.formats.json_rows import JSON_NAMES, ListRows
from service.inference.v2.datatypes import BOOL, BYTES, NUMBERS, read_strings

_MAX_DIM: Final = 2**31
_FIELDS: Final = frozenset({"name", "shape", "datatype", "parameters", "data"})
_DATATYPES: Final = frozenset({*NUMBERS, BYTES, BOOL})
#: Alternatives to unsupported datatypes.
_UNSUPPORTED: Final = {"BF16": "numpy does not support it; send the values as FP32"}


class Tensor(NamedTuple):
    """An input whose metadata has been validated.

    Attributes
    ----------
    data
        JSON list of values, or the size in bytes of the binary values.
    pointer
        JSON pointer to the input in the header.
    """

    name: str
    shape: tuple[int, ...]
    size: int
    datatype: str
    data: Any
    pointer: str

    def check_count(self, count: int, unit: str, *, expected: int | None = None) -> None:
        """Raise a problem unless a number of values matches the shape."""
        expected = self.size if expected is None else expected
        if count != expected:
            detail = (
                f"input '{self.name}' of {self.datatype} and shape {list(self.shape)} needs "
                f"{expected} {unit}, got {count}"
            )
            raise_invalid_request(f"{self.pointer}/shape", detail)


#: JSON list, array that was parsed from one, or bytes of a binary tensor.
Values: TypeAlias = list[Any] | NDArray[Any] | memoryview


class _NarrowRows(NamedTuple):
    """Rows from JSON, rounded to their datatype like the rows of a binary tensor."""

    rows: Rows
    tensor: Tensor

    def n_values(self) -> int:
        """Return the number of values."""
        return self.rows.n_values()

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rounded rows; raise a problem if a value is too large."""
        wide = self.rows.as_matrix(spec)
        with np.errstate(over="ignore"):
            narrow = wide.astype(NUMBERS[self.tensor.datatype]).astype(np.float64)
        is_beyond = np.isinf(narrow) & np.isfinite(wide)
        if is_beyond.any():
            row, column = (int(i) for i in np.argwhere(is_beyond)[0])
            raise_invalid_data(
                f"input '{self.tensor.name}', row {row}, column {column} is {wide[row, column]}, "
                f"too large for {self.tensor.datatype}",
                task=spec.task,
                row=row,
                column=column,
            )
        return narrow


def check_metadata(entry: object, pointer: str) -> tuple[str, tuple[int, ...], str, dict[str, Any]]:
    """Return the validated name, shape, datatype and parameters of an input."""
    if not isinstance(entry, dict):
        raise_invalid_request(pointer, "expected an object with name, shape, datatype and data")
    if not entry.keys() <= _FIELDS:
        unknown = sorted(entry.keys() - _FIELDS)
        expected = ", ".join(sorted(_FIELDS))
        raise_invalid_request(
            pointer, f"unknown field '{unknown[0]}' of an input; expected one of {expected}"
        )
    name, datatype = entry.get("name"), entry.get("datatype")
    if not isinstance(name, str):
        raise_invalid_request(f"{pointer}/name", "expected the name of an input, a string")
    if not isinstance(datatype, str) or datatype not in _DATATYPES:
        expected = ", ".join((*NUMBERS, BOOL, BYTES))
        got = f"datatype '{datatype}'" if isinstance(datatype, str) else "no datatype"
        advice = _UNSUPPORTED.get(str(datatype), f"expected one of {expected}")
        raise_invalid_request(f"{pointer}/datatype", f"input '{name}' has {got}; {advice}")
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise_invalid_request(
            f"{pointer}/parameters", f"expected an object as parameters of input '{name}'"
        )
    return name, _shape(entry.get("shape"), name, pointer), datatype, parameters


def rows_of(tensor: Tensor, values: Values) -> Rows:
    """Return the values of the input ``rows``."""
    if tensor.datatype == BYTES:
        detail = f"input '{tensor.name}' has datatype BYTES; expected numbers, such as FP64"
        raise_invalid_request(f"{tensor.pointer}/datatype", detail)
    if tensor.datatype == BOOL:
        detail = f"input '{tensor.name}' has datatype BOOL; send booleans as UINT8"
        raise_invalid_request(f"{tensor.pointer}/datatype", detail)
    if len(tensor.shape) != 2:
        detail = f"input '{tensor.name}' has shape {list(tensor.shape)}; expected [rows, columns]"
        raise_invalid_request(f"{tensor.pointer}/shape", detail)
    dtype = NUMBERS[tensor.datatype]
    if isinstance(values, np.ndarray):
        tensor.check_count(values.size, "values")
        rows = values.reshape(tensor.shape)
        if dtype.kind != "f":
            check_range(rows, dtype, tensor)
            return ArrayRows(rows)
        return _narrow(ArrayRows(rows), tensor)
    if isinstance(values, memoryview):
        tensor.check_count(len(values), "bytes", expected=tensor.size * dtype.itemsize)
        return ArrayRows(np.frombuffer(values, dtype).reshape(tensor.shape))
    return _rows_of_list(tensor, values, dtype)


def _narrow(rows: Rows, tensor: Tensor) -> Rows:
    return rows if tensor.datatype == "FP64" else _NarrowRows(rows, tensor)


def strings_of(tensor: Tensor, values: Values, *, allows_missing: bool = False) -> list[Any]:
    """Return the strings of an input of shape (n,) or (n, 1).

    Parameters
    ----------
    allows_missing
        Whether null is accepted, which becomes None.
    """
    if tensor.datatype != BYTES:
        detail = f"input '{tensor.name}' has datatype {tensor.datatype}; expected BYTES"
        raise_invalid_request(f"{tensor.pointer}/datatype", detail)
    if len(tensor.shape) not in (1, 2) or tensor.shape[1:] not in ((), (1,)):
        detail = f"input '{tensor.name}' has shape {list(tensor.shape)}; expected [rows]"
        raise_invalid_request(f"{tensor.pointer}/shape", detail)
    if isinstance(values, memoryview):
        try:
            # a small body may have very many strings: read one more than the shape allows
            strings: list[Any] = list(islice(read_strings(bytes(values)), tensor.size + 1))
        except ValueError as error:
            raise_invalid_request(
                tensor.pointer, f"input '{tensor.name}' is not a valid BYTES tensor: {error}"
            )
    else:
        strings = [
            value[0] if isinstance(value, list) and len(value) == 1 else value for value in values
        ]
    for i, value in enumerate(strings):
        if not isinstance(value, str) and not (allows_missing and value is None):
            place = f"{tensor.pointer}/data/{i}"
            raise_invalid_request(
                place, f"'{tensor.name}' of row {i} is {JSON_NAMES[type(value)]}; expected a string"
            )
    tensor.check_count(len(strings), "strings")
    return strings


def _shape(shape: object, name: str, pointer: str) -> tuple[int, ...]:
    if isinstance(shape, list) and float in map(type, shape):  # 3.0 is an integer in JSON Schema
        shape = [int(n) if isinstance(n, float) and n.is_integer() else n for n in shape]
    is_shape = isinstance(shape, list) and all(type(n) is int and 0 <= n < _MAX_DIM for n in shape)
    if not is_shape:
        detail = f"expected a list of integers from 0 to {_MAX_DIM - 1} as shape of input '{name}'"
        raise_invalid_request(f"{pointer}/shape", detail)
    assert isinstance(shape, list)
    return tuple(shape)


def _rows_of_list(tensor: Tensor, data: list[Any], dtype: np.dtype[Any]) -> Rows:
    (n_rows, width), pointer = tensor.shape, f"{tensor.pointer}/data"
    is_nested = bool(data) and isinstance(data[0], list)
    if is_nested:
        tensor.check_count(len(data), "rows", expected=n_rows)
        for i, row in enumerate(data):
            if not isinstance(row, list) or len(row) != width:
                actual = (
                    f"has {len(row)}" if isinstance(row, list) else f"is {JSON_NAMES[type(row)]}"
                )
                raise_invalid_request(
                    f"{pointer}/{i}", f"row {i} {actual}; expected {width} values as in the shape"
                )
    else:
        tensor.check_count(len(data), "values")
        if not tensor.size:
            return ArrayRows(np.empty(tensor.shape))
        data = [data[i : i + width] for i in range(0, tensor.size, width)]
    flat_width = None if is_nested else width
    if dtype.kind == "f":
        return _narrow(ListRows(data, pointer, flat_width), tensor)
    return ArrayRows(_integers(ListRows(data, pointer, flat_width), dtype, tensor))


def _integers(rows: ListRows, dtype: np.dtype[Any], tensor: Tensor) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    for i, row in enumerate(rows.rows):
        for j, value in enumerate(row):
            if type(value) is not int or not limits.min <= value <= limits.max:
                is_number = type(value) in (int, float)
                actual = value if is_number else JSON_NAMES[type(value)]
                raise_invalid_data(
                    f"input '{tensor.name}', row {i}, column {j} is {actual}; "
                    f"expected {tensor.datatype}, from {limits.min} to {limits.max}",
                    row=i,
                    column=j,
                    pointer=rows.place(i, j),
                )
    return np.array(rows.rows, dtype=dtype).reshape(tensor.shape)


def check_range(rows: NDArray[Any], dtype: np.dtype[Any], tensor: Tensor) -> None:
    """Raise a problem if an integer is out of the range of a datatype."""
    limits = np.iinfo(dtype)
    is_beyond = (rows < limits.min) | (rows > limits.max)
    if is_beyond.any():
        row, column = (int(i) for i in np.argwhere(is_beyond)[0])
        raise_invalid_data(
            f"input '{tensor.name}', row {row}, column {column} is {rows[row, column]}; "
            f"expected {tensor.datatype}, from {limits.min} to {limits.max}",
            row=row,
            column=column,
        )
