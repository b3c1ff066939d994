"""Upload of a request body to the blob store, as a stream."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session
from starlette.requests import ClientDisconnect, Request

from service.access.quotas import check_upload
from service.datasets import store
from service.datasets.context import Services
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.registry import Format, UnsupportedFormat, check_magic, find_format
from service.datasets.issues import ValidationIssue
from service.errors.problems import Problem
from service.http.bodies import check_length, too_large
from service.http.idempotency import find_created, fingerprint, remember_created
from service.storage.blob_rows import Blob
from service.storage.blobs import BlobAppender, BlobWriter
from service.storage.rows import DatasetRow

#: Bytes buffered before a thread writes them to the store.
WRITE_BYTES: Final = 256 * 1024
#: Number of first bytes that show whether a file is of another format.
MAGIC_BYTES: Final = 8
#: Values of Content-Encoding that leave a body as it is, or that the parser of CSV unpacks.
_ENCODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip", "zstd"})


class Received(Protocol):
    """The bytes of an upload in the store."""

    size_bytes: int

    def sha256(self) -> str:
        """Return the SHA-256 of the bytes."""

    def finish(self, session: Session) -> Blob:
        """Complete the blob within the transaction of the session, and return it."""


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
    format_ = format_of(media_type)
    check_length(request, limit)
    writer = await run_in_threadpool(services.blobs.writer)
    try:
        await write_body(request, writer, format_, limit=limit, too_long=too_large(limit))
        return await run_in_threadpool(_register, services, writer, upload, format_)
    except BaseException as error:
        # shielded, so that the data is deleted even if the client disconnects
        await asyncio.shield(run_in_threadpool(writer.discard))
        if isinstance(error, ClientDisconnect):
            raise Problem(
                "malformed-body", "the client disconnected before the end of the upload"
            ) from None
        raise


async def write_body(
    request: Request,
    writer: BlobWriter | BlobAppender,
    format_: Format,
    *,
    limit: int,
    too_long: Problem,
    is_part: bool = False,
) -> None:
    """Add the body of a request to a blob; keep what arrived before an interruption.

    Parameters
    ----------
    limit
        Maximum size of the blob.
    too_long
        Raised if the body exceeds the limit.
    is_part
        Whether more may follow, so that the body may have fewer bytes than show its format.

    Raises
    ------
    Problem
        The body exceeds the limit, stalls, has a Content-Encoding that is not read, or the first
        bytes of the blob are of another format.
    """
    _check_encoding(request)
    pending = bytearray()
    is_checked = writer.size_bytes > 0
    try:
        async for chunk in request.stream():
            pending += chunk
            if writer.size_bytes + len(pending) > limit:
                raise too_long
            if not is_checked and len(pending) >= MAGIC_BYTES:
                is_checked = True
                _check_start(format_, bytes(pending))
            if len(pending) >= WRITE_BYTES:
                await run_in_threadpool(writer.write, bytes(pending))
                pending.clear()
        if not (is_checked or is_part):
            _check_start(format_, bytes(pending))
    except (ClientDisconnect, Problem, asyncio.CancelledError) as error:
        if not isinstance(error, Problem) or error.code == "request-timeout":
            # shielded, since a server that stops cancels its requests
            await asyncio.shield(run_in_threadpool(_write, writer, bytes(pending)))
        raise
    await run_in_threadpool(_write, writer, bytes(pending))


def _write(writer: BlobWriter | BlobAppender, data: bytes) -> None:
    writer.write(data)
    writer.flush()


def format_of(media_type: str) -> Format:
    """Return the format with a media type, or raise a problem."""
    try:
        return find_format(media_type)
    except UnsupportedFormat as error:
        raise Problem("unsupported-media-type", str(error)) from None


def _check_encoding(request: Request) -> None:
    """Raise a problem if the body is compressed in a way that no format unpacks."""
    encoding = request.headers.get("content-encoding", "").strip()
    if encoding.lower() not in _ENCODINGS:
        detail = f"Content-Encoding {encoding[:40]!r} is not supported in an upload"
        raise Problem("unsupported-media-type", f"{detail}; send CSV as gzip or zstd, or plain")


def _check_start(format_: Format, head: bytes) -> None:
    """Raise a problem if the first bytes of an upload are of another format."""
    try:
        check_magic(format_, head)
    except UnsupportedFormat as error:
        raise Problem("unsupported-media-type", str(error)) from None


def _register(
    services: Services, writer: BlobWriter, upload: UploadRequest, format_: Format
) -> tuple[DatasetRow, bool]:
    if writer.size_bytes == 0:
        issue = ValidationIssue("empty-file", "the upload has no bytes")
        raise Problem("invalid-dataset", issue.detail, errors=[issue.to_json()])
    owner, key = upload.owner, upload.idempotency_key
    request_hash = fingerprint("POST /v1/datasets", upload.name, _same(writer, upload, format_))
    with services.database.write() as session:
        created = find_created(session, owner, key, request_hash)
        row = None if created is None else store.get(session, created, owner=owner)
        is_new = False
        if row is None:
            check = partial(check_upload, session, owner, services.settings)
            row, is_new = register_in(session, writer, upload, format_, check=check)
        if created is None:
            remember_created(session, owner, key, request_hash, row.id)
    if not is_new:
        writer.discard()
    return row, is_new


def register_in(
    session: Session,
    received: Received,
    upload: UploadRequest,
    format_: Format,
    *,
    check: Callable[..., None] | None = None,
) -> tuple[DatasetRow, bool]:
    """Return the row of a dataset of some bytes, and whether it is new.

    Parameters
    ----------
    check
        Raises a problem if a new dataset of ``size_bytes`` is beyond a quota.
    """
    same = _same(received, upload, format_)
    row = store.find_same(session, upload.owner, same)
    if row is not None:
        return row, False
    if check is not None:
        check(size_bytes=received.size_bytes)
    options = upload.options.model_dump(mode="json")
    media_type = format_.media_types[0]
    new = store.NewDataset(upload.owner, upload.name, media_type, options, same)
    return store.create(session, new, received.finish(session)), True


def _same(received: Received, upload: UploadRequest, format_: Format) -> str:
    """Return the fingerprint of equal bytes that are read in the same way."""
    read_as = upload.options.model_dump_json()
    return fingerprint(format_.media_types[0], read_as, received.sha256())
