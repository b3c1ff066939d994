"""SQL of jobs with child jobs, which are queued, watched and ended together."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased, defer

from service.jobs.queue import queries, store
from service.jobs.studies.child_jobs import ChildJob
from service.storage.database import now
from service.storage.job_states import ACTIVE, FINAL, JobState
from service.storage.tables import JobRow

#: States of a child job that fail its parent.
FAILED_STATES: Final = (JobState.FAILED, JobState.TIMED_OUT)
_CHILD: Final = aliased(JobRow)
#: Number of child jobs by state, for each waiting job. Built once: it runs several times a second,
#: and building it takes longer than running it.
_COUNTS: Final = (
    sa.select(JobRow.id, JobRow.is_cancel_requested, _CHILD.state, sa.func.count())
    .join(_CHILD, _CHILD.parent_id == JobRow.id)
    .where(JobRow.state == JobState.WAITING)
    .group_by(JobRow.id, JobRow.is_cancel_requested, _CHILD.state)
)


def create_with_child_jobs(
    session: Session, job: store.NewJob, children: Sequence[ChildJob]
) -> JobRow:
    """Create a job that waits for its child jobs, and queue these; without any, queue the job."""
    parent = store.create(session, job, state=JobState.WAITING if children else JobState.QUEUED)
    add_child_jobs(session, parent, children)
    return parent


def add_child_jobs(session: Session, parent: JobRow, children: Sequence[ChildJob]) -> None:
    """Queue child jobs of a waiting job."""
    job = store.NewJob(
        **{name: getattr(parent, name) for name in store.NewJob.__dataclass_fields__}
    )
    job = replace(job, spec=None, expected_s=None, reference_s=None)
    new = (
        replace(job, algorithm=child.algorithm, params=child.params, plan=child.plan)
        for child in children
    )
    store.create_all(session, new, parent_id=parent.id)


def lock_waiting(session: Session, job_id: str) -> JobRow | None:
    """Return a waiting job, locked until the session ends; None if it is not waiting."""
    query = sa.select(JobRow).where(JobRow.id == job_id, JobRow.state == JobState.WAITING)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def child_jobs_of(session: Session, job_id: str) -> Sequence[JobRow]:
    """Return the child jobs of a job in order, without their results, which may be large."""
    query = sa.select(JobRow).where(JobRow.parent_id == job_id).options(defer(JobRow.result))
    rows = session.scalars(query.execution_options(populate_existing=True)).all()
    return sorted(rows, key=_position)


def child_results(session: Session, job_id: str) -> list[dict[str, Any]]:
    """Return the results of the child jobs of a job, in order.

    A child job that may fail, and has failed, has its plan with the reason as result.
    """
    query = sa.select(JobRow).where(JobRow.parent_id == job_id)
    return [_result_of(row) for row in sorted(session.scalars(query), key=_position)]


def count_child_jobs(session: Session, job_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the number of child jobs by the state that the API shows, for each of some jobs."""
    state = queries.shown_state().label("shown_state")
    query = (
        sa.select(JobRow.parent_id, state, sa.func.count())
        .where(JobRow.parent_id.in_(job_ids))
        .group_by(JobRow.parent_id, state)
    )
    counts: dict[str, dict[str, int]] = {job_id: {} for job_id in job_ids}
    for parent_id, shown, n in session.execute(query):
        assert parent_id is not None
        counts[parent_id][shown] = n
    return counts


def child_progress(session: Session) -> dict[str, Any]:
    """Return, for each waiting job, a value that changes whenever its child jobs progress."""
    progress: dict[str, set[Any]] = {}
    for job_id, *values in session.execute(_COUNTS):
        progress.setdefault(job_id, set()).add(tuple(values))
    for job in queries.active(session):
        if job.parent_id in progress:
            progress[job.parent_id].add((job.id, (job.progress or {}).get("fraction")))
    return progress


def all_succeeded(children: Sequence[JobRow]) -> bool:
    """Return whether every child job has succeeded, or has failed and may fail."""
    return all(
        child.state == JobState.SUCCEEDED or _has_failed_harmlessly(child) for child in children
    )


def _has_failed_harmlessly(child: JobRow) -> bool:
    return child.state in FAILED_STATES and bool((child.plan or {}).get("may_fail"))


def _result_of(child: JobRow) -> dict[str, Any]:
    if not _has_failed_harmlessly(child):
        return child.result or {}
    detail = (child.error or {}).get("detail", child.state.replace("_", " "))
    return {"plan": child.plan, "splits": None, "failed": detail}


def update_parent(session: Session, job: JobRow, children: Sequence[JobRow]) -> None:
    """Queue a waiting job, fail it, cancel it, or update its progress, by its child jobs."""
    here = (session, job.id, job.attempt, JobState.WAITING)
    have_ended = all(child.state in FINAL for child in children)
    failed = next(
        (
            child
            for child in children
            if child.state in FAILED_STATES and not _has_failed_harmlessly(child)
        ),
        None,
    )
    if job.is_cancel_requested:
        if have_ended:
            store.move(*here, JobState.CANCELLED)
    elif failed is not None:
        _fail(session, job, children, failed)
    elif all_succeeded(children):
        store.move(*here, JobState.QUEUED)
    elif have_ended:  # the user cancelled one of the child jobs
        store.request_cancel(session, job)
        store.move(*here, JobState.CANCELLED)
    else:
        _update_progress(session, job, children)


def _fail(session: Session, job: JobRow, children: Sequence[JobRow], failed: JobRow) -> None:
    """Fail a job with the error of a child job, and cancel its other child jobs."""
    error = failed.error or {"code": failed.state.replace("_", "-"), "detail": failed.state}
    position = children.index(failed) + 1
    detail = f"child job {position} of {len(children)} ({failed.id}): {error['detail']}"
    error = {**error, "detail": detail, "attempt": job.attempt}
    store.move(session, job.id, job.attempt, JobState.WAITING, JobState.FAILED, error=error)
    for child in children:
        if child.state not in FINAL:
            store.request_cancel(session, child)


def _position(child: JobRow) -> int:
    assert child.plan is not None
    return int(child.plan["position"])


def _update_progress(session: Session, job: JobRow, children: Sequence[JobRow]) -> None:
    """Store the common progress of the child jobs, with an event whenever one more has ended."""
    n_done = sum(
        child.state == JobState.SUCCEEDED or _has_failed_harmlessly(child) for child in children
    )
    started = sum(
        (child.progress or {}).get("fraction", 0.0) for child in children if child.state in ACTIVE
    )
    # child jobs of later rounds do not exist yet
    n_children = max(len(children), (job.plan or {}).get("n_child_jobs", 0))
    fraction = round((n_done + started) / (n_children + 1), 4)  # the last step is the parent's
    before = job.progress or {"iteration": -1, "fraction": -1.0}
    if fraction == before["fraction"] and n_done == before["iteration"]:
        return
    elapsed_s = (now() - job.created_at).total_seconds()
    progress = {
        "loop": f"{n_children} child jobs",
        "iteration": n_done,
        "objective": None,
        "residual": None,
        "fraction": fraction,
        "elapsed_s": round(elapsed_s, 3),
        "remaining_s": round(elapsed_s * (1 - fraction) / fraction, 3) if fraction > 0 else None,
    }
    store.update_one(session, sa.update(JobRow).where(JobRow.id == job.id), progress=progress)
    if n_done != before["iteration"]:
        store.add_event(session, job.id, job.attempt, "progress", progress)
