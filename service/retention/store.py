"""SQL of retention: each function deletes in short transactions, and yields after each of them.

The caller can pause or stop at every yield. Candidates are read a page at a time outside the
transactions, and checked again inside; a page never looks at more than a batch of rows.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session
from ulid import ULID

from service.jobs.queue import deletion
from service.storage.blob_rows import delete_chunks, mark_for_deletion, unreferenced_blobs
from service.storage.database import Database
from service.storage.job_states import FINAL
from service.storage.tables import (
    AttemptRow,
    AuditRow,
    BlobRow,
    DeliveryRow,
    EventRow,
    IdempotencyRow,
    JobRow,
    MonitoredRow,
    MonitoredTarget,
    MonitorRow,
    UploadRow,
    VersionRow,
)

#: Number of rows that a page reads, and that a transaction deletes.
BATCH_SIZE: Final = 500
#: Number of chunks of 4 MiB that a transaction deletes.
_CHUNKS_PER_STEP: Final = 8
#: Earliest time that a ULID can contain.
_FIRST_ULID_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def expire_events(database: Database, before: datetime) -> Iterator[int]:
    """Delete events before ``before`` of jobs that have ended; yield the number at each step.

    A model keeps its training history, which is in the row of its version.
    """
    after = 0
    while True:
        query = (
            sa.select(EventRow.id, EventRow.created_at, JobRow.state)
            .join(JobRow, JobRow.id == EventRow.job_id)
            .where(EventRow.id > after)
            .order_by(EventRow.id)
            .limit(BATCH_SIZE)
        )
        with database.read() as session:
            rows = session.execute(query).all()
        expired = [row.id for row in rows if row.created_at < before and row.state in FINAL]
        yield _delete(database, EventRow, EventRow.id.in_(expired), n_rows=len(expired))
        # ids ascend with time
        if len(rows) < BATCH_SIZE or rows[-1].created_at >= before:
            return
        after = rows[-1].id


def expire_attempts(database: Database, before: datetime) -> Iterator[int]:
    """Delete attempts that ended before ``before``; yield the number at each step.

    Attempts at jobs that have not ended are kept.
    """
    key = sa.tuple_(AttemptRow.job_id, AttemptRow.attempt)
    after: tuple[str, int] = ("", 0)
    while True:
        query = (
            sa.select(AttemptRow.job_id, AttemptRow.attempt, AttemptRow.finished_at, JobRow.state)
            .join(JobRow, JobRow.id == AttemptRow.job_id)
            .where(key > after, AttemptRow.job_id < _first_id(before))
            .order_by(AttemptRow.job_id, AttemptRow.attempt)
            .limit(BATCH_SIZE)
        )
        with database.read() as session:
            rows = session.execute(query).all()
        expired = [
            (row.job_id, row.attempt)
            for row in rows
            if row.state in FINAL and row.finished_at is not None and row.finished_at < before
        ]
        yield _delete(database, AttemptRow, key.in_(expired), n_rows=len(expired))
        if len(rows) < BATCH_SIZE:
            return
        after = (rows[-1].job_id, rows[-1].attempt)


def expire_uploads(database: Database, before: datetime) -> Iterator[int]:
    """Delete resumable uploads that got no byte since ``before``; yield the number each time.

    Their bytes are then referenced by nothing.
    """
    after = ""
    while True:
        query = (
            sa.select(UploadRow.id, UploadRow.updated_at, BlobRow.created_at)
            .outerjoin(BlobRow, BlobRow.id == UploadRow.blob_id)
            .where(UploadRow.id > after, UploadRow.id < _first_id(before, "up"))
            .order_by(UploadRow.id)
            .limit(BATCH_SIZE)
        )
        with database.read() as session:
            rows = session.execute(query).all()
        expired = [
            row.id for row in rows if max(row.updated_at, row.created_at or row.updated_at) < before
        ]
        yield _delete(database, UploadRow, UploadRow.id.in_(expired), n_rows=len(expired))
        if len(rows) < BATCH_SIZE:
            return
        after = rows[-1].id


def expire_jobs(database: Database, before: datetime) -> Iterator[int]:
    """Delete jobs that ended before ``before``, with child jobs; yield the number at each step.

    Jobs that made a model version which still exists are kept: they are its lineage.
    """
    for state in sorted(FINAL):
        after = ""
        while True:
            made_version = sa.exists().where(VersionRow.job_id == JobRow.id)
            query = (
                sa.select(JobRow.id, JobRow.parent_id, JobRow.finished_at, made_version)
                .where(JobRow.state == state, JobRow.id > after, JobRow.id < _first_id(before))
                .order_by(JobRow.id)
                .limit(BATCH_SIZE)
            )
            with database.read() as session:
                rows = session.execute(query).all()
            for job_id, parent_id, finished_at, has_version in rows:
                is_old = finished_at is not None and finished_at < before
                if is_old and parent_id is None and not has_version:
                    yield from _delete_job(database, job_id)
            yield 0
            if len(rows) < BATCH_SIZE:
                break
            after = rows[-1].id


def _delete_job(database: Database, job_id: str) -> Iterator[int]:
    """Delete a job unless something needs it; yield after each transaction."""
    while True:
        with database.write() as session:
            job = deletion.lock_job(session, job_id)
            if job is None or deletion.unfinished_reason(session, job):
                return
            if deletion.needed_by(session, job):
                return
            if not _delete_some_events(session, job_id):
                deletion.delete(session, job)
                break
        yield 0
    yield 1


def _delete_some_events(session: Session, job_id: str) -> bool:
    """Delete a batch of events of a job and its child jobs; return False if less is left."""
    family = sa.select(JobRow.id).where(sa.or_(JobRow.id == job_id, JobRow.parent_id == job_id))
    batch = sa.select(EventRow.id).where(EventRow.job_id.in_(family)).limit(BATCH_SIZE)
    event_ids = session.scalars(batch).all()
    if len(event_ids) < BATCH_SIZE:
        return False
    session.execute(sa.delete(EventRow).where(EventRow.id.in_(event_ids)))
    return True


def expire_idempotency_keys(database: Database, before: datetime) -> Iterator[int]:
    """Delete idempotency keys created before ``before``; yield the number at each step."""
    key = sa.tuple_(IdempotencyRow.owner, IdempotencyRow.key)
    query = (
        sa.select(IdempotencyRow.owner, IdempotencyRow.key)
        .where(IdempotencyRow.created_at < before)
        .order_by(IdempotencyRow.created_at)
        .limit(BATCH_SIZE)
    )
    while True:
        with database.read() as session:
            keys = [(row.owner, row.key) for row in session.execute(query)]
        is_old = IdempotencyRow.created_at < before  # a key can be used again
        yield _delete(database, IdempotencyRow, key.in_(keys) & is_old, n_rows=len(keys))
        if len(keys) < BATCH_SIZE:
            return


def expire_audit_events(database: Database, before: datetime) -> Iterator[int]:
    """Delete audit events created before ``before``; yield the number at each step."""
    yield from _expire_oldest(database, AuditRow, before)


def expire_deliveries(database: Database, before: datetime) -> Iterator[int]:
    """Delete deliveries of webhooks created before ``before``; yield the number at each step."""
    yield from _expire_oldest(database, DeliveryRow, before)


def _expire_oldest(
    database: Database, row: type[AuditRow | DeliveryRow], before: datetime
) -> Iterator[int]:
    """Delete rows of a table that were created before ``before``."""
    query = (
        sa.select(row.id).where(row.created_at < before).order_by(row.created_at).limit(BATCH_SIZE)
    )
    while True:
        with database.read() as session:
            ids = session.scalars(query).all()
        yield _delete(database, row, row.id.in_(ids), n_rows=len(ids))
        if len(ids) < BATCH_SIZE:
            return


def expire_monitored(database: Database, moment: datetime) -> Iterator[int]:
    """Delete monitored rows and targets after the days of their monitor, at a moment.

    Those of monitors that were deleted go, too. Yield the number at each step.
    """
    with database.read() as session:
        days = dict(session.execute(sa.select(MonitorRow.id, MonitorRow.days)).all())
    for table in (MonitoredRow, MonitoredTarget):
        after = ""
        while True:
            with database.read() as session:
                following = sa.select(sa.func.min(table.monitor_id)).where(table.monitor_id > after)
                monitor_id = session.scalar(following)
            if monitor_id is None:
                break
            before = moment - timedelta(days=days[monitor_id]) if monitor_id in days else moment
            is_old = (table.monitor_id == monitor_id) & (table.created_at < before)
            batch = sa.select(table.row_id).where(is_old).distinct().limit(BATCH_SIZE)
            while True:
                with database.read() as session:
                    ids = session.scalars(batch).all()
                yield _delete(database, table, is_old & table.row_id.in_(ids), n_rows=len(ids))
                if len(ids) < BATCH_SIZE:
                    break
            after = monitor_id


def expire_blobs(database: Database, before: datetime) -> Iterator[int]:
    """Delete unreferenced blobs last written before ``before``; yield the number at each step."""
    after = ""
    while True:
        with database.read() as session:
            page = unreferenced_blobs(session, after=after, before=before, limit=BATCH_SIZE)
        for blob_id in page.blob_ids:
            with database.write() as session:
                is_marked = mark_for_deletion(session, blob_id, before=before)
            while is_marked:
                yield 0
                with database.write() as session:
                    if not delete_chunks(session, blob_id, limit=_CHUNKS_PER_STEP):
                        break
            yield int(is_marked)
        yield 0
        if page.last_id is None:
            return
        after = page.last_id


def _delete(
    database: Database, row: type[Any], condition: sa.ColumnElement[bool], *, n_rows: int
) -> int:
    """Delete rows in a transaction; return their number."""
    if n_rows:
        with database.write() as session:
            session.execute(
                sa.delete(row).where(condition).execution_options(synchronize_session=False)
            )
    return n_rows


def _first_id(moment: datetime, prefix: str = "job") -> str:
    """Return an id below the ids of all jobs, or other rows, created at a moment or later."""
    return f"{prefix}_{str(ULID.from_datetime(max(moment, _FIRST_ULID_TIME))).lower()}"
