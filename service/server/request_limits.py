"""Number of requests in progress, and their connections."""

from typing import Final

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors.problems import Problem
from service.server.connections import CONNECTION, Connection, RequestBody
from service.server.middleware import RequestLog, send_error

#: Prefix of the paths that are served however busy the service is.
_HEALTH: Final = "/v2/health/"


class RequestLimits:
    """ASGI application that limits the requests in progress and the time of their bodies.

    Parameters
    ----------
    serve
        The application that handles requests.
    app
        The FastAPI application below it.
    """

    def __init__(self, serve: ASGIApp, app: FastAPI) -> None:
        self._serve = serve
        self._requests = RequestLog(app.state.metrics, calls=())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._serve(scope, receive, send)
            return
        # without methods of the connection for each step: they would take as long as all the rest
        connection: Connection = scope["state"][CONNECTION]
        all_ = connection.all
        body = RequestBody(connection, receive)
        connection.is_starting = False
        connection.overhead_bytes = 0
        connection.n_requests += 1
        all_.n_requests += 1
        if connection.head_bytes:
            connection.begin_next()
        try:
            if all_.n_requests <= all_.max_requests:
                await self._serve(scope, body.receive, send)
            else:
                await self._serve_health(scope, body.receive, send)
        finally:
            all_.n_requests -= 1
            connection.n_requests -= 1
            connection.idle_since_s = all_.now_s
            if not body.is_complete:
                connection.expect_rest(scope["headers"])

    async def _serve_health(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a health check; refuse all other requests."""
        if scope["path"].startswith(_HEALTH):
            await self._serve(scope, receive, send)
            return
        async with self._requests.observed(scope, send) as sender:
            await send_error(_busy(), receive, sender)


def _busy() -> Problem:
    detail = "the service has as many requests in progress as it can handle; retry later"
    return Problem("unavailable", detail, headers={"Retry-After": "1"})
