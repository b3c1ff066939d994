"""Resumable uploads: storage of their parts, and completion."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from service.access.quotas import check_upload, count_uploads
from service.datasets import resumable_upload_store
from service.datasets import store as dataset_store
from service.datasets.context import DatasetServices
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.registry import Format, find_format
from service.datasets.registration import UploadRequest, content_fingerprint, register_in
from service.datasets.store import NewDataset
from service.datasets.upload import write_body
from service.errors.problems import Problem
from service.http.idempotency import fingerprint
from service.storage.blob_rows import complete_blob, release_blob
from service.storage.blobs import BlobChanged
from service.storage.tables import BlobRow, DatasetRow, UploadRow, new_id

#: Maximum number of uploads of an owner that are not complete.
MAX_UNFINISHED: Final = 100


@dataclass(frozen=True, slots=True)
class NewUpload:
    """Metadata that the client sends before the first byte of an upload.

    Attributes
    ----------
    tag
        Text by which the client recognises the upload, such as a hash of the file.
    sha256
        SHA-256 that the whole file must have, in hexadecimal digits; None if the client sent none.
    """

    owner: str
    name: str
    options: ReadOptions
    format: Format
    length: int
    tag: str | None
    sha256: str | None


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


def create(services: DatasetServices, new: NewUpload) -> UploadState:
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
            sha256=new.sha256,
            length=new.length,
            blob_id=blob_id,
        )
        session.add(row)
        session.flush()
        return state_of(session, row)


def read(services: DatasetServices, upload_id: str, owner: str) -> UploadState:
    """Return an upload; create its dataset if the process that received the last byte did not.

    Raises
    ------
    Problem
        There is no such upload, or its bytes do not have the declared SHA-256; it is then deleted.
    """
    with services.database.read() as session:
        state = _state(session, upload_id, owner)
    if state.offset == state.row.length and state.row.dataset_id is None:
        return _complete(services, state.row)
    return state


async def append(
    request: Request, services: DatasetServices, upload_id: str, owner: str, offset: int
) -> UploadState:
    """Add the body of a request to an upload; create the dataset after the last byte.

    Bytes received before a disconnection are kept.

    Parameters
    ----------
    offset
        Number of bytes that the client has sent before.

    Raises
    ------
    Problem
        The offset is not the number of bytes so far, the body exceeds the length of the upload,
        its first bytes do not match the media type, or the bytes of the complete upload do not
        have the declared SHA-256.
    """
    state = await run_in_threadpool(read, services, upload_id, owner)
    if state.row.dataset_id is not None or state.offset != offset:
        raise _mismatch(state)
    assert state.row.blob_id is not None
    appender = await run_in_threadpool(services.blobs.appender, state.row.blob_id)
    is_changed = appender.size_bytes != offset  # by another request, or deleted
    if not is_changed:
        try:
            format_, length = find_format(state.row.media_type), state.row.length
            too_long = _too_long(state)
            await write_body(
                request, appender, format_, limit=length, too_long=too_long, is_part=True
            )
        except ClientDisconnect:
            pass  # the client asks for the offset and continues
        except BlobChanged:
            is_changed = True
    if is_changed:
        raise _mismatch(await run_in_threadpool(read, services, upload_id, owner))
    return await run_in_threadpool(read, services, upload_id, owner)


def _complete(services: DatasetServices, row: UploadRow) -> UploadState:
    """Create the dataset of an upload whose bytes are complete."""
    assert row.blob_id is not None
    sha256 = services.blobs.sha256(row.blob_id)
    if row.sha256 not in (None, sha256):
        delete(services, row.id, row.owner)
        detail = f"the bytes received have the SHA-256 {sha256}, but the declared one is"
        raise Problem("checksum-mismatch", f"{detail} {row.sha256}; the upload has been deleted")
    request = UploadRequest(row.owner, row.name, ReadOptions.model_validate(row.options))
    format_ = find_format(row.media_type)
    with services.database.write() as session:
        upload = resumable_upload_store.get(session, row.id, owner=row.owner, for_update=True)
        if upload is None:
            raise no_upload(row.id)
        if upload.dataset_id is not None or upload.blob_id is None:
            return state_of(session, upload)  # another request was faster
        blob_id, upload.blob_id = upload.blob_id, None
        session.flush()

        def create(new: NewDataset) -> DatasetRow:
            blob = complete_blob(session, blob_id, sha256, upload.length)
            return dataset_store.create(session, new, blob)

        same = fingerprint(content_fingerprint(sha256, request, format_), request.name)
        dataset, is_new = register_in(session, same, request, format_, create)
        if not is_new:
            release_blob(session, row.blob_id)
        upload.dataset_id = dataset.id
        session.flush()
        state = state_of(session, upload)
    if is_new:
        services.ingester.submit(dataset.id)
    return state


def delete(services: DatasetServices, upload_id: str, owner: str) -> None:
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


def _mismatch(state: UploadState) -> Problem:
    if state.row.dataset_id is not None:
        detail = f"the upload is complete: its dataset is '{state.row.dataset_id}'"
    else:
        detail = f"the upload has received {state.offset} bytes; continue at this Upload-Offset"
    return Problem("offset-mismatch", detail, headers={"Upload-Offset": str(state.offset)})


def _too_long(state: UploadState) -> Problem:
    n_left = state.row.length - state.offset
    return Problem(
        "body-too-large",
        f"the upload has a length of {state.row.length} bytes, of which {n_left} are left; the "
        "part has more",
        headers={"Connection": "close"},  # the rest of the body is not read
    )
