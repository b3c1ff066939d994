"""HTTP routes that create datasets: from an uploaded file, or from other datasets."""

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from service.datasets import store
from service.datasets.combine import create_combined
from service.datasets.context import Context, DatasetServices
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.registry import FORMATS
from service.datasets.registration import UploadRequest, rejected
from service.datasets.routes import find_row, tag_of
from service.datasets.schemas import Dataset
from service.datasets.selection import Combination
from service.datasets.upload import receive
from service.errors.patterns import TEXT_LINE
from service.http.bodies import ContentType
from service.http.documentation import JSON_BODY, file_body, problems
from service.http.idempotency import IdempotencyKey
from service.http.responses import json_response
from service.http.routing import Owner, Record, secured
from service.storage.dataset_states import UNFINISHED_DATASETS, DatasetState
from service.storage.tables import DatasetRow

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], route_class=secured("datasets:{}"))

#: Documentation of the body of an upload.
BODY: Final = file_body(
    "The bytes of one file.", (name for format_ in FORMATS for name in format_.media_types)
)


class UploadQuery(ReadOptions):
    """Name and options of an upload."""

    name: str = Field(
        min_length=1,
        max_length=200,
        pattern=TEXT_LINE,
        description="Name of the dataset.",
    )


class FileQuery(UploadQuery):
    """Name, options and type of an upload of one request."""

    content_type: ContentType = None


@router.post(
    "",
    summary="Upload a dataset",
    status_code=201,
    response_model=Dataset,
    openapi_extra=BODY,
    responses={
        200: {"model": Dataset, "description": "A dataset with the same content and name exists."},
        202: {
            "model": Dataset,
            "description": "Parsing continues; poll the dataset at Location.",
        },
        **problems(
            "malformed-body",
            "body-too-large",
            "unsupported-media-type",
            "invalid-request",
            "invalid-dataset",
            "key-reused",
            "quota-exceeded",
        ),
    },
)
async def upload_dataset(
    request: Request,
    services: Context,
    owner: Owner,
    query: Annotated[FileQuery, Query()],
    *,
    idempotency_key: IdempotencyKey = None,
    record: Record,
) -> Response:
    """Upload a dataset of tasks as a raw body."""
    options = ReadOptions.model_validate(query.model_dump(exclude={"name", "content_type"}))
    upload = UploadRequest(owner, query.name, options, idempotency_key, record)
    row, is_new = await receive(request, services, upload, query.content_type)
    return await _response(services, row, is_new=is_new)


@router.post(
    ":combine",
    summary="Combine datasets",
    status_code=201,
    response_model=Dataset,
    responses={
        200: {"model": Dataset, "description": "A dataset with the same sources and name exists."},
        202: {"model": Dataset, "description": "Work continues; poll the dataset at Location."},
        **problems(
            *JSON_BODY,
            "not-found",
            "wrong-state",
            "invalid-dataset",
            "key-reused",
            "quota-exceeded",
        ),
    },
)
async def combine_datasets(
    combination: Combination,
    services: Context,
    owner: Owner,
    *,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Create a dataset from stored datasets: from all tasks, or from some tasks, columns and rows.

    Rows of tasks with the same name are concatenated, so a dataset can grow: upload only the new
    rows and combine both.
    """
    row, is_new = await run_in_threadpool(
        create_combined, services, owner, combination, idempotency_key
    )
    return await _response(services, row, is_new=is_new)


async def _response(services: DatasetServices, row: DatasetRow, *, is_new: bool) -> Response:
    """Parse a dataset that is new and only stored, and return its response."""
    if is_new and row.state == DatasetState.UPLOADED:
        await _ingest(services, row.id)
        row = await run_in_threadpool(find_row, services, row.id, row.owner)
    if row.state == DatasetState.REJECTED:
        if is_new:  # the client has not seen its id
            await run_in_threadpool(_forget, services, row)
        raise rejected(row.issues)
    status = 202 if row.state in UNFINISHED_DATASETS else 201 if is_new else 200
    headers = {"Location": f"/v1/datasets/{row.id}", "ETag": tag_of(row)}
    if status == 202:
        headers["Retry-After"] = "1"
    return json_response(Dataset.from_row(row), status=status, **headers)


async def _ingest(services: DatasetServices, dataset_id: str) -> None:
    """Start parsing and wait a short time; most uploads finish within it."""
    work = asyncio.wrap_future(services.ingester.submit(dataset_id))
    done, _ = await asyncio.wait({work}, timeout=services.settings.ingest_wait_s)
    for ended in done:
        ended.result()


def _forget(services: DatasetServices, row: DatasetRow) -> None:
    with services.database.write() as session:
        store.forget(session, row)
