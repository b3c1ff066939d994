"""The one large list of a JSON body, read into an array without an object for each number."""

import math
import re
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.kernels_decimals import (
    NOT_PLAIN,
    TO_END,
    count_of,
    read_lists,
)
from service.inference.call import Body, Matrix

#: Stands in the rest of a body where the list was; no caller knows it.
PLACEHOLDER: Final = secrets.token_hex(16)
_PLACEHOLDER: Final = f'"{PLACEHOLDER}"'.encode()
#: A small body is not gone through once more to count its numbers.
_SMALL_BYTES: Final = 64 * 1024
#: Numbers of so many digits, or so large or small, that they are read one by one.
_MAX_UNPARSED: Final = 64
#: Members of the name that are tried: the first may hold texts.
_MAX_TRIES: Final = 4
_COMMA: Final = ord(",")
#: A body of more is read by two threads, as long as the second one has nothing else to do.
_SHARED_BYTES: Final = 1024 * 1024
_MAX_WHITESPACE: Final = 100
_other: Final = ThreadPoolExecutor(1, "numbers")
_is_free: Final = threading.Lock()


class ExtractedArray(NamedTuple):
    """Array of numbers parsed from a JSON body, and the rest of the body.

    Attributes
    ----------
    numbers
        Finite numbers, (n,), or (n_rows, width) for a list of lists.
    is_integer
        Whether every number is written as an integer.
    rest
        The body with ``PLACEHOLDER`` in place of the list. The body is valid JSON if and only if
        the rest is, and if the placeholder is then the value of the member.
    """

    numbers: NDArray[np.float64]
    is_integer: bool
    rest: bytes


def array_pattern(member: str) -> re.Pattern[bytes]:
    """Return what a list begins with that is the value of a member."""
    return re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[' % member.encode())


def extract_number_array(body: Body, beginning: re.Pattern[bytes]) -> ExtractedArray | None:
    """Return the first list of numbers that begins so; None where there is none that is plain."""
    text = np.frombuffer(body, np.uint8, count=body.rfind(b"}") + 1)
    is_small = text.size <= _SMALL_BYTES
    values = np.empty(text.size // 2 if is_small else count_of(text, _COMMA) + 1)
    for match in islice(beginning.finditer(body), _MAX_TRIES):
        start = match.end()
        if start >= text.size:
            break
        parallel = None if is_small else _read_in_two_threads(body, text, start, values)
        read = parallel or _read(body, text, start, values)
        if read is not None:
            rest = b"".join((body[: start - 1], _PLACEHOLDER, body[read.end :]))
            numbers = values[: read.n]
            shaped = numbers.reshape(read.n_rows, -1) if read.n_rows else numbers
            return ExtractedArray(shaped, read.is_integer, rest)
    return None


class _Read(NamedTuple):
    """How far a list was read, and what was found."""

    end: int
    n: int
    n_rows: int
    is_integer: bool


def _read(
    body: Body, text: NDArray[np.uint8], start: int, values: Matrix, stop: np.uint64 = TO_END
) -> _Read | None:
    hard, facts = np.empty((_MAX_UNPARSED, 3), np.uint64), np.empty(4, np.uint64)
    end = read_lists(text, np.uint64(start), values, hard, facts, stop)
    if end == NOT_PLAIN:
        return None
    n, n_rows, n_hard, is_integer = facts.tolist()
    for i, first, last in hard[:n_hard].tolist() if n_hard else ():
        values[i] = float(body[first:last])
        if math.isinf(values[i]):
            return None
    return _Read(int(end), n, n_rows, bool(is_integer))


def _read_in_two_threads(
    body: Body, text: NDArray[np.uint8], start: int, values: Matrix
) -> _Read | None:
    """Read a large list by two threads; None where it is small, they are busy, or it is odd."""
    if text.size - start < _SHARED_BYTES or not _is_free.acquire(blocking=False):
        return None
    try:
        middle = (start + text.size) // 2
        is_nested = body[start : start + _MAX_WHITESPACE].lstrip().startswith(b"[")
        end_of_row = body.find(b"]", middle) if is_nested else middle  # rows are kept whole
        comma = body.find(b",", max(end_of_row, middle))
        if comma < 0:
            return None
        n = count_of(text[start:comma], _COMMA) + 1
        second = _other.submit(_read, body, text, comma + 1, values[n:])
        ours, theirs = _read(body, text, start, values, np.uint64(comma)), second.result()
    finally:
        _is_free.release()
    if ours is None or theirs is None or (ours.end, ours.n) != (comma + 1, n):
        return None
    if ours.n * theirs.n_rows != theirs.n * ours.n_rows:
        return None
    return _Read(
        theirs.end,
        n + theirs.n,
        ours.n_rows + theirs.n_rows,
        ours.is_integer and theirs.is_integer,
    )
