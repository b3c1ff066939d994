"""Conventions that every route shares: bodies, pages, ETags, request ids, idempotency."""

import base64
import binascii
import random
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar

import orjson
from fastapi import Depends, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from service.access.authenticator import Authenticator
from service.errors import ANYWHERE, ERRORS, PROBLEM_TYPE, Problem, json_pointer

JSON: Final = "application/json"
MAX_PAGE_SIZE: Final = 200
#: Nesting that no request of ours needs, well below what recursive code can bear.
MAX_DEPTH: Final = 64
REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
# told apart, not kept secret: the system's own randomness would let other threads go first
_ids: Final = random.Random()  # noqa: S311
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_TOKEN_CHECK_BYTES: Final = 6
_READING: Final = ("GET", "HEAD", "OPTIONS")


def request_id_of(given: str) -> str:
    """Give the id of a request: what its caller gives, if that can be one, or else a new one."""
    return given if REQUEST_ID.fullmatch(given) else f"{_ids.getrandbits(128):032x}"


class StrictRequest(Request):
    """A request whose body is bounded, and whose JSON is JSON."""

    async def body(self) -> bytes:
        """Give the body.

        Raises
        ------
        Problem
            The body is larger than the limit, told before it is read where its length is known.
        """
        if not hasattr(self, "_body"):
            limit = self.app.state.settings.max_body_bytes
            length = self.plain_headers.get("content-length", "")
            self._body = await read_body(self.receive, length, limit)
        return self._body

    @cached_property
    def plain_headers(self) -> dict[str, str]:
        """The headers by name: looking up several, one after the other, is slow."""
        return headers_of(self.scope["headers"])

    async def json(self) -> Any:
        """Give the body read as JSON: no NaN, no lone surrogates, no nesting without end."""
        value = parse_json(await self.body())
        for path, _ in _walk(value):
            if len(path) > MAX_DEPTH:
                detail = f"the body is nested deeper than {MAX_DEPTH} levels, the limit here"
                raise Problem("malformed-json", detail)
        return value


class StrictRoute(APIRoute):
    """A route that asks who calls, then reads the body through :class:`StrictRequest`.

    Attributes
    ----------
    needed
        What a key must allow to write and to read; None where any key will do.
    """

    needed: ClassVar[tuple[str | None, str | None]] = (None, None)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give the handler."""
        handle = super().get_route_handler()
        takes_json = self.body_field is not None

        async def strict(request: Request) -> Response:
            bounded = StrictRequest(request.scope, request.receive)
            request.scope["owner"] = await self.owner_of(bounded)
            if takes_json:
                _check_is_json(request)
            return await handle(bounded)

        return strict

    async def owner_of(self, request: StrictRequest) -> str:
        """Return the caller's owner. Runs before the body is read: strangers cost little."""
        authenticator: Authenticator = request.app.state.authenticator
        needed = self.needed[request.method in _READING]
        authorization = request.plain_headers.get("authorization")
        known = authenticator.cached_owner(authorization, needed)
        if known is not None:
            return known
        return await run_in_threadpool(authenticator.authenticate, authorization, needed)


def secured(scope: str | None) -> type[StrictRoute]:
    """Give the class of routes that need a scope, such as ``jobs:{}`` for read and write."""
    needed = (None, None) if scope is None else (scope.format("write"), scope.format("read"))
    return type("SecuredRoute", (StrictRoute,), {"needed": needed})


