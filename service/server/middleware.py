"""Middleware of every request: request id, errors, logs and metrics."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors.problems import Problem, error_response, problem_of
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
class ResponseSender:
    """Sender of a response that adds the request id, and records status and audit event.

    Attributes
    ----------
    scope
        Scope of the request, in which HEAD is GET.
    """

    send: Send
    scope: Scope
    request_id: str
    has_body: bool
    status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Send a message of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            await record_change(self.scope, message, self.request_id)
            identified = (b"x-request-id", self.request_id.encode("latin-1"))
            names = {name for name, _ in message["headers"]}
            added = [header for header in ADDED_HEADERS if header[0] not in names]
            message = {**message, "headers": [*message["headers"], identified, *added]}
        elif not self.has_body:
            await self.send({"type": "http.response.body", "body": b""})
            raise _HeadersOnly
        await self.send(message)


class RequestLog:
    """Request id, audit event, log and metrics of every response.

    Parameters
    ----------
    calls
        Routes whose successful requests are not logged, since logging takes as long as they do.
    """

    def __init__(self, metrics: Metrics, calls: Collection[str]) -> None:
        self._metrics = metrics
        self._calls = frozenset(calls)

    @asynccontextmanager
    async def observed(self, scope: Scope, send: Send) -> AsyncIterator[ResponseSender]:
        """Yield the sender of the response to a request; log and count it at the end."""
        started_s = scope.get("started_s", time.perf_counter())
        method = scope["method"]
        # a copy, since uvicorn needs the original method
        inner = {**scope, "method": "GET"} if method == _HEAD else scope
        sender = ResponseSender(send, inner, _request_id(scope), has_body=method != _HEAD)
        bind_request_id(sender.request_id)
        inner["record"] = partial(store_event, inner, sender.request_id)
        try:
            yield sender
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


async def send_error(error: BaseException, receive: Receive, sender: ResponseSender) -> None:
    """Send the response of an error; raise it if the client has left, or has a part of another."""
    if isinstance(error, _HeadersOnly | ClientDisconnect):
        raise error
    problem = problem_of(error, path=sender.scope["path"])
    if sender.status is not None:
        raise error  # only closing the connection reports it
    await error_response(problem, sender.scope)(sender.scope, receive, sender)


class RequestContext:
    """Middleware that checks hosts, sends errors as responses, and logs requests."""

    def __init__(self, app: ASGIApp, requests: RequestLog, hosts: HostPolicy) -> None:
        self._app = app
        self._requests = requests
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        async with self._requests.observed(scope, send) as sender:
            try:
                self._hosts.check(sender.scope)
                _check_no_nul(sender.scope)
                await self._app(sender.scope, receive, sender)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - sent or raised
                await send_error(error, receive, sender)


def _request_id(scope: Scope) -> str:
    header = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return request_id_of(header.decode("latin-1"))


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
