"""Upload of a request body to the blob store, as a stream."""

import asyncio
from typing import Final, Protocol

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request

from service.datasets.context import DatasetServices
from service.datasets.formats.registry import Format, UnsupportedFormat, check_magic, find_format
from service.datasets.registration import Registration, UploadRequest, rejected
from service.errors.problems import Problem
from service.http.bodies import check_length, media_type_of, too_large
from service.storage.dataset_states import DatasetState
from service.storage.shortages import find_shortage
from service.storage.tables import DatasetRow

#: Bytes buffered before a thread writes them to the store.
WRITE_BYTES: Final = 256 * 1024
#: Number of first bytes that show whether a file is of another format.
MAGIC_BYTES: Final = 8
#: Values of Content-Encoding that leave a body as it is, or that the parser of CSV unpacks.
_ENCODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip", "zstd"})


async def receive(
    request: Request, services: DatasetServices, upload: UploadRequest, content_type: str | None
) -> tuple[DatasetRow, bool]:
    """Store the body of a request; return its dataset row, and whether the row is new.

    Parameters
    ----------
    content_type
        Its media type in the query.

    Raises
    ------
    Problem
        The upload is too large, empty, of an unsupported format, or beyond a quota. Nothing is
        stored.
    """
    limit = services.settings.max_upload_bytes
    format_ = format_of(media_type_of(request, content_type))
    check_length(request, limit)
    writer = services.blobs.writer()
    try:
        await write_body(request, writer, format_, limit=limit, too_long=too_large(limit))
        received = Registration(services, writer, upload, format_)
        if writer.is_small and not await run_in_threadpool(received.is_known):
            return await _read_and_store(received)
        return await run_in_threadpool(received.store_upload)
    except BaseException as error:
        # shielded, so that the data is deleted even if the client disconnects
        await asyncio.shield(run_in_threadpool(writer.discard))
        if isinstance(error, ClientDisconnect):
            raise Problem(
                "malformed-body", "the client disconnected before the end of the upload"
            ) from None
        raise


async def _read_and_store(received: Registration) -> tuple[DatasetRow, bool]:
    """Store a small upload once it has been read, or before if reading takes long."""
    services = received.services
    fresh = received.fresh()
    reading = asyncio.wrap_future(services.ingester.read(fresh))
    done, _ = await asyncio.wait({reading}, timeout=services.settings.ingest_wait_s)
    if not done and fresh.claim("request"):
        stored = None
        try:
            stored = await run_in_threadpool(received.store_upload, DatasetState.INGESTING)
        finally:
            fresh.row.set_result(stored[0] if stored and stored[1] else None)
        return stored
    await asyncio.wait({reading})
    error = reading.exception()
    if error is not None and find_shortage(error) is not None:
        return await run_in_threadpool(received.store_upload)  # it is read once there is more space
    issues = reading.result().get("issues")
    if issues is not None:
        raise rejected(issues)
    return received.stored


class BodyWriter(Protocol):
    """Destination of a body, such as a blob."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes so far."""

    def write(self, data: bytes, /) -> None:
        """Add bytes."""

    def flush(self) -> None:
        """Write the bytes that are held back."""


async def write_body(
    request: Request,
    writer: BodyWriter,
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
        Whether more bytes may follow, so that the body may be too short to show its format.

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


def _write(writer: BodyWriter, data: bytes) -> None:
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
