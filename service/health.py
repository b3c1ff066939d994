"""Health, told as it is: live while the process answers, ready while it can do its work."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from service.context import Context
from service.http import json_response

router = APIRouter(prefix="/v2/health", tags=["health"])

#: States of the dispatcher in which jobs go on, here or in another replica.
_DISPATCHING: Final = ("leading", "standby")


class Liveness(BaseModel):
    """That the process answers."""

    live: bool


class Health(Liveness):
    """Whether the service can do its work."""

    ready: bool
    reasons: list[str] = Field(description="Why it is not ready.")


def _reasons(services: Context) -> list[str]:
    reasons = []
    trouble = services.database.trouble()
    if trouble is not None:
        reasons.append(f"the database does not answer ({trouble})")
    state = services.dispatcher.status()
    if state not in _DISPATCHING:
        reasons.append(f"the job engine is {state}")
    return reasons


Reasons = Annotated[list[str], Depends(_reasons)]


@router.get("/live")
async def live() -> Liveness:
    """Tell that the process answers, on the event loop: it must not wait for a thread."""
    return Liveness(live=True)


@router.get(
    "/ready",
    response_model=Health,
    responses={503: {"model": Health, "description": "Not ready; `reasons` says why."}},
)
def ready(reasons: Reasons) -> Response:
    """Tell whether jobs and inference can be served now."""
    health = Health(live=True, ready=not reasons, reasons=reasons)
    return json_response(health, status=503 if reasons else 200)
