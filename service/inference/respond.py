"""Calls that come by the framework: those whose address or headers are not plain, or that wait."""

from typing import Final, Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.context import Services
from service.http import StrictRequest
from service.inference.call import Body
from service.inference.exchange import Exchange, Head, Reply
from service.inference.statistics import Clock

#: Where the server below us leaves a call that it has received and could not answer at once.
WAITING: Final = "exchange"


class MakeExchange(Protocol):
    """Makes the exchange of a call: its head is looked at, its body not yet."""

    def __call__(self, services: Services, head: Head, body: Body, clock: Clock) -> Exchange:
        """Give the exchange, or raise the problem of its head."""


def headers_of(request: StrictRequest) -> dict[str, str]:
    """Give the headers that a head has: the first of each name, and all that is accepted."""
    accepted = ",".join(request.headers.getlist("accept"))
    return {**request.first_headers, "accept": accepted}


async def respond(
    make: MakeExchange, services: Services, head: Head, request: StrictRequest
) -> Response:
    """Give the response to a call whose body is still to be received."""
    clock = Clock()
    exchange = make(services, head, await request.body(), clock)
    reply = exchange.here()
    if reply is None:
        reply = await exchange.later()
    else:
        exchange.count()
    return _response(reply)


class WaitingCalls:
    """Answers calls that the server below has received whole."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = scope.get("state", {}).get(WAITING)
        if exchange is None:
            await self._app(scope, receive, send)
        else:
            response = _response(await exchange.later())
            await response(scope, receive, send)


def _response(reply: Reply) -> Response:
    return Response(reply.body, headers=reply.headers)
