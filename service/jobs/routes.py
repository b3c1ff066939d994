"""HTTP routes of jobs: submit, list, watch, cancel, delete."""

import time
from typing import Annotated, Final, Literal

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from service.errors.problems import Problem
from service.http.bodies import JSON
from service.http.documentation import JSON_BODY, problems
from service.http.idempotency import IdempotencyKey, fingerprint
from service.http.paging import ORDER_HELP, Page, SearchQuery, page_of_rows
from service.http.preconditions import check_if_match, etag, is_not_modified
from service.http.requests import trace_parent
from service.http.responses import json_response
from service.http.routing import (
    Owner,
    Record,
    Visible,
    WantedOwner,
    chosen_owner,
    secured,
)
from service.http.waiting import RETRY_AFTER_S
from service.jobs import submission
from service.jobs.context import Context, JobServices
from service.jobs.queue import deletion, queries, store
from service.jobs.reading import read_job, read_jobs
from service.jobs.schemas import Job
from service.jobs.spec_schemas import JobSpec, RepeatSpec, Valid
from service.jobs.validation import check
from service.jobs.watcher import Snapshot
from service.settings import MAX_WAIT_S, MIB
from service.storage.database import Database
from service.storage.job_states import FINAL, JobState, ShownJobState
from service.storage.tables import JobRow

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=secured("jobs:{}"))

_SUBMISSION_PROBLEMS: Final = (
    *(*JSON_BODY, "not-found", "wrong-state", "invalid-params", "invalid-data", "exceeds-memory"),
    *("unknown-algorithm", "key-reused", "queue-full", "quota-exceeded"),
)

JobId = Annotated[str, Path(description="Id of the job.")]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the end of the job, at most SIBLING_MAX_WAIT_S.",
    ),
]
ValidateOnly = Annotated[
    bool, Query(description="Whether to only validate the specification, and create no job.")
]


JobOrder = Literal[
    "created_at", "-created_at", "model", "-model", "state", "-state", "algorithm", "-algorithm"
]


class JobQuery(SearchQuery):
    """Query parameters of the list of jobs."""

    state: ShownJobState | None = Field(None, description="Only jobs in this state.")
    algorithm: str | None = Field(None, max_length=64, description="Only jobs with this algorithm.")
    dataset_id: str | None = Field(None, max_length=40, description="Only jobs on this dataset.")
    text: str | None = Field(
        None,
        max_length=200,
        description="Only jobs whose id or model name contains this text, in lower or upper case.",
    )
    parent_id: str | None = Field(
        None, max_length=40, description="Return the child jobs of this job."
    )
    order_by: JobOrder = Field("-created_at", description=ORDER_HELP)
    owner: WantedOwner = None


@router.post(
    "",
    summary="Submit a training job",
    status_code=202,
    response_model=Job,
    responses={
        200: {
            "model": Valid,
            "description": "With `validate_only`: the specification is valid; nothing was created.",
        },
        **problems(*_SUBMISSION_PROBLEMS),
    },
)
async def submit_job(
    spec: JobSpec,
    request: Request,
    services: Context,
    owner: Owner,
    *,
    idempotency_key: IdempotencyKey = None,
    validate_only: ValidateOnly = False,
    wait: Wait = 0,
    record: Record,
) -> Response:
    """Queue a training job."""
    if validate_only:
        return json_response(await run_in_threadpool(_validate, services, spec, owner))
    origin = submission.Origin(
        owner,
        idempotency_key,
        fingerprint("POST /v1/jobs", await request.body()),
        trace_parent(request),
        record,
    )
    job = await run_in_threadpool(_submit, services, spec, origin)
    return await accepted(services, job, owner, wait)


@router.get("", summary="List jobs", responses=problems("invalid-page-token", "invalid-request"))
def list_jobs(
    services: Context, caller: Owner, visible: Visible, query: Annotated[JobQuery, Query()]
) -> Page[Job]:
    """List jobs, by default newest first."""
    owner = chosen_owner(query.owner, caller, visible)
    where = queries.JobFilter(**query.model_dump(include=set(queries.JobFilter.__annotations__)))
    with query.checked(), services.database.read() as session:
        found = queries.list_page(session, owner, where, query.wanted(query.order_by))
        jobs = read_jobs(session, [row for (row,) in found.rows])
    return page_of_rows(jobs, found)


