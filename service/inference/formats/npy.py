"""The .npy format: its header is read as data, checked, and only then believed."""

import ast
import io
import math
import re
from typing import Any, Final, NoReturn

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from service.errors import Problem
from service.inference.call import ArrayRows, Body, Call, InferenceResult, raise_invalid_request

_MAGIC: Final = b"\x93NUMPY"
#: Bytes that hold the length of the header, by version of the format.
_LENGTH_BYTES: Final = {1: 2, 2: 4, 3: 4}
#: The header of a plain array has some hundred bytes.
_MAX_HEADER_BYTES: Final = 10_000
_MAX_DIMENSIONS: Final = 8
_NUMBERS: Final = re.compile(r"[<>|=](?:[iu][1248]|f[248])")


def read_npy(body: Body, task: str | None) -> Call:
    """Return the call with the array in a body; its task is named in the query."""
    if task is None:
        raise_invalid_request("query:task", "name the task as ?task=...")
    return Call(task, ArrayRows(_read_array(body)))


def write_npy(result: InferenceResult) -> bytes:
    """Return the body of an answer."""
    buffer = io.BytesIO()
    npy_format.write_array(buffer, result.outputs, allow_pickle=False)
    return buffer.getvalue()


def _read_array(body: Body) -> NDArray[Any]:
    """Return the array of numbers in a body, without a copy and without trust.

    Raises
    ------
    Problem
        The body is no .npy array of numbers, or has other bytes than its header says.
    """
    header, start = _split(body)
    try:
        fields = ast.literal_eval(header.strip())
        descr, is_fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        _refuse("its header cannot be read")
    if not isinstance(descr, str) or not _NUMBERS.fullmatch(descr):
        _refuse(f"it holds {str(descr)[:40]!r}; expected floats or integers of up to 64 bits")
    if not isinstance(is_fortran, bool) or not _is_shape(shape):
        _refuse("its header has no proper shape")
    dtype: np.dtype[Any] = np.dtype(descr)
    expected, came = math.prod(shape) * dtype.itemsize, len(body) - start
    if expected != came:
        _refuse(f"shape {shape} of {dtype} takes {expected} bytes, {came} came")
    flat = np.frombuffer(body, dtype, offset=start)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _split(body: Body) -> tuple[str, int]:
    """Return the header as text, and where the numbers begin."""
    n_length = _LENGTH_BYTES.get(body[6], 0) if len(body) > 8 else 0
    if not body.startswith(_MAGIC) or not n_length:
        _refuse("it does not begin as one")
    start = 8 + n_length
    length = int.from_bytes(body[8:start], "little")
    if length > min(_MAX_HEADER_BYTES, len(body) - start):
        _refuse(f"its header of {length} bytes is cut off, or is none")
    return body[start : start + length].decode("latin-1"), start + length


def _is_shape(shape: object) -> bool:
    """Return whether this is a shape that numpy can hold."""
    if not isinstance(shape, tuple) or len(shape) > _MAX_DIMENSIONS:
        return False
    return all(type(n) is int and 0 <= n < 2**31 for n in shape)


def _refuse(why: str) -> NoReturn:
    raise Problem("malformed-body", f"the body is not a readable .npy array: {why}")
