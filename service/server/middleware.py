"""What happens to every request before a route sees it, and to every answer after."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import Problem, problem_of, problem_response
from service.http.requests import request_id_of
from service.observability.logs import answer_for, log
from service.observability.metrics import Metrics

_OK: Final = 200
#: Answers to these carry no body; a route sees GET.
_HEAD: Final = "HEAD"


class _HeadersOnly(OSError):
    """Ends the writing of a body that the caller did not ask for, as a closed socket would."""


@dataclass(slots=True)
class _Answer:
    """Passes on an answer with the request's id, and remembers how far it is."""

    send: Send
    request_id: str
    has_body: bool
    status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            identified = (b"x-request-id", self.request_id.encode("latin-1"))
            message = {**message, "headers": [*message["headers"], identified]}
        elif not self.has_body:
            await self.send({"type": "http.response.body", "body": b""})
            raise _HeadersOnly
        await self.send(message)


class RequestContext:
    """Gives each request an id, answers defects as problems, and logs and counts each.

    Parameters
    ----------
    calls
        Routes that are called too often to log what went well: that takes as long as the call.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, calls: Collection[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._calls = frozenset(calls)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = scope.get("started_s", time.perf_counter())
        method = scope["method"]
        answer = _Answer(send, _request_id(scope), has_body=method != _HEAD)
        answer_for(answer.request_id)
        # a copy: the server below decides by the true method what it puts on the wire
        inner = {**scope, "method": "GET"} if method == _HEAD else scope
        try:
            await self._answer(inner, receive, answer)
        except (_HeadersOnly, ClientDisconnect):
            pass  # nobody reads on
        finally:
            elapsed_s = time.perf_counter() - started_s
            route = getattr(inner.get("route"), "path", None)
            self._metrics.observe_request(
                method=method, route=route, status=answer.status, elapsed_s=elapsed_s
            )
            if answer.status != _OK or route not in self._calls:
                log.info(
                    "request",
                    method=method,
                    route=route,
                    status=answer.status,
                    elapsed_ms=round(elapsed_s * 1000, 2),
                )

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            _check_no_nul(scope)
            await self._app(scope, receive, answer)
        except (_HeadersOnly, ClientDisconnect):
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                log.error("defect", path=scope["path"], exc_info=error)
                problem = Problem("internal", "the service failed; the defect is in its log")
            if answer.status is not None:
                raise  # half an answer is out: only a broken connection can tell
            await problem_response(problem, scope["path"])(scope, receive, answer)


def _request_id(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return request_id_of(given.decode("latin-1"))


def _check_no_nul(scope: Scope) -> None:
    """Refuse a character that PostgreSQL cannot keep in a text, before anything stores it."""
    for place, holds in (
        ("path", "\0" in scope["path"]),
        ("query", b"%00" in scope["query_string"]),
    ):
        if holds:
            detail = f"the {place} holds a NUL character; leave it out"
            entry = {"parameter": place, "code": "nul", "detail": detail}
            raise Problem("invalid-request", detail, errors=[entry])
