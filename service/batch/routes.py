"""HTTP routes of batch inference: submission, and download and deletion of outputs."""

from functools import partial
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from service.batch import submission
from service.batch.context import Context
from service.batch.schemas import InferenceSpec, ValidInference
from service.errors.problems import Problem
from service.http.documentation import JSON_BODY, problems
from service.http.downloads import DOWNLOADED, download
from service.http.idempotency import IdempotencyKey, fingerprint
from service.http.preconditions import check_if_match, etag
from service.http.requests import trace_parent
from service.http.responses import json_response
from service.http.routing import Owner, Record, secured
from service.jobs.queue import store
from service.jobs.routes import JobId, ValidateOnly, Wait, accepted, found_job
from service.jobs.schemas import Job
from service.jobs.submission import Origin
from service.storage.job_states import FINAL, JobState
from service.storage.tables import BlobRow, JobRow

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=secured("jobs:{}"))

PARQUET: Final = "application/vnd.apache.parquet"


@router.post(
    ":infer",
    summary="Submit a batch inference",
    status_code=202,
    response_model=Job,
    responses={
        200: {
            "model": ValidInference,
            "description": "With `validate_only`: the specification is valid; nothing was created.",
        },
        **problems(
            *JSON_BODY,
            "not-found",
            "wrong-state",
            "invalid-data",
            "unknown-task",
            "unsupported-method",
            "key-reused",
            "queue-full",
            "quota-exceeded",
        ),
    },
)
async def submit_inference(
    spec: InferenceSpec,
    request: Request,
    services: Context,
    owner: Owner,
    *,
    idempotency_key: IdempotencyKey = None,
    validate_only: ValidateOnly = False,
    wait: Wait = 0,
    record: Record,
) -> Response:
    """Queue a batch inference, which applies a method of a model to all rows of a dataset."""
    if validate_only:
        validated = await run_in_threadpool(submission.prepare, services, spec, owner)
        fields = {
            name: validated.plan[name]
            for name in ValidInference.model_fields
            if name in validated.plan
        }
        return json_response(ValidInference(n_rows=validated.n_rows, **fields))
    origin = Origin(
        owner,
        idempotency_key,
        fingerprint("POST /v1/jobs:infer", await request.body()),
        trace_parent(request),
        record,
    )
    job = await run_in_threadpool(submission.submit, services, spec, origin)
    return await accepted(services.jobs, job, owner, wait)


@router.get(
    "/{job_id}/output",
    summary="Download outputs",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Parquet with columns `task`, `row` (from 0 in each task) and "
            "`outputs`: a list of numbers, or a single value for `predict` and `variance`.",
            "content": {PARQUET: {}},
        },
        **DOWNLOADED,
        **problems("not-found", "wrong-state", "range-not-satisfiable", "invalid-request"),
    },
)
def get_output(job_id: JobId, request: Request, services: Context, owner: Owner) -> Response:
    """Download the outputs of a batch inference."""
    with services.database.read() as session:
        job = found_job(store.get(session, job_id, owner=owner), job_id)
        blob = _existing(store.output_of(session, job), job)
    assert blob.sha256 is not None
    return download(
        request,
        partial(services.blobs.chunks, blob.id),
        tag=etag(blob.sha256),
        size_bytes=blob.size_bytes,
        media_type=PARQUET,
        file=f"{job_id}.parquet",
    )


@router.delete(
    "/{job_id}/output",
    summary="Delete outputs",
    status_code=204,
    responses=problems("not-found", "wrong-state", "precondition-failed", "invalid-request"),
)
def delete_output(
    job_id: JobId, request: Request, services: Context, owner: Owner, record: Record
) -> Response:
    """Delete the outputs of a batch inference, but not the dataset created from them."""
    with services.database.write() as session:
        job = found_job(store.get(session, job_id, owner=owner), job_id)
        blob = _existing(store.output_of(session, job), job)
        check_if_match(request, etag(str(blob.sha256)))
        store.delete_output(session, job)
        record(session, 204)
    return Response(status_code=204)


def _existing(outputs: BlobRow | None, job: JobRow) -> BlobRow:
    """Return the outputs of a job that has ended; raise a Problem if there are none."""
    if JobState(job.state) not in FINAL:
        raise Problem("wrong-state", f"job '{job.id}' is {job.state}; wait until it has ended")
    if outputs is None:
        raise Problem("not-found", f"job '{job.id}' has no outputs")
    return outputs
