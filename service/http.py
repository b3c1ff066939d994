"""Conventions that every route shares: bodies, pages, ETags, request ids, idempotency."""

import base64
import binascii
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final, Generic, TypeVar
from uuid import uuid4

import orjson
import structlog
from fastapi import Depends, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import KINDS, Problem
from service.logs import log

MAX_PAGE_SIZE: Final = 200
_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")


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
            limit = self.app.state.services.settings.max_body_bytes
            check_length(self, limit)
            body = bytearray()
            async for chunk in self.stream():
                body += chunk
                if len(body) > limit:
                    raise too_large(limit)
            self._body = bytes(body)
        return self._body

    async def json(self) -> Any:
        """Give the body read as JSON: no NaN, no lone surrogates, no bare control characters."""
        return parse_json(await self.body())


class StrictRoute(APIRoute):
    """A route that reads its body through :class:`StrictRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give the handler."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strict


def parse_json(body: bytes) -> Any:
    """Give the value of a JSON body, or raise the problem that says where it ends being JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem("malformed-json", f"the body is not JSON: {error}") from None


def check_length(request: Request, limit: int) -> None:
    """Refuse a body that says itself that it is too large."""
    length = request.headers.get("content-length", "")
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

    type: str
    title: str
    status: int
    code: str = Field(description="Stable code; all are in docs/errors.md.")
    detail: str = Field(description="What was expected, what came, where, what to do.")
    request_id: str | None
    errors: list[Place]


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Give the documentation of the problems that a route answers; 500 and 503 always may be."""
    by_status: dict[int | str, list[str]] = {}
    for code in (*codes, "internal", "unavailable"):
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {
        status: {
            "model": ProblemSchema,
            "description": "; ".join(f"`{code}`: {KINDS[code].title}" for code in codes_),
            "content": {"application/problem+json": {}},
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
        if self.page_token is None:
            return None
        try:
            return base64.urlsafe_b64decode(self.page_token.encode()).decode()
        except (binascii.Error, UnicodeError):
            raise Problem(
                "invalid-page-token", f"'{self.page_token}' is not a page token"
            ) from None


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
        token = base64.urlsafe_b64encode(key(shown[-1]).encode()).decode()
    return Page(items=shown, next_page_token=token)


def etag(value: str) -> str:
    """Give a strong ETag."""
    return f'"{value}"'


def is_not_modified(request: Request, tag: str) -> bool:
    """Tell whether the caller has this version already."""
    return _names(request.headers.get("if-none-match", ""), tag)


def check_if_match(request: Request, tag: str) -> None:
    """Refuse where the caller speaks of another version."""
    wanted = request.headers.get("if-match")
    if wanted is not None and not _names(wanted, tag):
        raise Problem("precondition-failed", f"If-Match is {wanted}, but the resource is now {tag}")


def _names(header: str, tag: str) -> bool:
    return any(t.strip().removeprefix("W/") in ("*", tag) for t in header.split(","))


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


def _owner() -> str:
    return "local"


#: Who asks: every row belongs to an owner, and others do not see it.
Owner = Annotated[str, Depends(_owner)]


class RequestContext:
    """Gives each request an id, says it back, and logs one event per request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        started = time.monotonic()
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode("latin-1")),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            elapsed_ms = round((time.monotonic() - started) * 1000, 2)
            log.info(
                "request",
                method=scope["method"],
                route=getattr(scope.get("route"), "path", None),
                status=status,
                elapsed_ms=elapsed_ms,
            )
