"""Request bodies: size limits and JSON."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, NoReturn

import numpy as np
import orjson
from fastapi import Query
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from service.errors.problems import Problem
from service.errors.validation import json_pointer

JSON: Final = "application/json"
#: Bytes of any type.
OCTETS: Final = "application/octet-stream"
#: Query parameter of requests whose body is a file.
ContentType = Annotated[
    str | None,
    Query(
        max_length=200,
        description=f"Media type of a body that is sent as `{OCTETS}`, for clients that cannot "
        "choose the header Content-Type, such as generated ones.",
    ),
]
#: Maximum nesting depth of a bounded JSON body, well below what recursive code can handle.
MAX_DEPTH: Final = 64
#: Maximum number of values in a bounded JSON body: a mapping of 10,000 tasks has as many.
MAX_VALUES: Final = 50_000


def media_type_of(request: Request, content_type: str | None) -> str:
    """Return the media type of a body: the header, or the query parameter of plain bytes.

    Raises
    ------
    Problem
        Plain bytes without the query parameter, or the query parameter without plain bytes.
    """
    header = request.headers.get("content-type", "")
    is_plain = header.partition(";")[0].strip().lower() == OCTETS
    if is_plain == (content_type is not None):
        return header if content_type is None else content_type
    if is_plain:
        detail = f"name the media type of the body: ?content_type=text/csv, or in place of {OCTETS}"
        raise Problem("unsupported-media-type", detail)
    detail = f"content_type names the type of a body that is sent as {OCTETS}, not as {header!r}"
    entry = {"parameter": "query:content_type", "code": "conflict", "detail": detail}
    raise Problem("invalid-request", detail, errors=[entry])


def parse_json(body: bytes | bytearray) -> Any:
    """Return the value of a JSON body.

    Raises
    ------
    Problem
        The body is not strict JSON (no NaN, no lone surrogates), or contains a NUL character.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if not body.strip():
            raise Problem("malformed-json", "the body is missing; send JSON") from None
        raise Problem("malformed-json", f"the body is not JSON: {error}") from None
    if b"\\u0000" in body:
        _refuse_nul(value)
    return value


def parse_bounded_json(body: bytes) -> Any:
    """Return the value of a JSON body of limited depth and limited number of values.

    Both are checked on the bytes, since a megabyte of empty lists becomes 60 MB of objects.

    Raises
    ------
    Problem
        See :func:`parse_json`; or the body exceeds one of the limits.
    """
    depth, n_values = _measure(body)
    if depth > MAX_DEPTH:
        detail = f"the body is nested deeper than the limit of {MAX_DEPTH} levels"
        raise Problem("malformed-json", detail)
    if n_values > MAX_VALUES:
        detail = f"the body has more values than the limit of {MAX_VALUES}"
        raise Problem("body-too-large", detail)
    return parse_json(body)


def _measure(body: bytes) -> tuple[int, int]:
    """Return the deepest nesting of a JSON text, and an upper bound of its number of values."""
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")  # without escaped quotes
    text = np.frombuffer(plain, np.uint8)
    outside_strings = np.cumsum(text == ord('"'), dtype=np.int32) % 2 == 0
    opens = outside_strings & ((text == ord("[")) | (text == ord("{")))
    closes = outside_strings & ((text == ord("]")) | (text == ord("}")))
    commas = outside_strings & (text == ord(","))
    depths = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32)
    return int(depths.max(initial=0)), 1 + int(np.count_nonzero(opens | commas))


def _refuse_nul(value: Any) -> None:
    """Raise a problem if a string contains a NUL, which PostgreSQL cannot store."""
    path: list[str | int] = []
    # of the lists and objects around the current value, the members that are still to be visited
    waiting: list[Iterator[tuple[str | int, Any]]] = [iter(((0, value),))]
    while waiting:
        for key, member in waiting[-1]:
            if any(isinstance(text, str) and "\0" in text for text in (key, member)):
                _raise_nul(json_pointer([*path, key][1:]))
            if isinstance(member, dict | list):
                path.append(key)
                members = member.items() if isinstance(member, dict) else enumerate(member)
                waiting.append(iter(members))
                break
        else:
            waiting.pop()
            del path[-1:]


def _raise_nul(pointer: str) -> NoReturn:
    detail = f"{pointer!r} contains a NUL character; remove it"
    entry = {"pointer": pointer, "code": "nul", "detail": detail}
    raise Problem("invalid-request", detail, errors=[entry])


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
    """Raise a problem if Content-Length exceeds the limit."""
    _check_length(request.headers.get("content-length", ""), limit)


def _check_length(length: str, limit: int) -> None:
    if length.isdecimal() and int(length) > limit:
        raise too_large(limit)


def too_large(limit: int) -> Problem:
    """Return the problem of a body that exceeds its limit."""
    # the rest of the body is not read, so the connection cannot be used again
    return Problem(
        "body-too-large",
        f"the body is larger than the limit of {limit} bytes",
        headers={"Connection": "close"},
    )
