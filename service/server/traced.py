"""Spans of requests."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.observability.tracing import TRACEPARENT, span

#: Requests of load balancers and Prometheus, which would be most of all traces.
_UNTRACED: Final = ("/v2/health/", "/metrics")
_ERROR: Final = 500


class TracedApp:
    """ASGI application that records a span of each request, named by method and route.

    Wraps the whole application, only if tracing is on.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"].startswith(_UNTRACED):
            await self._app(scope, receive, send)
            return
        parents = (value for name, value in scope["headers"] if name == TRACEPARENT.encode())
        parent = next(parents, b"").decode("latin-1") or None
        method = scope["method"]
        # imported late: it is an optional package
        from opentelemetry.trace import StatusCode

        with span(method, parent=parent, is_request=True, http_request_method=method) as current:

            async def send_status(message: Message) -> None:
                if message["type"] == "http.response.start":
                    current.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _ERROR:
                        current.set_status(StatusCode.ERROR)
                await send(message)

            await self._app(scope, receive, send_status)
            route = getattr(scope.get("route"), "path", None)
            if route is not None:
                current.update_name(f"{method} {route}")
                current.set_attribute("http.route", route)