@router.get(
    "/{job_id}",
    summary="Read or wait for a job",
    response_model=Job,
    responses={
        304: {"description": "Not modified."},
        **problems("not-found", "invalid-request"),
    },
)
async def get_job(
    job_id: JobId,
    request: Request,
    services: Context,
    owner: Owner,
    visible: Visible,
    *,
    wait: Wait = 0,
) -> Response:
    """Return a job, after waiting up to `wait` seconds for its end."""
    wait = min(wait, services.settings.max_wait_s)
    deadline = time.monotonic() + wait
    job = await run_in_threadpool(find_job, services.database, job_id, visible)
    job = await _wait_for(services, job, owner, wait)
    headers = {"ETag": _tag(job)}
    if not job.is_final and time.monotonic() < deadline:  # there was no room to wait
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if is_not_modified(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return json_response(job, status=200, **headers)


@router.post(
    "/{job_id}:cancel",
    summary="Cancel a job",
    status_code=202,
    response_model=Job,
    responses=problems("not-found", "wrong-state", "invalid-request"),
)
def cancel_job(job_id: JobId, services: Context, owner: Visible, record: Record) -> Response:
    """Cancel a job: at once if it is queued, otherwise as soon as it can be stopped."""
    with services.database.write() as session:
        row = found_job(store.get(session, job_id, owner=owner), job_id)
        if JobState(row.state) in FINAL and row.state != JobState.CANCELLED:
            raise Problem("wrong-state", f"job '{job_id}' has already ended: {row.state}")
        store.request_cancel(session, row)
        record(session, 202)
    return json_response(find_job(services.database, job_id, owner), status=202)


@router.post(
    "/{job_id}:finish",
    summary="Keep the best so far",
    status_code=202,
    response_model=Job,
    responses=problems("not-found", "wrong-state", "invalid-request"),
)
def finish_job(job_id: JobId, services: Context, owner: Owner, record: Record) -> Response:
    """End a job with `auto` or `ensemble` that runs, as if its budget were used up.

    Its model is made of the methods that are scored so far, or of the first one. There is no
    verdict on learning together if others are left out.
    """
    with services.database.write() as session:
        row = found_job(store.get(session, job_id, owner=owner), job_id)
        if not store.request_finish(session, row):
            raise Problem(
                "wrong-state",
                f"only a job with auto or ensemble, without calibration of an ensemble, can keep "
                f"its best so far, and only while it runs; job '{job_id}' with {row.algorithm} is "
                f"{row.state}: wait for it, or cancel it",
            )
        record(session, 202)
    return json_response(find_job(services.database, job_id, owner), status=202)


@router.post(
    "/{job_id}:repeat",
    summary="Repeat a training job",
    status_code=202,
    response_model=Job,
    responses=problems(*_SUBMISSION_PROBLEMS),
)
async def repeat_job(
    job_id: JobId,
    changes: RepeatSpec,
    request: Request,
    services: Context,
    owner: Owner,
    *,
    idempotency_key: IdempotencyKey = None,
    wait: Wait = 0,
    record: Record,
) -> Response:
    """Queue a job with the specification of an earlier one, such as on a dataset that has grown."""
    address = f"POST /v1/jobs/{job_id}:repeat"
    origin = submission.Origin(
        owner,
        idempotency_key,
        fingerprint(address, await request.body()),
        trace_parent(request),
        record,
        path=f"/v1/jobs/{job_id}",
    )
    job = await run_in_threadpool(_repeat, services, job_id, changes, origin)
    return await accepted(services, job, owner, wait)


@router.get(
    "/{job_id}/spec",
    summary="Read the specification of a job",
    response_model=JobSpec,
    responses=problems("not-found", "wrong-state", "invalid-request"),
)
def get_job_spec(job_id: JobId, services: Context, owner: Visible) -> Response:
    """Return the specification of a training job as it was submitted, without defaults."""
    with services.database.read() as session:
        row = found_job(store.get(session, job_id, owner=owner), job_id)
        content = orjson.dumps(submission.spec_of(row))
    return Response(content, media_type=JSON)


@router.delete(
    "/{job_id}",
    summary="Delete a job",
    status_code=204,
    responses=problems(
        "not-found", "in-use", "wrong-state", "precondition-failed", "invalid-request"
    ),
)
def delete_job(
    job_id: JobId, request: Request, services: Context, owner: Owner, record: Record
) -> Response:
    """Delete a job that has ended, with its child jobs, events and outputs.

    A job that created a model version is part of the lineage of this version, and can be deleted
    only after the version.
    """
    with services.database.write() as session:
        row = found_job(deletion.lock_job(session, job_id, owner=owner), job_id)
        check_if_match(request, _tag(read_job(session, row)))
        unfinished = deletion.unfinished_reason(session, row)
        if unfinished is not None:
            raise Problem("wrong-state", unfinished)
        needed = deletion.needed_by(session, row)
        if needed is not None:
            raise Problem("in-use", f"job '{job_id}' is used by {needed}")
        deletion.delete(session, row)
        record(session, 204)
    return Response(status_code=204)


def _submit(services: JobServices, spec: JobSpec, origin: submission.Origin) -> Job:
    with services.database.write() as session:
        return submission.submit(session, spec, origin, settings=services.settings)


def _repeat(
    services: JobServices, job_id: str, changes: RepeatSpec, origin: submission.Origin
) -> Job:
    with services.database.write() as session:
        row = found_job(store.get(session, job_id, owner=origin.owner), job_id)
        spec = submission.repeated(row, changes)
        return submission.submit(session, spec, origin, settings=services.settings)


def _validate(services: JobServices, spec: JobSpec, owner: str) -> Valid:
    with services.database.read() as session:
        checked = check(session, spec, owner=owner, settings=services.settings)
    needed = checked.memory_bytes
    return Valid(
        params=checked.params,
        warnings=checked.warnings,
        memory_mb=None if needed is None else round(needed / MIB, 1),
        expected_s=None if checked.time is None else round(checked.time.expected_s, 3),
    )


def find_job(database: Database, job_id: str, owner: str | None) -> Job:
    """Return a job; raise a Problem if it does not exist or belongs to another owner, if given."""
    with database.read() as session:
        return read_job(session, found_job(store.get(session, job_id, owner=owner), job_id))


def _tag(job: Job) -> str:
    return etag(fingerprint(job.model_dump_json())[:32])


async def accepted(services: JobServices, job: Job, owner: str, wait_s: float) -> Response:
    """Return the response for a submitted job, after waiting up to ``wait_s`` s for its end."""
    services.dispatcher.wake()
    job = await _wait_for(services, job, owner, min(wait_s, services.settings.max_wait_s))
    return json_response(job, status=202, Location=f"/v1/jobs/{job.id}", Retry_After="1")


async def _wait_for(services: JobServices, job: Job, owner: str, wait_s: float) -> Job:
    """Return a job as it is after waiting up to ``wait_s`` seconds for its end."""
    deadline = time.monotonic() + wait_s
    database, watcher = services.database, services.watcher
    if job.is_final or wait_s == 0 or not watcher.waiting.has_room(owner):
        return job
    snapshot: Snapshot | None = None
    with watcher.watch(job.id, owner):
        while snapshot is None or not snapshot.is_final():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            snapshot = await watcher.next_change(job.id, snapshot, left_s)
    return await run_in_threadpool(find_job, database, job.id, job.owner)


def found_job(row: JobRow | None, job_id: str) -> JobRow:
    """Return the row of a job, or raise a not-found problem if there is none."""
    if row is None:
        raise Problem("not-found", f"there is no job '{job_id}'")
    return row
