"""The .npy format, read without pickle and without trust in the header."""

import io
import math
import re
from typing import Any, Final, NoReturn

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from service.errors.problems import Problem
from service.http.npy_header import MAX_SIZE_BYTES, InvalidHeader, read_header
from service.inference.call import ArrayRows, Body, Call, InferenceResult, raise_invalid_request
from service.inference.task_column import TaskSource

_MAX_DIMENSIONS: Final = 8
_NUMBER_DTYPES: Final = re.compile(r"[<>|=](?:[iu][1248]|f[248])")


def read_npy(body: Body, tasks: TaskSource) -> Call:
    """Parse an array, whose task is in the query, or the single one of the model."""
    task = tasks.choose({})
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
    try:
        # of a copy of its beginning: the body may be large, and BytesIO copies a bytearray
        descr, is_fortran, shape, start = read_header(io.BytesIO(body[:MAX_SIZE_BYTES]).read)
    except InvalidHeader as error:
        _raise_malformed(str(error))
    if not isinstance(descr, str) or not _NUMBER_DTYPES.fullmatch(descr):
        _raise_malformed(
            f"its dtype is {str(descr)[:40]!r}; expected floats or integers of up to 64 bits"
        )
    if len(shape) > _MAX_DIMENSIONS:
        _raise_malformed(f"it has {len(shape)} dimensions")
    dtype: np.dtype[Any] = np.dtype(descr)
    expected, actual = math.prod(shape) * dtype.itemsize, len(body) - start
    if expected != actual:
        _raise_malformed(f"shape {shape} of {dtype} takes {expected} bytes, got {actual}")
    flat = np.frombuffer(body, dtype, offset=start)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _raise_malformed(why: str) -> NoReturn:
    raise Problem("malformed-body", f"the body is not a valid .npy array: {why}")
