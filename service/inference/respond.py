"""Inference requests through FastAPI routes: unusual URLs and uncached API keys."""

from starlette.responses import Response

from service.http.requests import StrictRequest
from service.inference.context import Services
from service.inference.handler import MakeHandler, ParsedCall
from service.inference.statistics import Clock


async def respond(
    make: MakeHandler, services: Services, parsed: ParsedCall, request: StrictRequest
) -> Response:
    """Receive the body of a request and return the response."""
    clock = Clock()
    body = await request.read(services.settings.max_body_bytes)
    reply = await make(services, parsed, body, clock).run()
    return Response(reply.body, headers=reply.headers)
