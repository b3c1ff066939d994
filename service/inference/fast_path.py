"""Ordinary inference requests, answered in front of the framework.

A request with an unusual URL or an unknown key goes on to its route, which answers the same. What
goes wrong is reported by the middleware that reports errors of routes.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service.context import Services
from service.http import headers_of, read_body, request_id_of
from service.inference.handler import MakeHandler, ParsedCall
from service.inference.statistics import Clock
from service.metrics import Metrics
from service.middleware import RequestContext

#: Names, versions and tasks that are valid and need no decoding.
_PARAMETERS: Final = {
    "{name}": r"(?P<name>[A-Za-z0-9._@~-]{1,100})",
    "{version}": r"(?P<version>[1-9][0-9]{0,8})",
}
_QUERY: Final = r"(?:\?task=(?P<task>[A-Za-z0-9._~-]+))?"
#: Longer URLs are left to the framework, so that those remembered take little memory.
_MAX_URL_BYTES: Final = 400
#: URLs that are remembered with their route; the least recently used leaves first.
_MAX_REMEMBERED: Final = 1024
_SCOPE: Final = "infer"
_OK: Final = 200


class _Match(NamedTuple):
    """A route, and the parameters in a URL."""

    path: str
    name: str
    version: int | None
    task: str | None


class FastPath:
    """ASGI application that answers inference requests, in front of one that answers the rest.

    Parameters
    ----------
    handlers
        Makes the handler of a request, by the path of its route.
    """

    def __init__(self, app: FastAPI, handlers: Mapping[str, MakeHandler]) -> None:
        self._app = app
        self._metrics: Metrics = app.state.metrics
        self._handlers = handlers
        self._patterns = [(_pattern(path), path) for path in handlers]
        self._match = lru_cache(_MAX_REMEMBERED)(self._find)
        self._report = RequestContext(_raise_error, self._metrics, calls=handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        clock = Clock()
        parsed = self._parse(scope)
        if parsed is None:
            await self._app(scope, receive, send)
            return
        services: Services = self._app.state.services
        path, headers = parsed.path, parsed.headers
        try:
            length, limit = headers.get("content-length", ""), services.settings.max_body_bytes
            body = await read_body(receive, length, limit)
            reply = await self._handlers[path](services, parsed, body, clock).run()
        except Exception as error:  # noqa: BLE001 - raised again where errors are reported
            failed = {"route": parsed, "error": error, "started_s": clock.arrived / 1e9}
            await self._report({**scope, **failed}, receive, send)
            return
        lines = {
            **reply.headers,
            "content-length": str(len(reply.body)),
            "x-request-id": request_id_of(headers.get("x-request-id", "")),
        }
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in lines.items()]
        await send({"type": "http.response.start", "status": _OK, "headers": encoded})
        await send({"type": "http.response.body", "body": reply.body})
        elapsed_s = clock.total_s()
        self._metrics.observe_request(method="POST", route=path, status=_OK, elapsed_s=elapsed_s)

    def _parse(self, scope: Scope) -> ParsedCall | None:
        """Return an ordinary request of somebody with a cached key; else None."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return None
        raw_path, query = scope["raw_path"], scope["query_string"]
        is_short = len(raw_path) + len(query) < _MAX_URL_BYTES
        match = self._match(raw_path, query) if is_short else None
        if match is None:
            return None
        headers = headers_of(scope["headers"])
        services: Services = self._app.state.services
        owner = services.authenticator.cached_owner(headers.get("authorization"), _SCOPE)
        if owner is None:
            return None
        return ParsedCall(match.path, owner, match.name, match.version, match.task, headers)

    def _find(self, raw_path: bytes, query: bytes) -> _Match | None:
        url = (raw_path + b"?" + query if query else raw_path).decode("latin-1")
        for pattern, path in self._patterns:
            found = pattern.fullmatch(url)
            if found is not None:
                values = found.groupdict()
                version = values.get("version")
                number = None if version is None else int(version)
                return _Match(path, values["name"], number, values["task"])
        return None


def _pattern(path: str) -> re.Pattern[str]:
    for part, pattern in _PARAMETERS.items():
        path = path.replace(part, pattern)
    return re.compile(path + _QUERY)


async def _raise_error(scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
    raise scope["error"]
