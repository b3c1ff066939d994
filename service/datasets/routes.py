"""HTTP routes of datasets: list, inspect, download, delete."""

import asyncio
import time
from pathlib import Path as FilePath
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from service.datasets import store
from service.datasets.context import Context, DatasetServices
from service.datasets.preview import MAX_TASKS, Preview, preview
from service.datasets.schemas import Dataset, Manifest
from service.datasets.table import TABLE_TYPES, DatasetTable
from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.negotiation import preferred_type
from service.http.paging import ORDER_HELP, Page, SearchQuery, page_of_rows
from service.http.preconditions import check_if_match, etag, is_not_modified
from service.http.responses import json_response
from service.http.routing import Owner, Record, secured
from service.http.waiting import RETRY_AFTER_S
from service.settings import MAX_WAIT_S
from service.storage.dataset_states import UNFINISHED_DATASETS, DatasetState
from service.storage.tables import DatasetRow

router = APIRouter(prefix="/v1/datasets", tags=["datasets"], route_class=secured("datasets:{}"))

POLL_S: Final = 0.1

DatasetId = Annotated[str, Path(description="Id of the dataset.")]
Wait = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait until the dataset is ready or rejected, at most "
        "SIBLING_MAX_WAIT_S.",
    ),
]


DatasetOrder = Literal[
    "created_at", "-created_at", "name", "-name", "state", "-state", "size_bytes", "-size_bytes"
]


class DatasetQuery(SearchQuery):
    """Query parameters of the list of datasets."""

    state: DatasetState | None = Field(None, description="Only datasets in this state.")
    order_by: DatasetOrder = Field("-created_at", description=ORDER_HELP)


class PreviewQuery(BaseModel):
    """Query parameters of the preview of a dataset."""

    model_config = ConfigDict(extra="forbid")

    task: tuple[str, ...] = Field(
        (), max_length=MAX_TASKS, description="Tasks to show; default: the first ones."
    )
    tasks: int = Field(5, ge=1, le=MAX_TASKS, description="Number of tasks, if none is named.")
    rows: int = Field(5, ge=0, le=100, description="Number of rows of each task.")
    first_row: int = Field(0, ge=0, description="Number of the first of these rows, from 0.")


class TableQuery(BaseModel):
    """Query parameters of the download of a dataset."""

    model_config = ConfigDict(extra="forbid")

    task: tuple[str, ...] = Field(
        (), max_length=1000, description="Tasks; default: all. They need the same columns."
    )


@router.get(
    "", summary="List datasets", responses=problems("invalid-page-token", "invalid-request")
)
def list_datasets(
    services: Context, owner: Owner, query: Annotated[DatasetQuery, Query()]
) -> Page[Dataset]:
    """List datasets, by default newest first."""
    with query.checked(), services.database.read() as session:
        found = store.list_page(
            session,
            owner,
            query.wanted(query.order_by),
            state=query.state,
            text=query.text,
            since=query.since,
            until=query.until,
        )
    return page_of_rows([Dataset.from_row(row) for (row,) in found.rows], found)


