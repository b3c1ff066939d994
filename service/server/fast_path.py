"""Fast path of inference requests, which bypasses the framework.

Requests with an unusual URL or an uncached API key go through their FastAPI routes and get the same
response.
"""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from service.access.rate_limit import RateLimiter
from service.http.bodies import read_body
from service.http.requests import headers_of, request_id_of
from service.inference.handler import MakeHandler, ParsedCall
from service.inference.statistics import Clock
from service.server.hosts import HostPolicy, count_hosts
from service.server.middleware import ADDED_HEADERS, RequestLog, send_error
from service.server.urls import UrlPatterns

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
        self._match = lru_cache(_MAX_CACHED_URLS)(UrlPatterns(handlers).match)
        self._max_body_bytes = app.state.settings.max_body_bytes
        self._metrics = app.state.metrics
        self._rate_limiter: RateLimiter | None = app.state.rate_limiter
        self._hosts = HostPolicy(app.state.settings)
        self._requests = RequestLog(self._metrics, handlers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        clock = Clock()
        parsed = self._parse(scope)
        if parsed is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = parsed  # for the span of the request
        try:
            if self._rate_limiter is not None:
                self._rate_limiter.check(parsed.owner)
            length = parsed.headers.get("content-length", "")
            body = await read_body(receive, length, self._max_body_bytes)
            handler = self._handlers[parsed.path](self._app.state.inference, parsed, body, clock)
            reply = await handler.run()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - sent or raised
            scope["started_s"] = clock.arrived / 1e9
            async with self._requests.observed(scope, send) as sender:
                await send_error(error, receive, sender)
            return
        request_id = request_id_of(parsed.headers.get("x-request-id", ""))
        headers = [
            *reply.headers,
            (b"x-request-id", request_id.encode()),
            (b"content-length", b"%d" % len(reply.body)),
            *ADDED_HEADERS,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})
        handler.record_success()
        self._metrics.observe_request(
            method="POST", route=parsed.path, status=200, elapsed_s=clock.total_s()
        )

    def _parse(self, scope: Scope) -> ParsedCall | None:
        """Return the request if the fast path can handle it, else None."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return None
        raw_path, query = scope["raw_path"], scope["query_string"]
        headers = headers_of(scope["headers"])
        if len(raw_path) + len(query) > _MAX_URL_BYTES or "origin" in headers:
            return None
        host = headers.get("host")
        has_two = len(headers) < len(scope["headers"]) and count_hosts(scope) > 1
        if host is None or has_two or not self._hosts.allows(host):
            return None
        authorization = headers.get("authorization")
        owner = self._app.state.authenticator.cached_owner(authorization, "infer")
        if owner is None:
            return None
        url = self._match(raw_path, query)  # cached only for callers with a key
        if url is None:
            return None
        return ParsedCall(url.path, owner, url.name, url.version, url.task, headers)
