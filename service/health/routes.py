"""Health, told as it is: live while the process answers, ready while it can do its work."""

from typing import Final

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel, Field

from service.context import Context
from service.http import json_response, problems, secured

router = APIRouter(prefix="/v2/health", tags=["health"])

#: Asks for a key, as health does not: the numbers are about everybody's work.
metrics_router = APIRouter(tags=["health"], route_class=secured("metrics:read"))

_NOT_READY: Final = "Not ready; `reasons` says why."


class Health(BaseModel):
    """Whether the service lives and can do its work."""

    live: bool
    ready: bool
    reasons: list[str] = Field(description="Why it is not ready.")


# both are answered on the event loop, from what is known: they must not wait for a thread


@router.get("/live")
async def live(services: Context) -> Health:
    """Tell that the process answers."""
    return _health(services)


@router.get(
    "/ready",
    response_model=Health,
    responses={503: {"model": Health, "description": _NOT_READY}},
)
async def ready(services: Context) -> Response:
    """Return whether jobs and inference can be served now."""
    health = _health(services)
    return json_response(health, status=200 if health.ready else 503)


@metrics_router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "The text format of Prometheus."},
        **problems(),
    },
)
def metrics(request: Request) -> Response:
    """Return counters and gauges of this process, and the queue as it is in the database."""
    text: bytes = request.app.state.metrics.text()
    return Response(text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


def _health(services: Context) -> Health:
    reasons = services.watch.reasons()
    return Health(live=True, ready=not reasons, reasons=reasons)
