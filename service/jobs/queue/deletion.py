"""Deletion of jobs that have ended, with their child jobs, events, attempts and blobs."""

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.datasets.store import forget_unused
from service.storage.blob_rows import release_blob
from service.storage.database import lock
from service.storage.job_states import FINAL, UNFINISHED, JobState
from service.storage.tables import (
    AttemptRow,
    EventRow,
    IdempotencyRow,
    JobRow,
    ModelRow,
    VersionRow,
)

#: A statement of SQLite has at most 32,766 parameters.
_MAX_IDS_PER_QUERY: Final = 10_000


def lock_job(session: Session, job_id: str, *, owner: str | None = None) -> JobRow | None:
    """Return the row of a job, locked until the session ends; None if there is none.

    Parameters
    ----------
    owner
        Return None for a job of another owner.
    """
    query = sa.select(JobRow).where(JobRow.id == job_id).with_for_update()
    row = session.scalar(query.execution_options(populate_existing=True))
    return row if row is not None and owner in (None, row.owner) else None


def unfinished_reason(session: Session, job: JobRow) -> str | None:
    """Return why a job has not ended with all its child jobs; None if it has."""
    if JobState(job.state) not in FINAL:
        return f"job '{job.id}' is {job.state}; cancel it first, or wait until it has ended"
    query = sa.select(JobRow.id).where(JobRow.parent_id == job.id, JobRow.state.in_(UNFINISHED))
    child = session.scalar(query.limit(1))
    if child is None:
        return None
    return f"child job '{child}' of job '{job.id}' has not ended; cancel it first, or wait"


def needed_by(session: Session, job: JobRow) -> str | None:
    """Return the resource that needs an ended job: its parent, or the model version it made."""
    if job.parent_id is not None:
        return f"job '{job.parent_id}', its parent; delete that job"
    version = session.execute(
        sa.select(ModelRow.name, VersionRow.version)
        .join(VersionRow, VersionRow.model_id == ModelRow.id)
        .where(VersionRow.job_id == job.id)
    ).one_or_none()
    if version is None:
        return None
    return f"the lineage of model '{version.name}', version {version.version}; delete that first"


def delete(session: Session, job: JobRow) -> None:
    """Delete a job that has ended and that nothing needs, and all that belongs to it.

    Its dataset, if deleted before, is now forgotten; a dataset of its outputs stays.
    """
    family = session.execute(
        sa.select(JobRow.id, JobRow.output_blob_id, JobRow.checkpoint_blob_id).where(
            sa.or_(JobRow.id == job.id, JobRow.parent_id == job.id)
        )
    ).all()
    blob_ids = {blob_id for member in family for blob_id in member[1:] if blob_id is not None}
    _forget_keys(session, [member.id for member in family])
    _delete_rows(session, job.id)
    for blob_id in sorted(blob_ids):
        release_blob(session, blob_id)
    forget_unused(session, job.dataset_id)


def _forget_keys(session: Session, job_ids: Sequence[str]) -> None:
    """Delete the idempotency keys of jobs, so that a repeated request creates a new job.

    The locks let a concurrent request find either the key with its job, or neither.
    """
    for start in range(0, len(job_ids), _MAX_IDS_PER_QUERY):
        keys_of = IdempotencyRow.resource_id.in_(job_ids[start : start + _MAX_IDS_PER_QUERY])
        keys = session.execute(sa.select(IdempotencyRow.owner, IdempotencyRow.key).where(keys_of))
        for owner, key in sorted((owner, key) for owner, key in keys):
            lock(session, "idempotency", owner, key)
        session.execute(_quietly(sa.delete(IdempotencyRow).where(keys_of)))


def _delete_rows(session: Session, job_id: str) -> None:
    """Delete the rows of a job and its child jobs; the database would delete one by one."""
    family = sa.select(JobRow.id).where(sa.or_(JobRow.id == job_id, JobRow.parent_id == job_id))
    statements = [
        sa.delete(EventRow).where(EventRow.job_id.in_(family)),
        sa.delete(AttemptRow).where(AttemptRow.job_id.in_(family)),
        sa.delete(JobRow).where(JobRow.parent_id == job_id),
        sa.delete(JobRow).where(JobRow.id == job_id),
    ]
    for statement in statements:
        session.execute(_quietly(statement))


def _quietly(statement: sa.Delete) -> sa.Delete:
    """Return a statement that does not look for deleted objects in the session."""
    return statement.execution_options(synchronize_session=False)
