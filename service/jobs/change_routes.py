"""HTTP route that streams changes of all jobs and datasets of an owner."""

import time
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from service.errors import Problem
from service.http.documentation import problems
from service.http.routing import Owner, is_still_authorized, secured
from service.jobs.changes import Position
from service.jobs.context import Context, Services
from service.jobs.routes import KEEP_ALIVE_S, KEY_CHECK_S, check_room

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=secured("jobs:{}"))


@router.get(
    ":changes",
    summary="Stream changes of jobs and datasets",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events without data: `start` once the stream sees changes "
            "(read then what is shown), `jobs` after changes of jobs, and `datasets` after changes "
            "of datasets.",
            "content": {"text/event-stream": {}},
        },
        **problems("not-acceptable", "too-many-streams"),
    },
)
async def stream_changes(request: Request, services: Context, owner: Owner) -> Response:
    """Stream when any job or dataset of the caller's owner changed, for lists that stay current.

    Needs `Accept: text/event-stream`.
    """
    if "text/event-stream" not in request.headers.get("accept", ""):
        raise Problem(
            "not-acceptable", "this URL returns a stream of events; send Accept: text/event-stream"
        )
    check_room(services, owner)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    stream = _stream(services, request, owner)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _stream(services: Services, request: Request, owner: str) -> AsyncIterator[bytes]:
    """Yield events until the client disconnects or the key ends."""
    seen: Position | None = None
    last_sent = last_check = time.monotonic()
    with services.watcher.waiting.place(owner), services.changes.watch(owner):
        yield KEEPALIVE_COMMENT
        while True:
            position = await services.changes.next_change(owner, seen, KEY_CHECK_S)
            if time.monotonic() - last_check > KEY_CHECK_S:
                last_check = time.monotonic()
                if not await is_still_authorized(request):
                    return
            if seen is None and position is not None:
                yield format_sse_event(data_str="{}", event="start")
            elif seen is not None and position is not None:
                for name in Position._fields:
                    if getattr(position, name) != getattr(seen, name):
                        last_sent = time.monotonic()
                        yield format_sse_event(data_str="{}", event=name)
            seen = position
            if time.monotonic() - last_sent > KEEP_ALIVE_S:
                last_sent = time.monotonic()
                yield KEEPALIVE_COMMENT
