"""Heads that come again: a caller sends the one before, but for the length of the body."""

import re
from typing import Final, NamedTuple

from service.inference.arrival import Arrival

_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)\r\n", re.IGNORECASE)
#: A length has no more digits: bodies are far smaller.
_MOST_DIGITS: Final = 12


class _Before(NamedTuple):
    """A head as it came, without the digits of the length, and what it says."""

    until_length: bytes
    after_length: bytes
    arrival: Arrival


class Repeats:
    """Remembers the last head of a connection, which need not be parsed when it comes again."""

    def __init__(self) -> None:
        self._before: _Before | None = None

    def note(self, data: memoryview, arrival: Arrival) -> None:
        """Remember the head of one whole request; nothing where there is more in the data."""
        raw = bytes(data[: len(data) - arrival.n_bytes])
        length = _LENGTH.search(raw)
        if length is not None and raw.find(_END) == len(raw) - len(_END):
            self._before = _Before(raw[: length.start(1)], raw[length.end(1) :], arrival)

    def match(self, data: memoryview) -> tuple[Arrival, bytes] | None:
        """Give the request before and the body of one whole request with its head; else None."""
        before = self._before
        if before is None:
            return None
        raw = bytes(data)
        if not raw.startswith(before.until_length):
            return None
        start = len(before.until_length)
        end = raw.find(b"\r", start, start + _MOST_DIGITS + 1)
        digits = raw[start:end]
        body = raw[end + len(before.after_length) :]
        is_alike = end > start and raw.startswith(before.after_length, end)
        if not (is_alike and digits.isdigit() and int(digits) == len(body)):
            return None
        return before.arrival, body
