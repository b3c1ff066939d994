"""The .npy format, read without pickle and without trust in the header."""

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
#: Size of the header length field by format version.
_LENGTH_BYTES: Final = {1: 2, 2: 4, 3: 4}
#: A typical header has about a hundred bytes.
_MAX_HEADER_BYTES: Final = 10_000
_MAX_DIMENSIONS: Final = 8
_NUMBER_DTYPES: Final = re.compile(r"[<>|=](?:[iu][1248]|f[248])")


def read_npy(body: Body, task: str | None) -> Call:
    """Parse an array, whose task is in the query."""
    if task is None:
        raise_invalid_request("query:task", "expected the query parameter 'task'")
    return Call(task, ArrayRows(_read_array(body)))


def write_npy(result: InferenceResult) -> bytes:
    """Return the outputs as .npy."""
    buffer = io.BytesIO()
    npy_format.write_array(buffer, result.outputs, allow_pickle=False)
    return buffer.getvalue()


def _read_array(body: Body) -> NDArray[Any]:
    """Return the array in a body without copying it.

    Raises
    ------
    Problem
        The body is not a .npy array of numbers, or its size does not match its header.
    """
    header, start = _split(body)
    try:
        fields = ast.literal_eval(header.strip())
        descr, is_fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        _raise_malformed("its header is not valid")
    if not isinstance(descr, str) or not _NUMBER_DTYPES.fullmatch(descr):
        _raise_malformed(
            f"its dtype is {str(descr)[:40]!r}; expected floats or integers of up to 64 bits"
        )
    if not isinstance(is_fortran, bool) or not _is_shape(shape):
        _raise_malformed("its header has no valid shape")
    dtype: np.dtype[Any] = np.dtype(descr)
    expected, actual = math.prod(shape) * dtype.itemsize, len(body) - start
    if expected != actual:
        _raise_malformed(f"shape {shape} of {dtype} takes {expected} bytes, got {actual}")
    flat = np.frombuffer(body, dtype, offset=start)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _split(body: Body) -> tuple[str, int]:
    """Return the header and the offset of the numbers."""
    n_length = _LENGTH_BYTES.get(body[6], 0) if len(body) > 8 else 0
    if not body.startswith(_MAGIC) or not n_length:
        _raise_malformed("it does not begin with the .npy magic")
    start = 8 + n_length
    length = int.from_bytes(body[8:start], "little")
    if length > min(_MAX_HEADER_BYTES, len(body) - start):
        _raise_malformed(f"its header of {length} bytes is truncated or too long")
    return body[start : start + length].decode("latin-1"), start + length


def _is_shape(shape: object) -> bool:
    """Return whether a value is a valid shape of an array."""
    if not isinstance(shape, tuple) or len(shape) > _MAX_DIMENSIONS:
        return False
    return all(type(n) is int and 0 <= n < 2**31 for n in shape)


def _raise_malformed(why: str) -> NoReturn:
    raise Problem("malformed-body", f"the body is not a valid .npy array: {why}")
