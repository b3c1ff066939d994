"""Bodies of requests: received within a limit, and parsed as JSON."""

from collections.abc import Iterator
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from service.errors import Problem, json_pointer

JSON: Final = "application/json"


def parse_json(body: bytes | bytearray) -> Any:
    """Return the value of a JSON body.

    Raises
    ------
    Problem
        The body is not JSON, which is strict: no NaN, no lone surrogates; or it holds a NUL.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem("malformed-json", f"the body is not JSON: {error}") from None
    if b"\\u0000" in body:
        _refuse_nul(value)
    return value


def _refuse_nul(value: Any) -> None:
    """Raise a problem where a text holds a NUL, which PostgreSQL cannot store."""
    for path, leaf in walk(value):
        if any(isinstance(text, str) and "\0" in text for text in (*path[-1:], leaf)):
            pointer = json_pointer(path)
            detail = f"{pointer!r} holds a NUL character; leave it out"
            entry = {"pointer": pointer, "code": "nul", "detail": detail}
            raise Problem("invalid-request", detail, errors=[entry])


def walk(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every value with its path, without recursion."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        path, here = waiting.pop()
        yield path, here
        if isinstance(here, dict):
            waiting += (((*path, key), item) for key, item in here.items())
        elif isinstance(here, list):
            waiting += (((*path, i), item) for i, item in enumerate(here))


async def read_body(receive: Receive, length: str, limit: int) -> bytes:
    """Receive a body.

    Parameters
    ----------
    length
        The header ``Content-Length``, empty if it is missing.

    Raises
    ------
    Problem
        The body is larger than the limit; raised before it is read if its length is known.
    ClientDisconnect
        The client closed the connection.
    """
    _check_length(length, limit)
    chunks, size, is_more = [], 0, True
    while is_more:  # Request.stream() takes longer than reading a small body
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        is_more = message.get("more_body", False)
        size += len(chunks[-1])
        if size > limit:
            raise too_large(limit)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def check_length(request: Request, limit: int) -> None:
    """Refuse a body whose Content-Length exceeds the limit."""
    _check_length(request.headers.get("content-length", ""), limit)


def _check_length(length: str, limit: int) -> None:
    if length.isdecimal() and int(length) > limit:
        raise too_large(limit)


def too_large(limit: int) -> Problem:
    """Return the problem of a body that exceeds its limit."""
    # the rest of the body is not read, so the connection cannot be used again
    return Problem(
        "body-too-large",
        f"the body is larger than {limit} bytes, the limit here",
        headers={"Connection": "close"},
    )
