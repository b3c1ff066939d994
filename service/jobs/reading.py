"""Jobs as the API returns them, read from their rows."""

from sqlalchemy.orm import Session

from service.jobs.queue import child_store, queries
from service.jobs.schemas import Job
from service.models.store import version_of_job
from service.rows import JobRow


def read_job(session: Session, row: JobRow) -> Job:
    """Return the schema of a job, with its version, attempts and child jobs."""
    attempts = queries.attempts_of(session, [row.id])[row.id]
    children = child_store.count_child_jobs(session, [row.id])[row.id]
    return Job.from_row(row, version_of_job(session, row.id), attempts, children)