def headers_of(pairs: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the first header of each name, and all of ``accept``."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(pairs)}
    if len(headers) < len(pairs) and "accept" in headers:
        accepted = (value.decode("latin-1") for name, value in pairs if name == b"accept")
        headers["accept"] = ",".join(accepted)
    return headers


async def read_body(receive: Receive, length: str, limit: int) -> bytes:
    """Receive a body.

    Parameters
    ----------
    length
        The header ``Content-Length``, empty where there is none.

    Raises
    ------
    Problem
        The body is larger than the limit; raised before it is read if its length is known.
    ClientDisconnect
        The client is gone.
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


def _check_is_json(request: Request) -> None:
    """Refuse what is not called JSON: a page elsewhere may send text unasked, but not JSON."""
    headers = request.headers
    given = headers.get("content-type", "")
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if (given or has_body) and given.partition(";")[0].strip().lower() != JSON:
        came = f"'{given}'" if given else "a body without Content-Type"
        raise Problem("unsupported-media-type", f"{came} is not read here; send {JSON}")


def parse_json(body: bytes | bytearray) -> Any:
    """Give the value of a JSON body, or raise the problem that says where it ends being JSON."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem("malformed-json", f"the body is not JSON: {error}") from None
    if b"\\u0000" in body:
        _refuse_nul(value)
    return value


def _refuse_nul(value: Any) -> None:
    """Raise the problem that says where a NUL is: PostgreSQL cannot keep it in a text."""
    for path, leaf in _walk(value):
        if any(isinstance(text, str) and "\0" in text for text in (*path[-1:], leaf)):
            pointer = json_pointer(path)
            detail = f"{pointer!r} holds a NUL character; leave it out"
            entry = {"pointer": pointer, "code": "nul", "detail": detail}
            raise Problem("invalid-request", detail, errors=[entry])


def _walk(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Give every value with its path, without recursion."""
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        path, here = waiting.pop()
        yield path, here
        if isinstance(here, dict):
            waiting += (((*path, key), item) for key, item in here.items())
        elif isinstance(here, list):
            waiting += (((*path, i), item) for i, item in enumerate(here))


def check_length(request: Request, limit: int) -> None:
    """Refuse a body that says itself that it is too large."""
    _check_length(request.headers.get("content-length", ""), limit)


def _check_length(length: str, limit: int) -> None:
    if length.isdecimal() and int(length) > limit:
        raise too_large(limit)


def too_large(limit: int) -> Problem:
    """Give the problem of a body beyond its limit."""
    # the rest of the body is not read, so the connection cannot be used again
    return Problem(
        "body-too-large",
        f"the body is larger than {limit} bytes, the limit here",
        headers={"Connection": "close"},
    )


class WireModel(BaseModel):
    """A schema: unknown fields are an error, and ``true`` is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Place(BaseModel):
    """One place of an error."""

    pointer: str | None = Field(None, description="JSON pointer into the request body.")
    parameter: str | None = Field(None, description="Query, path or header parameter.")
    code: str
    detail: str
    task: str | None = None
    row: int | None = None
    column: str | int | None = None


class ProblemSchema(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(title="Problem")

    type: str
    title: str
    status: int
    code: str = Field(description="Stable code; all are in docs/errors.md.")
    detail: str = Field(description="What was expected, what came, where, what to do.")
    request_id: str | None
    errors: list[Place]


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Give the documentation of the problems that a route answers, with those that all may."""
    by_status: dict[int | str, list[str]] = {}
    for code in (*codes, *(code for code in ANYWHERE if code not in codes)):
        by_status.setdefault(ERRORS[code].status, []).append(code)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": "; ".join(f"`{code}`: {ERRORS[code].title}" for code in codes_),
            "content": {PROBLEM_TYPE: {"schema": schema}},
        }
        for status, codes_ in by_status.items()
    }


def v2_problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Give the documentation of the problems of a route of the Open Inference Protocol."""
    by_status: dict[int | str, list[str]] = {}
    for code in dict.fromkeys((*codes, *ANYWHERE)):
        status = ERRORS[code].status
        by_status.setdefault(400 if status == 422 else status, []).append(code)
    return {
        status: {
            "description": "; ".join(f"`{code}`: {ERRORS[code].title}" for code in codes_),
            "content": {JSON: {"schema": {"$ref": "#/components/schemas/V2Error"}}},
        }
        for status, codes_ in by_status.items()
    }


class PageQuery(WireModel):
    """Which page of a collection."""

    model_config = ConfigDict(extra="forbid", strict=False)

    page_size: int = Field(50, ge=1, le=MAX_PAGE_SIZE, description="Most items on the page.")
    page_token: str | None = Field(None, max_length=400, description="From the page before.")

    def after(self) -> str | None:
        """Give the id after which the page begins."""
        return None if self.page_token is None else _read_token(self.page_token)


Paging = Annotated[PageQuery, Query()]
Item = TypeVar("Item")


class Page(BaseModel, Generic[Item]):
    """One page of a collection."""

    items: list[Item]
    next_page_token: str | None = Field(description="Of the next page; null on the last.")


def page(items: Sequence[Item], query: PageQuery, *, key: Callable[[Item], str]) -> Page[Item]:
    """Give the page of items that were read as one more than asked for, to see if there is more."""
    shown = list(items[: query.page_size])
    token = None
    if len(items) > query.page_size:
        token = _write_token(key(shown[-1]))
    return Page(items=shown, next_page_token=token)


def _write_token(key: str) -> str:
    data = key.encode()
    return base64.urlsafe_b64encode(_check_of(data) + data).decode()


def _read_token(token: str) -> str:
    """Give the key in a token; the check in it tells ours from made-up ones."""
    try:
        data = base64.b64decode(token.encode(), altchars=b"-_", validate=True)
    except binascii.Error:
        data = b""
    check, key = data[:_TOKEN_CHECK_BYTES], data[_TOKEN_CHECK_BYTES:]
    if check != _check_of(key):
        detail = f"'{token}' is not a page token; take next_page_token from the page before"
        entry = {"parameter": "query:page_token", "code": "invalid", "detail": detail}
        raise Problem("invalid-page-token", detail, errors=[entry])
    return key.decode()


def _check_of(key: bytes) -> bytes:
    return sha256(key).digest()[:_TOKEN_CHECK_BYTES]


def etag(value: str) -> str:
    """Give a strong ETag."""
    return f'"{value}"'


def is_not_modified(request: Request, tag: str) -> bool:
    """Tell whether the caller has this version already."""
    known = (t.removeprefix("W/") for t in _listed(request, "if-none-match"))
    return any(t in ("*", tag) for t in known)


def check_if_match(request: Request, tag: str) -> None:
    """Refuse where the caller speaks of another version; a weak tag never names one for sure."""
    wanted = _listed(request, "if-match")
    if wanted and not any(t in ("*", tag) for t in wanted):
        detail = f"If-Match is {', '.join(wanted)}, but the resource is now {tag}"
        raise Problem("precondition-failed", detail)


def check_overwrite(request: Request, tag: str | None) -> None:
    """Refuse to write over what the caller has not seen; ``tag`` is None where nothing is there."""
    if tag is None and _listed(request, "if-match"):
        raise Problem("precondition-failed", "If-Match is given, but nothing is there yet")
    if tag is None:
        return
    if is_not_modified(request, tag):
        detail = f"If-None-Match asks that it not be there, but the resource is now {tag}"
        raise Problem("precondition-failed", detail)
    if not _listed(request, "if-match"):
        detail = f"it is there already: say by If-Match what you write over, now {tag}"
        raise Problem("precondition-required", detail)
    check_if_match(request, tag)


def _listed(request: Request, header: str) -> list[str]:
    lines = request.headers.getlist(header)
    return [tag.strip() for line in lines for tag in line.split(",")]


def trace_parent(request: Request) -> str | None:
    """Give the W3C trace context of the caller; one that breaks the format is left out."""
    given = request.headers.get("traceparent", "")
    return given if _TRACEPARENT.fullmatch(given) else None


def json_response(value: BaseModel, *, status: int = 200, **headers: str) -> Response:
    """Give a JSON response with headers, their names written with underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(
        value.model_dump_json(), status_code=status, headers=named, media_type="application/json"
    )


def fingerprint(*parts: str | bytes) -> str:
    """Give one hash of several parts, told apart by their lengths."""
    digest = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return digest.hexdigest()


def app_state(name: str) -> Any:
    """Return a dependency: the part of the application that is called ``name``."""

    # async: FastAPI would call a plain function in a thread, slower than most inference requests
    async def part(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(part)


async def _owner(request: Request) -> str:
    return str(request.scope["owner"])


#: Who asks: every row belongs to an owner, and others do not see it.
Owner = Annotated[str, Depends(_owner)]
