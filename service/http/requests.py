"""Requests: headers, ids, and bodies within limits."""

import random
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from starlette.requests import Request

from service.errors import Problem
from service.http.bodies import parse_json, read_body, walk

#: Deepest nesting of a JSON body, well below what recursive code can handle.
MAX_DEPTH: Final = 64
REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
# ids are unique, not secret: reading the system's randomness would switch threads
_ids: Final = random.Random()  # noqa: S311
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def request_id_of(given: str) -> str:
    """Return the id of a request: the caller's if it is valid, else a new one."""
    return given if REQUEST_ID.fullmatch(given) else f"{_ids.getrandbits(128):032x}"


class StrictRequest(Request):
    """A request whose body is bounded, and whose JSON is JSON."""

    async def body(self) -> bytes:
        """Return the body.

        Raises
        ------
        Problem
            The body is larger than the limit; raised before it is read if its length is known.
        """
        if not hasattr(self, "_body"):
            limit = self.app.state.settings.max_body_bytes
            length = self.plain_headers.get("content-length", "")
            self._body = await read_body(self.receive, length, limit)
        return self._body

    @cached_property
    def plain_headers(self) -> dict[str, str]:
        """The headers by name, faster than looking up several in ``headers``."""
        return headers_of(self.scope["headers"])

    async def json(self) -> Any:
        """Return the value of a JSON body of limited depth."""
        value = parse_json(await self.body())
        for path, _ in walk(value):
            if len(path) > MAX_DEPTH:
                detail = f"the body is nested deeper than {MAX_DEPTH} levels, the limit here"
                raise Problem("malformed-json", detail)
        return value


def headers_of(pairs: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the first header of each name, and all of ``accept``."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(pairs)}
    if len(headers) < len(pairs) and "accept" in headers:
        accepted = (value.decode("latin-1") for name, value in pairs if name == b"accept")
        headers["accept"] = ",".join(accepted)
    return headers


def trace_parent(request: Request) -> str | None:
    """Return the caller's W3C trace context, or None if it is malformed."""
    given = request.headers.get("traceparent", "")
    return given if _TRACEPARENT.fullmatch(given) else None