@router.get(
    "/{dataset_id}",
    summary="Read a dataset",
    response_model=Dataset,
    responses={304: {"description": "Not modified."}, **problems("not-found", "invalid-request")},
)
async def get_dataset(
    dataset_id: DatasetId, request: Request, services: Context, owner: Owner, *, wait: Wait = 0
) -> Response:
    """Return a dataset; wait up to `wait` seconds for it to be ready or rejected."""
    deadline = time.monotonic() + min(wait, services.settings.max_wait_s)
    row = await run_in_threadpool(find_row, services, dataset_id, owner)
    if services.waiting.has_room(owner):
        with services.waiting.place(owner):
            while row.state in UNFINISHED_DATASETS and time.monotonic() < deadline:
                await asyncio.sleep(POLL_S)
                row = await run_in_threadpool(find_row, services, dataset_id, owner)
    headers = {"ETag": tag_of(row)}
    if (
        row.state in UNFINISHED_DATASETS and time.monotonic() < deadline
    ):  # there was no room to wait
        headers["Retry-After"] = str(RETRY_AFTER_S)
    if is_not_modified(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return json_response(Dataset.from_row(row), status=200, **headers)


@router.get(
    "/{dataset_id}/manifest",
    summary="Read the contents of a dataset",
    response_model=Manifest,
    responses=problems("not-found", "wrong-state", "invalid-request"),
)
def get_manifest(dataset_id: DatasetId, services: Context, owner: Owner) -> Response:
    """Return the contents of a dataset, by task."""
    row = find_row(services, dataset_id, owner)
    if row.manifest is None:
        raise Problem("wrong-state", store.describe_unready(row))
    return json_response(Manifest.model_validate(row.manifest), ETag=tag_of(row))


@router.get(
    "/{dataset_id}/preview",
    summary="Preview a dataset",
    response_model=Preview,
    responses=problems("not-found", "wrong-state", "unknown-task", "invalid-request"),
)
def preview_dataset(
    dataset_id: DatasetId,
    services: Context,
    owner: Owner,
    query: Annotated[PreviewQuery, Query()],
) -> Response:
    """Return first rows, columns and targets by task, and which algorithms can be trained."""
    row = find_row(services, dataset_id, owner)
    content = _content(services, row)
    shown = slice(query.first_row, query.first_row + query.rows)
    dataset_preview = preview(row, content, names=query.task, n_tasks=query.tasks, shown=shown)
    return json_response(dataset_preview, ETag=tag_of(row))


@router.get(
    "/{dataset_id}/table",
    summary="Download a dataset",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The rows as CSV or, by `Accept`, as a stream of Arrow record batches.",
            "content": {media_type: {} for media_type in TABLE_TYPES},
        },
        **problems(
            "not-found",
            "wrong-state",
            "not-acceptable",
            "unknown-task",
            "invalid-data",
            "invalid-request",
        ),
    },
)
def download_dataset(
    dataset_id: DatasetId,
    request: Request,
    services: Context,
    owner: Owner,
    query: Annotated[TableQuery, Query()],
) -> Response:
    """Download the rows of tasks with the same columns as one table.

    Columns have the names of the upload. Rows without a target follow the other rows of their task.
    """
    media_type = preferred_type(request.headers.get("accept", ""), tuple(TABLE_TYPES))
    row = find_row(services, dataset_id, owner)
    content = _content(services, row)
    table = DatasetTable(content, row.manifest or {}, options=row.options, names=query.task)
    headers = {
        "Content-Disposition": f'attachment; filename="{row.id}{TABLE_TYPES[media_type]}"',
        "Vary": "Accept",
    }
    return StreamingResponse(table.chunks(media_type), media_type=media_type, headers=headers)


@router.delete(
    "/{dataset_id}",
    summary="Delete a dataset",
    status_code=204,
    responses=problems("not-found", "in-use", "precondition-failed", "wrong-state"),
)
def delete_dataset(
    dataset_id: DatasetId, request: Request, services: Context, owner: Owner, record: Record
) -> Response:
    """Delete a dataset that no unfinished job and no model uses."""
    with services.database.write() as session:
        row = store.get(session, dataset_id, owner=owner)
        if row is None:
            raise _no_dataset(dataset_id)
        check_if_match(request, tag_of(row))
        if row.state in UNFINISHED_DATASETS:
            raise Problem(
                "wrong-state",
                f"dataset '{dataset_id}' is {row.state}; wait until it is ready or rejected",
            )
        users = store.needed_by(session, dataset_id)
        if users:
            detail = f"dataset '{dataset_id}' is used by {'; '.join(users)}"
            raise Problem("in-use", detail)
        store.delete(session, row)
        record(session, 204)
    return Response(status_code=204)


def find_row(services: DatasetServices, dataset_id: str, owner: str) -> DatasetRow:
    """Return the row of a dataset; raise a Problem if the owner has none with this id."""
    with services.database.read() as session:
        row = store.get(session, dataset_id, owner=owner)
    if row is None:
        raise _no_dataset(dataset_id)
    return row


def _content(services: DatasetServices, row: DatasetRow) -> FilePath:
    """Return the file with the tasks of a dataset; raise a problem if it is not ready."""
    if row.content_blob_id is None or row.content_sha256 is None:
        raise Problem("wrong-state", store.describe_unready(row))
    return services.blobs.path(row.content_blob_id, row.content_sha256)


def tag_of(row: DatasetRow) -> str:
    """Return the ETag of a dataset."""
    return etag(row.upload_sha256 if row.state == DatasetState.READY else f"{row.id}-{row.state}")


def _no_dataset(dataset_id: str) -> Problem:
    return Problem("not-found", store.describe_missing(dataset_id))
