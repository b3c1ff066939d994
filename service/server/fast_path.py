"""Fast path of inference requests, which bypasses the framework.

Requests with an unusual URL or an uncached API key go through their FastAPI routes and get the same
response.
"""

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service.access.authenticator import Authenticator
from service.http.bodies import read_body
from service.http.requests import headers_of, request_id_of
from service.inference.handler import MakeHandler, ParsedCall
from service.inference.statistics import Clock
from service.server.hosts import HostPolicy
from service.server.middleware import ADDED_HEADERS, RequestContext

#: Patterns of names, versions and tasks that need no URL decoding.
_PARAMETERS: Final = {
    "{name}": r"(?P<name>[A-Za-z0-9._@~-]{1,100})",
    "{version}": r"(?P<version>[1-9][0-9]{0,8})",
}
_QUERY: Final = r"(?:task=(?P<task>[A-Za-z0-9._~-]+))?"
#: Size of the cache of matched URLs, and the length above which URLs do not use the fast path.
_MAX_CACHED_URLS: Final = 1024
_MAX_URL_BYTES: Final = 400


class FastPath:
    """ASGI application that handles inference requests and passes all others to the framework.

    Parameters
    ----------
    handlers
        Factories of request handlers, by path of the route.
    """

    def __init__(self, app: FastAPI, handlers: Mapping[str, MakeHandler]) -> None:
        self._app = app
        self._handlers = handlers
        self._patterns = [(_pattern(path), path) for path in handlers]
        self._match = lru_cache(_MAX_CACHED_URLS)(self._find)
        self._hosts = HostPolicy(app.state.settings)
        self._report = RequestContext(_raise_error, app.state.metrics, self._hosts, calls=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        clock = Clock()
        parsed = self._parse(scope)
        if parsed is None:
            await self._app(scope, receive, send)
            return
        state = self._app.state
        try:
            length = parsed.headers.get("content-length", "")
            body = await read_body(receive, length, state.settings.max_body_bytes)
            reply = await self._handlers[parsed.path](state.inference, parsed, body, clock).run()
        # raised again in RequestContext, which reports it
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001
            failed = {"route": parsed, "error": error, "started_s": clock.arrived / 1e9}
            await self._report({**scope, **failed}, receive, send)
            return
        request_id = request_id_of(parsed.headers.get("x-request-id", ""))
        own = {"content-length": str(len(reply.body)), "x-request-id": request_id}
        headers = [(k.encode(), v.encode("latin-1")) for k, v in (reply.headers | own).items()]
        headers += ADDED_HEADERS
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
        state.metrics.observe_request(
            method="POST", route=parsed.path, status=200, elapsed_s=clock.total_s()
        )

    def _parse(self, scope: Scope) -> ParsedCall | None:
        """Return the request if the fast path can handle it, else None."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return None
        url = scope["raw_path"], scope["query_string"]
        if sum(map(len, url)) > _MAX_URL_BYTES:
            return None
        headers = headers_of(scope["headers"])
        if "origin" in headers or not self._hosts.allows(headers.get("host")):
            return None
        authenticator: Authenticator = self._app.state.authenticator
        owner = authenticator.cached_owner(headers.get("authorization"), "infer")
        if owner is None:
            return None
        found = self._match(*url)  # cached only for callers with a key
        return None if found is None else ParsedCall(**found, owner=owner, headers=headers)

    def _find(self, raw_path: bytes, query: bytes) -> dict[str, Any] | None:
        """Return the route path and the parameters of a URL, None if no route matches."""
        url = b"%b?%b" % (raw_path, query)
        for pattern, path in self._patterns:
            match = pattern.fullmatch(url.decode("latin-1"))
            if match is not None:
                version = match.groupdict().get("version")
                number = None if version is None else int(version)
                return {
                    "path": path,
                    "name": match["name"],
                    "version": number,
                    "task": match["task"],
                }
        return None


def _pattern(path: str) -> re.Pattern[str]:
    for part, pattern in _PARAMETERS.items():
        path = path.replace(part, pattern)
    return re.compile(path + r"\?" + _QUERY)


async def _raise_error(scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
    raise scope["error"]
