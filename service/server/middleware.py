"""Middleware of every request: request id, errors, logs and metrics."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors.problems import Problem, problem_of, problem_response
from service.http.requests import request_id_of
from service.observability.logs import bind_request_id, log
from service.observability.metrics import Metrics
from service.server.auditing import record_change, store_event
from service.server.hosts import HostPolicy

_OK: Final = 200
#: Headers of responses that do not set them: nothing is stored, run or framed by a browser.
ADDED_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
#: Routes handle HEAD as GET; the middleware drops the body.
_HEAD: Final = "HEAD"


class _HeadersOnly(OSError):
    """Raised to stop writing the body of a response to HEAD, as a closed socket would."""


@dataclass(slots=True)
class _ResponseSender:
    """Sender of a response that adds the request id, and records status and audit event."""

    send: Send
    scope: Scope
    request_id: str
    has_body: bool
    status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            await record_change(self.scope, message, self.request_id)
            identified = (b"x-request-id", self.request_id.encode("latin-1"))
            own = {name for name, _ in message["headers"]}
            added = [header for header in ADDED_HEADERS if header[0] not in own]
            message = {**message, "headers": [*message["headers"], identified, *added]}
        elif not self.has_body:
            await self.send({"type": "http.response.body", "body": b""})
            raise _HeadersOnly
        await self.send(message)


class RequestContext:
    """Middleware that sets the request id, converts errors to responses, logs and counts.

    Parameters
    ----------
    calls
        Routes whose successful requests are not logged, since logging takes as long as they do.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, hosts: HostPolicy, calls: Collection[str]
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._metrics = metrics
        self._calls = frozenset(calls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = scope.get("started_s", time.perf_counter())
        method = scope["method"]
        # a copy, since uvicorn needs the original method
        inner = {**scope, "method": "GET"} if method == _HEAD else scope
        sender = _ResponseSender(send, inner, _request_id(scope), has_body=method != _HEAD)
        bind_request_id(sender.request_id)
        inner["record"] = partial(store_event, inner, sender.request_id)
        try:
            await self._handle(inner, receive, sender)
        except (_HeadersOnly, ClientDisconnect):
            pass  # the client does not read the rest
        finally:
            if sender.status is None:  # the client disconnected
                await record_change(inner, None, sender.request_id)
            elapsed_s = time.perf_counter() - started_s
            route = getattr(inner.get("route"), "path", None)
            self._metrics.observe_request(
                method=method, route=route, status=sender.status, elapsed_s=elapsed_s
            )
            if sender.status != _OK or route not in self._calls:
                log.info(
                    "request",
                    method=method,
                    route=route,
                    status=sender.status,
                    elapsed_ms=round(elapsed_s * 1000, 2),
                )

    async def _handle(self, scope: Scope, receive: Receive, sender: _ResponseSender) -> None:
        try:
            self._hosts.check(scope)
            _check_no_nul(scope)
            await self._app(scope, receive, sender)
        except (_HeadersOnly, ClientDisconnect):
            raise
        except asyncio.CancelledError:  # uvicorn cancels what is unfinished when it stops
            if sender.status is not None:
                raise
            await problem_response(_stopping(), scope)(scope, receive, sender)
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                log.error("request.failed", path=scope["path"], exc_info=error)
                problem = Problem(
                    "internal", "an unexpected error; the log has the details under this request_id"
                )
            if sender.status is not None:
                raise  # part of the response is sent: only closing the connection reports the error
            await problem_response(problem, scope)(scope, receive, sender)


def _stopping() -> Problem:
    """Return the problem of a request that the end of the service cuts off."""
    detail = "the service is stopping; send the request again to a running one"
    return Problem("unavailable", detail, headers={"Retry-After": "1", "Connection": "close"})


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return request_id_of(given.decode("latin-1"))


def _check_no_nul(scope: Scope) -> None:
    """Reject NUL characters, which PostgreSQL cannot store in text."""
    for place, has_nul in (
        ("path", "\0" in scope["path"]),
        ("query", b"%00" in scope["query_string"]),
    ):
        if has_nul:
            detail = f"the {place} contains a NUL character; remove it"
            entry = {"parameter": place, "code": "nul", "detail": detail}
            raise Problem("invalid-request", detail, errors=[entry])
