"""Jobs as the API returns them, read from their rows."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from service.jobs.queue import child_store, queries
from service.jobs.results import shown_results
from service.jobs.schemas import Job, inference_plan
from service.models.store import applied_versions, versions_of_jobs
from service.storage.job_states import JobState
from service.storage.tables import JobRow


def read_job(session: Session, row: JobRow) -> Job:
    """Return the schema of a job, with its version, attempts and child jobs."""
    (job,) = read_jobs(session, [row])
    return job


def read_jobs(session: Session, rows: Sequence[JobRow]) -> list[Job]:
    """Return the schemas of jobs."""
    ids = [row.id for row in rows]
    applied = {row.id: plan["version_id"] for row in rows if (plan := inference_plan(row))}
    versions = versions_of_jobs(session, ids) | applied_versions(session, applied)
    attempts = queries.attempts_of(session, ids)
    children = child_store.count_child_jobs(session, ids)
    results = shown_results(session, rows)
    return [
        Job.from_row(
            row,
            versions.get(row.id),
            attempts[row.id],
            result=results[row.id],
            child_jobs=children[row.id],
        )
        for row in rows
    ]


def new_job(row: JobRow, *, n_child_jobs: int = 0) -> Job:
    """Return the schema of a job that was just created, which needs no query."""
    child_jobs = {JobState.QUEUED.value: n_child_jobs} if n_child_jobs else {}
    plan = inference_plan(row)
    version = None if plan is None else plan["version"]
    return Job.from_row(row, version, (), result=None, child_jobs=child_jobs)
