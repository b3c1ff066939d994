"""Resumable uploads: storage of their parts, and completion."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from service.access.quotas import check_upload, count_uploads
from service.blobs import Blob, BlobAppender, BlobChanged, complete_blob, release_blob
from service.datasets import resumable_upload_store
from service.datasets.context import Services
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.registry import Format, find_format
from service.datasets.upload import (
    MAGIC_BYTES,
    WRITE_BYTES,
    UploadRequest,
    check_start,
    register_in,
)
from service.errors import Problem
from service.rows import BlobRow, UploadRow, new_id

#: Maximum number of uploads of an owner that are not complete.
MAX_UNFINISHED: Final = 100


@dataclass(frozen=True, slots=True)
class NewUpload:
    """Metadata that the client sends before the first byte of an upload.

    Attributes
    ----------
    tag
        Text by which the client recognises the upload, such as a hash of the file.
    """

    owner: str
    name: str
    options: ReadOptions
    format: Format
    length: int
    tag: str | None


@dataclass(frozen=True, slots=True)
class UploadState:
    """An upload and its progress.

    Attributes
    ----------
    offset
        Number of bytes received.
    changed_at
        Time at which the last bytes were received.
    """

    row: UploadRow
    offset: int
    changed_at: datetime


def create(services: Services, new: NewUpload) -> UploadState:
    """Create an upload.

    Raises
    ------
    Problem
        The upload exceeds the size limit or a quota.
    """
    limit = services.settings.max_upload_bytes
    if new.length > limit:
        raise Problem("body-too-large", f"{new.length} bytes exceed the limit of {limit} bytes")
    with services.database.write() as session:
        check_upload(session, new.owner, services.settings, size_bytes=new.length)
        n_unfinished = count_uploads(session, new.owner)  # check_upload has locked the quotas
        if n_unfinished >= MAX_UNFINISHED:
            detail = f"you have {n_unfinished} unfinished uploads, the maximum; complete or delete"
            raise Problem("quota-exceeded", f"{detail} them")
        blob_id = new_id("blob")
        session.add(BlobRow(id=blob_id, sha256=None))
        session.flush()
        row = UploadRow(
            id=new_id("up"),
            owner=new.owner,
            name=new.name,
            media_type=new.format.media_types[0],
            options=new.options.model_dump(mode="json"),
            tag=new.tag,
            length=new.length,
            blob_id=blob_id,
        )
        session.add(row)
        session.flush()
        return state_of(session, row)


def read(services: Services, upload_id: str, owner: str) -> UploadState:
    """Return an upload; create its dataset if the process that received the last byte did not."""
    with services.database.read() as session:
        found = _state(session, upload_id, owner)
    if found.offset == found.row.length and found.row.dataset_id is None:
        return _complete(services, found.row)
    return found


async def append(
    request: Request, services: Services, upload_id: str, owner: str, offset: int
) -> UploadState:
    """Add the body of a request to an upload; create the dataset after the last byte.

    Bytes received before a disconnection are kept.

    Raises
    ------
    Problem
        The offset is not the number of bytes so far, the body exceeds the length of the upload,
        or its first bytes do not match the media type.
    """
    found = await run_in_threadpool(read, services, upload_id, owner)
    if found.row.dataset_id is not None or found.offset != offset:
        raise _mismatch(found)
    assert found.row.blob_id is not None
    appender = await run_in_threadpool(services.blobs.appender, found.row.blob_id)
    is_changed = appender.size_bytes != offset  # by another request, or deleted
    if not is_changed:
        try:
            await _receive(request, appender, found)
        except BlobChanged:
            is_changed = True
    if is_changed:
        raise _mismatch(await run_in_threadpool(read, services, upload_id, owner))
    return await run_in_threadpool(read, services, upload_id, owner)


async def _receive(request: Request, appender: BlobAppender, found: UploadState) -> None:
    format_ = find_format(found.row.media_type)
    pending = bytearray()
    is_checked = found.offset > 0
    try:
        async for piece in request.stream():
            pending += piece
            if appender.size_bytes + len(pending) > found.row.length:
                raise _too_long(found)
            if not is_checked and len(pending) >= MAGIC_BYTES:
                is_checked = True
                check_start(format_, bytes(pending))
            if len(pending) >= WRITE_BYTES:
                await run_in_threadpool(appender.write, bytes(pending))
                pending.clear()
    except ClientDisconnect:
        pass  # the client asks for the offset and continues
    except (Problem, asyncio.CancelledError) as error:
        if not isinstance(error, Problem) or error.code == "request-timeout":
            # shielded, since a server that stops cancels its requests
            await asyncio.shield(run_in_threadpool(_store, appender, bytes(pending)))
        raise
    await run_in_threadpool(_store, appender, bytes(pending))


def _store(appender: BlobAppender, data: bytes) -> None:
    appender.write(data)
    appender.flush()


class _Received:
    """The bytes of a complete upload, for the creation of its dataset."""

    def __init__(self, blob_id: str, sha256: str, size_bytes: int) -> None:
        self._blob_id = blob_id
        self._sha256 = sha256
        self.size_bytes = size_bytes

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes."""
        return self._sha256

    def finish(self, session: Session) -> Blob:
        """Complete the blob within the transaction of the session, and return it."""
        return complete_blob(session, self._blob_id, self._sha256, self.size_bytes)


