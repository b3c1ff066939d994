"""Inference requests that come through a route: unusual URLs, and keys that are not cached."""

from starlette.responses import Response

from service.context import Services
from service.http import StrictRequest
from service.inference.handler import MakeHandler, ParsedCall
from service.inference.statistics import Clock


async def respond(
    make: MakeHandler, services: Services, parsed: ParsedCall, request: StrictRequest
) -> Response:
    """Return the response to a request whose body is still to be received."""
    clock = Clock()
    reply = await make(services, parsed, await request.body(), clock).run()
    return Response(reply.body, headers=reply.headers)
