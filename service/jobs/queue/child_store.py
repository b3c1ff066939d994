"""SQL of jobs with parts: they are queued as one, watched as one, and end as one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased, defer

from service.database import now
from service.jobs.queue import store
from service.jobs.queue.states import ACTIVE, FINAL, JobState
from service.jobs.studies.child_jobs import Part
from service.rows import JobRow

#: Ends of a part that end the whole.
_LET_DOWN: Final = (JobState.FAILED, JobState.TIMED_OUT)
_PART: Final = aliased(JobRow)
#: How many parts of each job that waits are in each state; to put it together takes longer than to
#: ask, and it is asked several times a second.
_COUNTS: Final = (
    sa.select(JobRow.id, JobRow.is_cancel_requested, _PART.state, sa.func.count())
    .join(_PART, _PART.parent_id == JobRow.id)
    .where(JobRow.state == JobState.WAITING)
    .group_by(JobRow.id, JobRow.is_cancel_requested, _PART.state)
)


def create_with_parts(session: Session, job: store.NewJob, parts: Sequence[Part]) -> JobRow:
    """Return the row of a new job that waits for its parts, which are queued."""
    parent = store.create(session, job, state=JobState.WAITING)
    add_parts(session, parent, parts)
    return parent


def add_parts(session: Session, parent: JobRow, parts: Sequence[Part]) -> None:
    """Queue more parts of a job that waits for them."""
    job = store.NewJob(
        **{name: getattr(parent, name) for name in store.NewJob.__dataclass_fields__}
    )
    for part in parts:
        new = replace(job, algorithm=part.algorithm, params=part.params, plan=part.plan)
        store.create(session, new, parent_id=parent.id)


def hold_waiting(session: Session, job_id: str) -> JobRow | None:
    """Return a job that waits for its parts; until the session ends nobody else writes it."""
    query = sa.select(JobRow).where(JobRow.id == job_id, JobRow.state == JobState.WAITING)
    return session.scalar(query.with_for_update().execution_options(populate_existing=True))


def parts_of(session: Session, job_id: str) -> Sequence[JobRow]:
    """Return the parts of a job in their order, without what they came to, which may be large."""
    query = sa.select(JobRow).where(JobRow.parent_id == job_id).options(defer(JobRow.result))
    rows = session.scalars(query.execution_options(populate_existing=True)).all()
    return sorted(rows, key=_position)


def results_of_parts(session: Session, job_id: str) -> list[dict[str, Any]]:
    """Return what the parts of a job came to, in their order."""
    query = sa.select(JobRow).where(JobRow.parent_id == job_id)
    return [row.result or {} for row in sorted(session.scalars(query), key=_position)]


def count_parts(session: Session, job_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return the number of parts of each of some jobs by state."""
    query = (
        sa.select(JobRow.parent_id, JobRow.state, sa.func.count())
        .where(JobRow.parent_id.in_(job_ids))
        .group_by(JobRow.parent_id, JobRow.state)
    )
    found: dict[str, dict[str, int]] = {job_id: {} for job_id in job_ids}
    for parent_id, state, n in session.execute(query):
        assert parent_id is not None
        found[parent_id][state] = n
    return found


def news_of_parts(session: Session) -> dict[str, Any]:
    """Give, for each job that waits for its parts, a value that is another once they have moved."""
    news: dict[str, set[Any]] = {}
    for job_id, *values in session.execute(_COUNTS):
        news.setdefault(job_id, set()).add(tuple(values))
    for job in store.active(session):
        if job.parent_id in news:
            news[job.parent_id].add((job.id, (job.progress or {}).get("fraction")))
    return news


def have_succeeded(parts: Sequence[JobRow]) -> bool:
    """Return whether every one of some parts has come to something."""
    return all(part.state == JobState.SUCCEEDED for part in parts)


def collect(session: Session, job: JobRow, parts: Sequence[JobRow]) -> None:
    """Have a job that waits for its parts go on, or end with the part that has failed."""
    here = (session, job.id, job.attempt, JobState.WAITING)
    has_ended = all(part.state in FINAL for part in parts)
    failed = next((part for part in parts if part.state in _LET_DOWN), None)
    if job.is_cancel_requested:
        if has_ended:
            store.move(*here, JobState.CANCELLED)
    elif failed is not None:
        error = failed.error or {"code": failed.state, "detail": failed.state}
        position = parts.index(failed) + 1
        detail = f"part {position} of {len(parts)} ({failed.id}): {error['detail']}"
        store.move(
            *here, JobState.FAILED, error={**error, "detail": detail, "attempt": job.attempt}
        )
        for part in parts:
            if part.state not in FINAL:
                store.request_cancel(session, part)
    elif have_succeeded(parts):
        store.move(*here, JobState.QUEUED)
    elif has_ended:  # a part was cancelled on its own
        store.request_cancel(session, job)
        store.move(*here, JobState.CANCELLED)
    else:
        _sum_progress(session, job, parts)


def _position(part: JobRow) -> int:
    assert part.plan is not None
    return int(part.plan["position"])


def _sum_progress(session: Session, job: JobRow, parts: Sequence[JobRow]) -> None:
    """Write how far the parts are together, and an event for each one more that is done."""
    n_done = sum(part.state == JobState.SUCCEEDED for part in parts)
    begun = sum(
        (part.progress or {}).get("fraction", 0.0) for part in parts if part.state in ACTIVE
    )
    n_parts = max(len(parts), (job.plan or {}).get("n_parts", 0))  # later ones are not there yet
    fraction = round((n_done + begun) / (n_parts + 1), 4)  # the last step is its own
    before = job.progress or {"iteration": -1, "fraction": -1.0}
    if fraction == before["fraction"] and n_done == before["iteration"]:
        return
    elapsed_s = (now() - job.created_at).total_seconds()
    progress = {
        "loop": f"parts of {n_parts}",
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
