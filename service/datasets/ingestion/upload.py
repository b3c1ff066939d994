"""Receiving an upload: a stream into the blob store, never whole in memory."""

import asyncio
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.orm import Session
from starlette.requests import ClientDisconnect, Request

from service.blobs import BlobWriter
from service.context import Services
from service.database import lock
from service.datasets import store
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.registry import Format, UnsupportedFormat, check_magic, find_format
from service.datasets.issues import ValidationIssue
from service.errors import Problem
from service.http import check_length, fingerprint, too_large
from service.idempotency import find_created, remember_created
from service.rows import DatasetRow

#: Bytes gathered before they are handed to a thread that stores them.
_STRIDE_BYTES = 256 * 1024
_MAGIC_BYTES = 8


@dataclass(frozen=True, slots=True)
class Wish:
    """What the sender says of an upload."""

    owner: str
    name: str
    options: ReadOptions
    idempotency_key: str | None


async def receive(request: Request, services: Services, wish: Wish) -> tuple[DatasetRow, bool]:
    """Return the row of the upload in a request's body, and whether it is new.

    Raises
    ------
    Problem
        The upload is too large, empty, or of a format that is not read. Nothing is kept.
    """
    limit = services.settings.max_upload_bytes
    media_type = request.headers.get("content-type", "")
    format_ = _find_format(media_type)
    check_length(request, limit)
    writer = await run_in_threadpool(services.blobs.writer)
    try:
        await _store(request, writer, format_, limit)
        return await run_in_threadpool(_register, services, writer, wish, format_)
    except BaseException as error:
        # shielded, so that a sender who hangs up still leaves nothing behind
        await asyncio.shield(run_in_threadpool(writer.discard))
        if isinstance(error, ClientDisconnect):
            raise Problem("malformed-body", "the upload ended before its end") from None
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
        if len(pending) >= _STRIDE_BYTES:
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
    services: Services, writer: BlobWriter, wish: Wish, format_: Format
) -> tuple[DatasetRow, bool]:
    media_type = format_.media_types[0]
    options = wish.options.model_dump(mode="json")
    read_as = wish.options.model_dump_json()
    same = fingerprint(media_type, read_as, writer.sha256())
    asked = fingerprint("POST /v1/datasets", wish.name, same)
    new = store.NewDataset(wish.owner, wish.name, media_type, options, same)
    with services.database.write() as session:
        created = find_created(session, wish.owner, wish.idempotency_key, asked)
        row = None
        if created is not None:
            row = store.get(session, created, owner=wish.owner)
        if row is None:
            row = _find_same(session, wish.owner, same)
        is_new = row is None
        if row is None:
            row = store.create(session, new, writer.finish(session))
        if created is None:
            remember_created(session, wish.owner, wish.idempotency_key, asked, row.id)
    if not is_new:
        writer.discard()
    return row, is_new


def _find_same(session: Session, owner: str, same: str) -> DatasetRow | None:
    """Return the dataset of the same bytes; one that was rejected makes way to be read again."""
    lock(session, "dataset", owner, same)
    row = store.find_same(session, owner, same)
    if row is None or row.state != "rejected":
        return row
    store.forget(session, row)
    return None