def _complete(services: Services, row: UploadRow) -> UploadState:
    """Create the dataset of an upload whose bytes are complete."""
    assert row.blob_id is not None
    sha256 = services.blobs.sha256(row.blob_id)
    request = UploadRequest(row.owner, row.name, ReadOptions.model_validate(row.options), None)
    with services.database.write() as session:
        upload = resumable_upload_store.get(session, row.id, owner=row.owner, for_update=True)
        if upload is None:
            raise no_upload(row.id)
        if upload.dataset_id is not None or upload.blob_id is None:
            return state_of(session, upload)  # another request was faster
        received = _Received(upload.blob_id, sha256, upload.length)
        upload.blob_id = None
        session.flush()
        dataset, is_new = register_in(session, received, request, find_format(row.media_type))
        if not is_new:
            release_blob(session, row.blob_id)
        upload.dataset_id = dataset.id
        session.flush()
        state = state_of(session, upload)
    if is_new:
        services.ingester.submit(dataset.id)
    return state


def delete(services: Services, upload_id: str, owner: str) -> None:
    """Delete an upload; its dataset, if there is one, stays."""
    with services.database.write() as session:
        row = resumable_upload_store.get(session, upload_id, owner=owner, for_update=True)
        if row is None:
            raise no_upload(upload_id)
        resumable_upload_store.delete(session, row)


def _state(session: Session, upload_id: str, owner: str) -> UploadState:
    row = resumable_upload_store.get(session, upload_id, owner=owner)
    if row is None:
        raise no_upload(upload_id)
    return state_of(session, row)


def state_of(session: Session, row: UploadRow) -> UploadState:
    """Return the upload and the number of bytes received."""
    blob = None
    if row.blob_id is not None:
        blob = session.get(BlobRow, row.blob_id, populate_existing=True)
    if blob is None:
        return UploadState(row, row.length, row.updated_at)
    return UploadState(row, blob.size_bytes, max(row.updated_at, blob.created_at))


def no_upload(upload_id: str) -> Problem:
    """Return the problem of an upload that does not exist."""
    return Problem("not-found", f"there is no upload '{upload_id}'; create a new one")


def _mismatch(found: UploadState) -> Problem:
    if found.row.dataset_id is not None:
        detail = f"the upload is complete: its dataset is '{found.row.dataset_id}'"
    else:
        detail = f"the upload has received {found.offset} bytes; continue at this Upload-Offset"
    return Problem("offset-mismatch", detail, headers={"Upload-Offset": str(found.offset)})


def _too_long(found: UploadState) -> Problem:
    rest = found.row.length - found.offset
    return Problem(
        "body-too-large",
        f"the upload has a length of {found.row.length} bytes, of which {rest} are left; the part "
        "has more",
        headers={"Connection": "close"},  # the rest of the body is not read
    )
