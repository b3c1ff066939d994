"""SQL of blobs: their rows and chunks, and the deletion of unreferenced blobs."""

import shutil
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from service.observability.disk_space import FULL_BYTES
from service.storage.database import lock
from service.storage.tables import BlobChunkRow, BlobRow, Row, new_id

#: Size of every chunk but the last.
CHUNK_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Blob:
    """A complete blob in the store."""

    id: str
    sha256: str
    size_bytes: int


def add_chunk(session: Session, blob_id: str, position: int, data: bytes) -> None:
    """Store a chunk of a blob.

    Parameters
    ----------
    position
        Number of the chunk in the blob, from 0.

    Raises
    ------
    OperationalError
        The disk of SQLite is almost full. The rest is for small rows, such as the states of
        jobs, and for deletions, which need some space as well.
    """
    _check_space(session)
    # a plain insert, since objects in the session would keep every chunk in memory
    values = {"blob_id": blob_id, "position": position, "data": data}
    session.execute(sa.insert(BlobChunkRow).values(values))


def _check_space(session: Session) -> None:
    url = session.get_bind().engine.url
    if (
        url.get_backend_name() == "sqlite"
        and shutil.disk_usage(str(url.database)).free < FULL_BYTES
    ):
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise OperationalError(None, None, full) from full


def add_blob(session: Session, sha256: str, size_bytes: int, chunks: Iterable[bytes]) -> Blob:
    """Store bytes within the transaction of the session, unless they are stored already.

    Parameters
    ----------
    chunks
        The bytes, in parts of ``CHUNK_BYTES``.
    """
    lock(session, "blob", sha256)
    existing = session.scalar(sa.select(BlobRow).where(BlobRow.sha256 == sha256))
    if existing is not None:
        return blob_of(existing)
    row = BlobRow(id=new_id("blob"), sha256=sha256, size_bytes=size_bytes)
    session.add(row)
    session.flush()
    for position, data in enumerate(chunks):
        add_chunk(session, row.id, position, data)
    return blob_of(row)


def complete_blob(session: Session, blob_id: str, sha256: str, size_bytes: int) -> Blob:
    """Complete a blob whose chunks are stored, and return it.

    If the same bytes are already stored, return that blob and delete this one.
    """
    lock(session, "blob", sha256)
    existing = session.scalar(sa.select(BlobRow).where(BlobRow.sha256 == sha256))
    if existing is not None:
        delete_blob(session, blob_id)
        return blob_of(existing)
    row = session.get_one(BlobRow, blob_id)
    row.sha256 = sha256
    row.size_bytes = size_bytes
    session.flush()
    return blob_of(row)


def blob_of(row: BlobRow) -> Blob:
    """Return the blob of a complete row."""
    assert row.sha256 is not None
    return Blob(row.id, row.sha256, row.size_bytes)


def read_chunk(session: Session, blob_id: str, position: int) -> bytes | None:
    """Return a chunk of a blob; None after the last one."""
    query = sa.select(BlobChunkRow.data).where(
        BlobChunkRow.blob_id == blob_id, BlobChunkRow.position == position
    )
    return session.scalar(query.execution_options(has_bytes=True))


def read_range(session: Session, blob_id: str, start: int, stop: int) -> bytes:
    """Return the bytes from start to stop of a blob."""
    parts = []
    for position in range(start // CHUNK_BYTES, -(-stop // CHUNK_BYTES)):
        first = max(start - position * CHUNK_BYTES, 0)
        n_bytes = min(stop - position * CHUNK_BYTES, CHUNK_BYTES) - first
        query = sa.select(sa.func.substr(BlobChunkRow.data, first + 1, n_bytes)).where(
            BlobChunkRow.blob_id == blob_id, BlobChunkRow.position == position
        )
        parts.append(bytes(session.scalars(query.execution_options(has_bytes=True)).one()))
    return b"".join(parts)


def release_blob(session: Session, blob_id: str) -> None:
    """Delete a blob unless a row references it."""
    _lock_blob(session, blob_id)
    if not any(session.scalar(_first(column == blob_id)) for column in _references()):
        delete_blob(session, blob_id)


def delete_blob(session: Session, blob_id: str) -> None:
    """Delete a blob; the database raises an error if a row references it."""
    session.execute(sa.delete(BlobChunkRow).where(BlobChunkRow.blob_id == blob_id))
    session.execute(sa.delete(BlobRow).where(BlobRow.id == blob_id))


@dataclass(frozen=True, slots=True)
class UnreferencedPage:
    """Ids of blobs on a page of all blobs that no row references.

    Attributes
    ----------
    last_id
        Id after which the next page begins; None on the last one.
    """

    blob_ids: list[str]
    last_id: str | None


def unreferenced_blobs(
    session: Session, *, after: str, before: datetime, limit: int
) -> UnreferencedPage:
    """Return the unreferenced ones of the next blobs, last written before ``before``.

    Parameters
    ----------
    after
        Last id of the previous page.
    limit
        Number of blobs that are read; only unreferenced ones are returned.
    """
    is_referenced = sa.or_(*(sa.exists().where(c == BlobRow.id) for c in _references()))
    query = sa.select(BlobRow.id, BlobRow.created_at < before, is_referenced)
    page = query.where(BlobRow.id > after).order_by(BlobRow.id).limit(limit)
    rows = session.execute(page).all()
    unreferenced = [blob_id for blob_id, is_old, is_used in rows if is_old and not is_used]
    return UnreferencedPage(unreferenced, rows[-1][0] if len(rows) == limit else None)


def mark_for_deletion(session: Session, blob_id: str, *, before: datetime) -> bool:
    """Make a blob unavailable to new references; return False if it has one, or is new.

    Afterwards its chunks can be deleted in several transactions.
    """
    _lock_blob(session, blob_id)
    query = sa.select(BlobRow.id).where(BlobRow.id == blob_id, BlobRow.created_at < before)
    if session.scalar(query.with_for_update()) is None:
        return False
    if any(session.scalar(_first(column == blob_id)) for column in _references()):
        return False
    session.execute(sa.update(BlobRow).where(BlobRow.id == blob_id).values(sha256=None))
    return True


def delete_chunks(session: Session, blob_id: str, *, limit: int) -> bool:
    """Delete some chunks of a blob that is marked for deletion; return False once it is deleted."""
    query = sa.select(BlobChunkRow.position).where(BlobChunkRow.blob_id == blob_id).limit(limit)
    positions = session.scalars(query).all()
    if len(positions) < limit:
        delete_blob(session, blob_id)
        return False
    session.execute(
        sa.delete(BlobChunkRow).where(
            BlobChunkRow.blob_id == blob_id, BlobChunkRow.position.in_(positions)
        )
    )
    return True


def _lock_blob(session: Session, blob_id: str) -> None:
    """Lock a blob by its content, as writers do that find it stored already."""
    sha256 = session.scalar(sa.select(BlobRow.sha256).where(BlobRow.id == blob_id))
    lock(session, "blob", sha256 or blob_id)


def _references() -> list[sa.Column[Any]]:
    """Return the columns of other tables that reference a blob."""
    return [
        key.parent
        for table in Row.metadata.tables.values()
        for key in table.foreign_keys
        if key.column.table.name == BlobRow.__tablename__ and key.ondelete != "CASCADE"
    ]


def _first(condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(sa.literal(1)).where(condition).limit(1)
