"""The one large list of a JSON body, read into an array without an object for each number."""

import math
import re
import secrets
from itertools import islice
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.kernels_decimals import (
    EXACT_POWERS,
    NOT_PLAIN,
    POWERS,
    count_of,
    read_lists,
)
from service.inference.call import Body, Matrix

#: Stands in the rest of a body where the list was; no caller knows it.
TOKEN: Final = secrets.token_hex(16)
_TOKEN: Final = f'"{TOKEN}"'.encode()
#: A small body is not gone through once more to count its numbers.
_SMALL_BYTES: Final = 64 * 1024
#: Numbers of so many digits, or so large or small, that they are read one by one.
_MOST_HARD: Final = 64
#: Members of the name that are tried: the first may hold texts.
_TRIED: Final = 4
_COMMA: Final = ord(",")


class Cut(NamedTuple):
    """A list of numbers, and the body without it.

    Attributes
    ----------
    numbers
        All are finite: (n,), or (n_rows, width) where they stand in lists of their own.
    is_integer
        All are written as integers.
    rest
        The body with ``TOKEN`` in the place of the list. It is JSON, with the token as a member of
        the name, just where the body is JSON, with the list there.
    """

    numbers: NDArray[np.float64]
    is_integer: bool
    rest: bytes


def beginning_of(member: str) -> re.Pattern[bytes]:
    """Give what a list begins with that is the value of a member."""
    return re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[' % member.encode())


def cut_out(body: Body, beginning: re.Pattern[bytes]) -> Cut | None:
    """Give the first list of numbers that begins so; None where there is none that is plain."""
    text = np.frombuffer(body, np.uint8, count=body.rfind(b"}") + 1)
    is_small = text.size <= _SMALL_BYTES
    values = np.empty(text.size // 2 if is_small else count_of(text, _COMMA) + 1)
    hard, facts = np.empty((_MOST_HARD, 3), np.uint64), np.empty(4, np.uint64)
    for match in islice(beginning.finditer(body), _TRIED):
        start = match.end()
        if start >= text.size:
            break
        end = read_lists(text, np.uint64(start), POWERS, EXACT_POWERS, values, hard, facts)
        if end != NOT_PLAIN:
            n, n_rows, n_hard, is_integer = facts.tolist()
            for i, first, last in hard[:n_hard].tolist():
                values[i] = float(body[first:last])
                if math.isinf(values[i]):
                    return None
            rest = b"".join((body[: start - 1], _TOKEN, body[int(end) :]))
            return Cut(_shaped(values[:n], n_rows), bool(is_integer), rest)
    return None


def _shaped(values: NDArray[np.float64], n_rows: int) -> NDArray[np.float64] | Matrix:
    return values.reshape(n_rows, -1) if n_rows else values
