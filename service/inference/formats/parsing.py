"""A parser of JSON for each thread, whose memory is used again."""

import threading
from typing import Any, Final

import simdjson

#: A parser keeps some ten times the largest body it has read: for larger ones it is made anew.
_KEPT_BYTES: Final = 8 * 1024 * 1024


class _Kept(threading.local):
    def __init__(self) -> None:
        self.parser = simdjson.Parser()


_kept: Final = _Kept()


def parse(body: bytes) -> Any:
    """Give the value of a body, which the caller must let go of before it parses another one.

    Memory that is fresh costs more than the parsing: every page of it is first filled with zeros.

    Raises
    ------
    ValueError, RuntimeError
        It is no JSON, or has an integer of more than 64 bits.
    """
    if len(body) > _KEPT_BYTES:
        return simdjson.Parser().parse(body)
    try:
        return _kept.parser.parse(body)
    except RuntimeError:
        # a value of the last body may live on in a traceback: then its parser cannot be used
        _kept.parser = simdjson.Parser()
        return _kept.parser.parse(body)
