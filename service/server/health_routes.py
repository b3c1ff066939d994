"""HTTP routes of health and metrics."""

from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel, Field

from service.http.documentation import problems
from service.http.responses import json_response
from service.http.routing import app_state, secured
from service.observability.readiness import ReadinessMonitor

router = APIRouter(prefix="/v2/health", tags=["health"])

#: Requires a key, unlike health, since the metrics are about all owners.
metrics_router = APIRouter(
    tags=["health"], route_class=secured("metrics:read", is_rate_limited=False)
)

Readiness = Annotated[ReadinessMonitor, app_state("readiness")]
_NOT_READY: Final = "Not ready; `reasons` lists why."


class Health(BaseModel):
    """Health of the service."""

    live: bool = Field(description="Whether the process responds.")
    ready: bool = Field(description="Whether the service can store data, run jobs and inference.")
    reasons: list[str] = Field(description="Reasons why the service is not ready.")
    warnings: list[str] = Field(
        description="Limitations of a service that is ready, such as a frozen worker or a "
        "disk that is almost full."
    )


# on the event loop, since they must not wait for a thread


@router.get("/live", summary="Check that the process responds")
async def live(readiness: Readiness) -> Health:
    """Check whether the process responds."""
    return _health(readiness)


@router.get(
    "/ready",
    summary="Check that the service is ready",
    response_model=Health,
    responses={503: {"model": Health, "description": _NOT_READY}},
)
async def ready(readiness: Readiness) -> Response:
    """Check whether the service can run jobs and inference."""
    health = _health(readiness)
    return json_response(health, status=200 if health.ready else 503)


@metrics_router.get(
    "/metrics",
    summary="Read metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "Prometheus text format."},
        **problems(),
    },
)
def metrics(request: Request) -> Response:
    """Return metrics of the server processes and of the job queue, for Prometheus."""
    text: bytes = request.app.state.metrics.text()
    return Response(text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


def _health(readiness: ReadinessMonitor) -> Health:
    reasons = readiness.reasons()
    return Health(live=True, ready=not reasons, reasons=reasons, warnings=readiness.warnings())
