"""Upload of a request body to the blob store, as a stream."""

import asyncio
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session
from starlette.requests import ClientDisconnect, Request

from service.access.quotas import check_upload
from service.blobs import BlobWriter
from service.database import lock
from service.datasets import store
from service.datasets.context import Services
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.registry import Format, UnsupportedFormat, check_magic, find_format
from service.datasets.issues import ValidationIssue
from service.errors import Problem
from service.http.bodies import check_length, too_large
from service.idempotency import find_created, fingerprint, remember_created
from service.rows import DatasetRow

#: Bytes buffered before a thread writes them to the store.
_WRITE_BYTES = 256 * 1024
_MAGIC_BYTES = 8


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """Owner, name and options of an upload."""

    owner: str
    name: str
    options: ReadOptions
    idempotency_key: str | None


async def receive(
    request: Request, services: Services, upload: UploadRequest
) -> tuple[DatasetRow, bool]:
    """Store the body of a request; return its dataset row, and whether the row is new.

    Raises
    ------
    Problem
        The upload is too large, empty, of an unsupported format, or beyond a quota. Nothing is
        stored.
    """
    limit = services.settings.max_upload_bytes
    media_type = request.headers.get("content-type", "")
    format_ = _find_format(media_type)
    check_length(request, limit)
    writer = await run_in_threadpool(services.blobs.writer)
    try:
        await _store(request, writer, format_, limit)
        return await run_in_threadpool(_register, services, writer, upload, format_)
    except BaseException as error:
        # shielded, so that the data is deleted even if the client disconnects
        await asyncio.shield(run_in_threadpool(writer.discard))
        if isinstance(error, ClientDisconnect):
            raise Problem(
                "malformed-body", "the client disconnected before the end of the upload"
            ) from None
        raise


async def _store(request: Request, writer: BlobWriter, format_: Format, limit: int) -> None:
    pending = bytearray()
    is_checked = False
    async for chunk in request.stream():
        pending += chunk
        if writer.size_bytes + len(pending) > limit:
            raise too_large(limit)
        if not is_checked and len(pending) >= _MAGIC_BYTES:
            is_checked = True
            _check_magic(format_, bytes(pending))
        if len(pending) >= _WRITE_BYTES:
            await run_in_threadpool(writer.write, bytes(pending))
            pending.clear()
    if not is_checked:
        _check_magic(format_, bytes(pending))
    await run_in_threadpool(writer.write, bytes(pending))
    if writer.size_bytes == 0:
        issue = ValidationIssue("empty-file", "the upload has no bytes")
        raise Problem("invalid-dataset", issue.detail, errors=[issue.to_json()])
    await run_in_threadpool(writer.flush)


def _find_format(media_type: str) -> Format:
    try:
        return find_format(media_type)
    except UnsupportedFormat as error:
        raise Problem("unsupported-media-type", str(error)) from None


def _check_magic(format_: Format, head: bytes) -> None:
    try:
        check_magic(format_, head)
    except UnsupportedFormat as error:
        raise Problem("unsupported-media-type", str(error)) from None


def _register(
    services: Services, writer: BlobWriter, upload: UploadRequest, format_: Format
) -> tuple[DatasetRow, bool]:
    media_type = format_.media_types[0]
    options = upload.options.model_dump(mode="json")
    read_as = upload.options.model_dump_json()
    same = fingerprint(media_type, read_as, writer.sha256())
    request_hash = fingerprint("POST /v1/datasets", upload.name, same)
    new = store.NewDataset(upload.owner, upload.name, media_type, options, same)
    with services.database.write() as session:
        created = find_created(session, upload.owner, upload.idempotency_key, request_hash)
        row = None
        if created is not None:
            row = store.get(session, created, owner=upload.owner)
        if row is None:
            row = _find_same(session, upload.owner, same)
        is_new = row is None
        if row is None:
            size_bytes = writer.size_bytes
            check_upload(session, upload.owner, services.settings, size_bytes=size_bytes)
            row = store.create(session, new, writer.finish(session))
        if created is None:
            remember_created(session, upload.owner, upload.idempotency_key, request_hash, row.id)
    if not is_new:
        writer.discard()
    return row, is_new


def _find_same(session: Session, owner: str, same: str) -> DatasetRow | None:
    """Return the dataset of the same bytes; delete a rejected one, so that it is parsed again."""
    lock(session, "dataset", owner, same)
    row = store.find_same(session, owner, same)
    if row is None or row.state != "rejected":
        return row
    store.forget(session, row)
    return None
