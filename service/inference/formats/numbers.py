"""Extraction of a large list of numbers from a JSON body, without creating an object per number."""

import math
import re
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.inference.call import Body, Matrix
from service.inference.formats.decimals import (
    TO_END,
    UNSUPPORTED,
    count_byte,
    parse_lists,
)

#: Replaces the list in the rest of a body. It is random, so clients cannot send it.
PLACEHOLDER: Final = secrets.token_hex(16)
_PLACEHOLDER: Final = f'"{PLACEHOLDER}"'.encode()
#: In larger bodies, the numbers are counted to allocate the array exactly.
_MAX_UNCOUNTED_BYTES: Final = 64 * 1024
#: Maximum number of values that the kernel leaves unparsed: very long, very large or very small.
_MAX_UNPARSED: Final = 64
#: Maximum number of members with the name to try; the first may be a list of strings.
_MAX_TRIES: Final = 4
_COMMA: Final = ord(",")
#: Larger bodies are parsed by two threads, if the second thread is idle.
_MIN_PARALLEL_BYTES: Final = 1024 * 1024
_MAX_WHITESPACE: Final = 100
_executor: Final = ThreadPoolExecutor(1, "numbers")
_executor_lock: Final = threading.Lock()


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
    """Return a pattern for the start of a list that is the value of a member."""
    return re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[' % member.encode())


def extract_number_array(body: Body, start_pattern: re.Pattern[bytes]) -> ExtractedArray | None:
    """Extract the first list of numbers after a match; None if the kernel can parse none."""
    text = np.frombuffer(body, np.uint8, count=body.rfind(b"}") + 1)
    for match in islice(start_pattern.finditer(body), _MAX_TRIES):
        start = match.end()
        if start >= text.size:
            break
        split = _split_of(body, text, start)
        if split is None:
            is_small = text.size <= _MAX_UNCOUNTED_BYTES
            values = np.empty(text.size // 2 if is_small else _max_numbers(text[start:]))
            parsed = _parse(body, text, start, values)
        else:
            values = np.empty(split.n + _max_numbers(text[split.comma + 1 :]))
            parsed = _parse_in_two_threads(body, text, start, values, split)
            parsed = parsed or _parse(body, text, start, values)
        if parsed is not None:
            rest = b"".join((body[: start - 1], _PLACEHOLDER, body[parsed.end :]))
            numbers = values[: parsed.n]
            shaped = numbers.reshape(parsed.n_rows, -1) if parsed.n_rows else numbers
            return ExtractedArray(shaped, parsed.is_integer, rest)
    return None


class _ParsedList(NamedTuple):
    """End of a parsed list in the body, and properties of its numbers."""

    end: int
    n: int
    n_rows: int
    is_integer: bool


def _parse(
    body: Body, text: NDArray[np.uint8], start: int, values: Matrix, stop: np.uint64 = TO_END
) -> _ParsedList | None:
    unparsed, counts = np.empty((_MAX_UNPARSED, 3), np.uint64), np.empty(4, np.uint64)
    end = parse_lists(text, np.uint64(start), values, unparsed, counts, stop)
    if end == UNSUPPORTED:
        return None
    n, n_rows, n_unparsed, is_integer = counts.tolist()
    for i, first, last in unparsed[:n_unparsed].tolist() if n_unparsed else ():
        values[i] = float(body[first:last])
        if math.isinf(values[i]):
            return None
    return _ParsedList(int(end), n, n_rows, bool(is_integer))


def _max_numbers(text: NDArray[np.uint8]) -> int:
    return count_byte(text, _COMMA) + 1


class _Split(NamedTuple):
    """Where the second of two threads starts: after a comma in the text, and in the values."""

    comma: int
    n: int


def _split_of(body: Body, text: NDArray[np.uint8], start: int) -> _Split | None:
    """Return the middle of a large list, between rows if it has any; None for a small one."""
    if text.size - start < _MIN_PARALLEL_BYTES:
        return None
    middle = (start + text.size) // 2
    is_nested = body[start : start + _MAX_WHITESPACE].lstrip().startswith(b"[")
    end_of_row = body.find(b"]", middle) if is_nested else middle
    comma = body.find(b",", max(end_of_row, middle))
    if not 0 <= comma < text.size:
        return None
    return _Split(comma, _max_numbers(text[start:comma]))


def _parse_in_two_threads(
    body: Body, text: NDArray[np.uint8], start: int, values: Matrix, split: _Split
) -> _ParsedList | None:
    """Parse a list with two threads; None if it is irregular, or if the other one is busy."""
    comma, n = split
    if not _executor_lock.acquire(blocking=False):
        return None
    try:
        future = _executor.submit(_parse, body, text, comma + 1, values[n:])
        first, last = _parse(body, text, start, values, np.uint64(comma)), future.result()
    finally:
        _executor_lock.release()
    if first is None or last is None or (first.end, first.n) != (comma + 1, n):
        return None
    if first.n * last.n_rows != last.n * first.n_rows:
        return None
    return _ParsedList(
        last.end,
        n + last.n,
        first.n_rows + last.n_rows,
        first.is_integer and last.is_integer,
    )
