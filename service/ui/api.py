"""Requests of pages to the API, in the same process, with the access of the caller."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson
from starlette.requests import Request
from starlette.types import Message, Scope

from service.http.paging import MAX_PAGE_SIZE
from service.http.requests import PATH_PREFIX

#: Status of requests that the state of a resource does not allow.
WRONG_STATE: Final = 409
#: Headers of the request for a page that its requests to the API have too.
_FORWARDED = frozenset({b"host", b"authorization", b"cookie", b"x-request-id"})


class Refused(Exception):
    """An error response of the API.

    Parameters
    ----------
    problem
        Its body.
    """

    def __init__(self, problem: dict[str, Any]) -> None:
        super().__init__(problem["detail"])
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the error, which needs more than its message."""
        return type(self), (self.problem,), vars(self)


@dataclass(frozen=True, slots=True)
class Api:
    """The API with the access of the request for a page."""

    request: Request

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Return the JSON of a resource.

        Parameters
        ----------
        query
            Query parameters; None and empty values are left out.

        Raises
        ------
        Refused
            The status is not 2xx.
        """
        params = [(name, value) for name, value in query.items() if value not in (None, "")]
        status, body = await self._send(path, urlencode(params, doseq=True))
        parsed: dict[str, Any] = orjson.loads(body)
        if not 200 <= status < 300:
            raise Refused(parsed)
        return parsed

    async def find(self, path: str, *, refused: int = 404, **query: Any) -> dict[str, Any] | None:
        """Return the JSON of a resource, or None if it does not exist.

        Parameters
        ----------
        refused
            Another status for which None is returned.
        """
        try:
            return await self.get(path, **query)
        except Refused as error:
            if error.problem["status"] in (404, refused):
                return None
            raise

    async def items(self, path: str, *, limit: int, **query: Any) -> list[dict[str, Any]]:
        """Return the first items of a collection: pages until there are at least ``limit``."""
        items: list[dict[str, Any]] = []
        token: str | None = ""
        while token is not None and len(items) < limit:
            page = await self.get(path, page_size=MAX_PAGE_SIZE, page_token=token, **query)
            items += page["items"]
            token = page["next_page_token"]
        return items

    async def text(self, path: str, *, accept: str = "*/*") -> str:
        """Return the text of a resource; empty if the caller may not read it.

        Parameters
        ----------
        path
            Path, which may have a query.
        accept
            Media type of the text.
        """
        path, _, query = path.partition("?")
        status, body = await self._send(path, query, accept)
        return body.decode() if status == 200 else ""

    async def _send(self, path: str, query: str, accept: str = "*/*") -> tuple[int, bytes]:
        status = 0
        parts: list[bytes] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self.request.app(self._scope(path, query, accept), receive, send)
        return status, b"".join(parts)

    def _scope(self, path: str, query: str, accept: str) -> Scope:
        scope = self.request.scope
        keys = ("type", "asgi", "http_version", "scheme", "server", "client", "state", PATH_PREFIX)
        return {
            **{name: scope[name] for name in keys if name in scope},
            "method": "GET",
            "path": path,
            "raw_path": quote(path).encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                *(pair for pair in scope["headers"] if pair[0] in _FORWARDED),
                (b"accept", accept.encode()),
            ],
        }


def segment(text: str) -> str:
    """Return text as a segment of a path in a link."""
    return quote(text, safe="@")


def in_utc(query: Mapping[str, str]) -> dict[str, str]:
    """Return parameters of a page with its dates as times of the API; both days belong to it."""
    found = dict(query)
    for name, days in (("since", 0), ("until", 1)):
        with suppress(KeyError, ValueError, OverflowError):  # the API says what is wrong
            day = date.fromisoformat(found[name]) + timedelta(days=days)
            found[name] = f"{day}T00:00:00Z"
    return found
