"""Requests with size limits; headers, request ids and trace contexts."""

import random
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import Scope

from service.http.bodies import parse_bounded_json, read_body
from service.observability.tracing import TRACEPARENT, current_traceparent

#: Larger JSON is parsed in a thread: it would block the event loop.
_MAX_INLINE_BYTES: Final = 16 * 1024
#: Key in the scope of a request of the prefix that a proxy adds to all paths, such as ``/ml``.
PATH_PREFIX: Final = "path_prefix"
REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
# ids are unique, not secret: reading the system's randomness would switch threads
_ids: Final = random.Random()  # noqa: S311
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def request_id_of(header: str) -> str:
    """Return the id of a request: the caller's if it is valid, else a new one."""
    return header if header and REQUEST_ID.fullmatch(header) else f"{_ids.getrandbits(128):032x}"


class StrictRequest(Request):
    """A request with a body of limited size and strict JSON."""

    async def body(self) -> bytes:
        """Return the body of a control route, which is any route except uploads and inference.

        Raises
        ------
        Problem
            The body is larger than the limit; raised before it is read if its length is known.
        """
        return await self.read(self.app.state.settings.max_control_body_bytes)

    async def read(self, limit: int) -> bytes:
        """Return the body, which may have ``limit`` bytes; raise a problem if it is larger."""
        if not hasattr(self, "_body"):
            length = self.plain_headers.get("content-length", "")
            self._body = await read_body(self.receive, length, limit)
        return self._body

    @cached_property
    def plain_headers(self) -> dict[str, str]:
        """The headers by name, faster than looking up several in ``headers``."""
        return headers_of(self.scope["headers"])

    async def json(self) -> Any:
        """Return the value of a JSON body of limited depth and number of values."""
        body = await self.body()
        if len(body) <= _MAX_INLINE_BYTES:
            return parse_bounded_json(body)
        return await run_in_threadpool(parse_bounded_json, body)


def prefix_of(scope: Scope) -> str:
    """Return the prefix of the paths of links, such as ``/ml``; empty without a proxy's prefix."""
    return str(scope.get(PATH_PREFIX, ""))


def base_of(request: Request) -> str:
    """Return the URL under which the caller reaches the service, without a slash at the end."""
    return f"{str(request.base_url).rstrip('/')}{prefix_of(request.scope)}"


def headers_of(pairs: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the first header of each name, and all of ``accept``."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(pairs)}
    if len(headers) < len(pairs) and "accept" in headers:
        accepted = (value.decode("latin-1") for name, value in pairs if name == b"accept")
        headers["accept"] = ",".join(accepted)
    return headers


def trace_parent(request: Request) -> str | None:
    """Return the W3C trace context of the request: of its span, or else of its header if valid."""
    traced = current_traceparent()
    if traced is not None:
        return traced
    header = request.headers.get(TRACEPARENT, "")
    return header if _TRACEPARENT.fullmatch(header) else None
