"""HTTP routes of events: of one job as pages or as a stream, and changes of all as a stream."""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import Field

from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.paging import Page, PageQuery, page
from service.http.responses import json_response
from service.http.routing import Owner, Visible, is_still_authorized, secured
from service.jobs.changes import Position
from service.jobs.context import Context, JobServices
from service.jobs.queue import queries
from service.jobs.routes import JobId, find_job
from service.jobs.schemas import Event
from service.jobs.watcher import Snapshot
from service.storage.database import UNAVAILABLE

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=secured("jobs:{}"))

#: Maximum time from the end of a key to the end of its streams.
KEY_CHECK_S: Final = 5
#: A comment line after this time without events keeps proxies from closing the stream.
KEEP_ALIVE_S: Final = 15
EVENTS_PER_READ: Final = 200


class EventQuery(PageQuery):
    """Query parameters of the events of a job."""

    after_id: int = Field(0, ge=0, lt=2**63, description="Only events with a larger id.")


@router.get(
    "/{job_id}/events",
    summary="Read the events of a job",
    response_model=Page[Event],
    responses={
        200: {
            "description": "A page of events; with `Accept: text/event-stream`, a stream until the "
            "job ends.",
            "content": {"text/event-stream": {}},
        },
        **problems("invalid-page-token", "not-found", "invalid-request", "too-many-streams"),
    },
)
async def get_events(
    job_id: JobId,
    request: Request,
    services: Context,
    owner: Owner,
    visible: Visible,
    *,
    query: Annotated[EventQuery, Query()],
    last_event_id: Annotated[
        int, Header(ge=0, lt=2**63, description="Same as `after_id`, for streams.")
    ] = 0,
) -> Response:
    """Return the events of a job in order, as a page or as a stream."""
    await run_in_threadpool(find_job, services.database, job_id, visible)
    if _wants_stream(request):
        _check_room(services, owner)
        after = max(query.after_id, last_event_id)
        return _stream(request, _events_of(services, job_id, owner, after))
    after = max(query.after_id, query.after_number())
    events = await run_in_threadpool(_read_events, services, job_id, after, query.page_size + 1)
    return json_response(page(events, query, key=lambda event: str(event.id)))


@router.get(
    ":changes",
    summary="Stream changes of jobs and datasets",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events without data: `start` once the stream sees changes "
            "(read the lists then), `jobs` after changes of jobs, and `datasets` after changes "
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
    if not _wants_stream(request):
        raise Problem(
            "not-acceptable", "this URL returns a stream of events; send Accept: text/event-stream"
        )
    _check_room(services, owner)
    return _stream(request, _changes_of(services, owner))


def _check_room(services: JobServices, owner: str) -> None:
    """Raise a problem if the owner has the maximum number of streams and waiting requests."""
    waiting = services.watcher.waiting
    if not waiting.has_room(owner):
        limit = waiting.max_per_owner
        detail = f"you have {limit} event streams and waiting requests, the maximum"
        raise Problem("too-many-streams", detail, headers={"Retry-After": "5"})


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


def _stream(request: Request, events: AsyncGenerator[bytes, None]) -> Response:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    stream = _with_keep_alive(request, events)
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _with_keep_alive(
    request: Request, events: AsyncGenerator[bytes, None]
) -> AsyncIterator[bytes]:
    """Yield server-sent events, or comments while there are none, until the key ends.

    Parameters
    ----------
    events
        Yields empty bytes at least every ``KEY_CHECK_S`` while there are no events.
    """
    last_sent = last_check = time.monotonic()
    async with aclosing(events):
        async for chunk in events:
            if time.monotonic() - last_check > KEY_CHECK_S:
                last_check = time.monotonic()
                if not await is_still_authorized(request):
                    return
            if chunk or time.monotonic() - last_sent > KEEP_ALIVE_S:
                last_sent = time.monotonic()
                yield chunk or KEEPALIVE_COMMENT


async def _events_of(
    services: JobServices, job_id: str, owner: str, after: int
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a job after ``after``, until it has ended and all are sent."""
    watcher = services.watcher
    snapshot: Snapshot | None = None
    with watcher.watch(job_id, owner):
        while True:
            snapshot = await watcher.next_change(job_id, snapshot, KEY_CHECK_S)
            is_available = True
            while is_available and snapshot is not None and snapshot.last_event > after:
                read = partial(_read_events, services, job_id, after, EVENTS_PER_READ)
                try:
                    events = await watcher.share((job_id, after), read)
                except UNAVAILABLE:  # the stream goes on once the database responds again
                    is_available = False
                    continue
                if not events:
                    break
                after = events[-1].id
                yield b"".join(
                    format_sse_event(
                        data_str=event.model_dump_json(), event=event.kind, id=str(event.id)
                    )
                    for event in events
                )
            if is_available and snapshot is not None and snapshot.is_final():
                return
            yield b""


def _read_events(services: JobServices, job_id: str, after: int, limit: int) -> list[Event]:
    with services.database.read() as session:
        return [Event.from_row(r) for r in queries.events_after(session, job_id, after, limit)]


async def _changes_of(services: JobServices, owner: str) -> AsyncGenerator[bytes, None]:
    """Yield an event for each change of an owner's jobs or datasets."""
    watcher = services.changes
    seen: Position | None = None
    with watcher.watch(owner, owner):
        yield KEEPALIVE_COMMENT
        while True:
            position = await watcher.next_change(owner, seen, KEY_CHECK_S)
            yield b"".join(
                format_sse_event(data_str="{}", event=name)
                for name in _changed_between(seen, position)
            )
            seen = position


def _changed_between(seen: Position | None, position: Position | None) -> list[str]:
    """Return the names of the events from one position to the next."""
    if position is None:
        return []
    if seen is None:
        return ["start"]
    return [n for n in Position._fields if getattr(position, n) != getattr(seen, n)]
