"""SQL of jobs: every change of state is one UPDATE that names the state and attempt it leaves."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session

from service.blobs import release_blob
from service.database import now
from service.jobs.queue.states import ACTIVE, FINAL, MOVES, JobState, Wish
from service.rows import AttemptRow, BlobRow, EventRow, JobRow, new_id


@dataclass(frozen=True, slots=True)
class NewJob:
    """What a job is created from."""

    owner: str
    dataset_id: str
    algorithm: str
    params: dict[str, Any]
    seed: int
    model_name: str
    priority: int
    timeout_s: float
    memory_mb: int
    max_attempts: int
    threads: int | None
    traceparent: str | None
    #: What else is to be done than one fit, as :mod:`service.jobs.studies.plans` writes it.
    plan: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lost:
    """Why an attempt ended without a result of its own."""

    code: str
    detail: str
    #: Whether it counts against ``max_attempts``.
    is_charged: bool = True


def create(
    session: Session,
    job: NewJob,
    *,
    state: JobState = JobState.QUEUED,
    parent_id: str | None = None,
) -> JobRow:
    """Return the row of a new job."""
    values = {name: getattr(job, name) for name in NewJob.__dataclass_fields__}
    row = JobRow(id=new_id("job"), state=state, attempt=0, parent_id=parent_id, **values)
    session.add(row)
    session.flush()
    add_event(session, row.id, 0, "state", {"state": state})
    return row


def get(session: Session, job_id: str, *, owner: str | None = None) -> JobRow | None:
    """Return the row of a job; another owner's is as if it were not there."""
    row = session.get(JobRow, job_id, populate_existing=True)
    return row if row is not None and owner in (None, row.owner) else None


def list_page(
    session: Session,
    owner: str,
    *,
    after: str | None,
    limit: int,
    state: str | None,
    parent: str | None,
) -> Sequence[JobRow]:
    """Return jobs, newest first, older than the job ``after``: whole ones, or the parts of one."""
    query = sa.select(JobRow).where(JobRow.owner == owner, JobRow.parent_id == parent)
    query = query.order_by(JobRow.id.desc())
    if after is not None:
        query = query.where(JobRow.id < after)
    if state is not None:
        query = query.where(JobRow.state == state)
    return session.scalars(query.limit(limit)).all()


def events_after(session: Session, job_id: str, event_id: int, limit: int) -> Sequence[EventRow]:
    """Return the events of a job after one of them, in order."""
    query = sa.select(EventRow).where(EventRow.job_id == job_id, EventRow.id > event_id)
    return session.scalars(query.order_by(EventRow.id).limit(limit)).all()


def attempts_of(session: Session, job_ids: Sequence[str]) -> dict[str, list[AttemptRow]]:
    """Return the attempts at each of some jobs, in order."""
    found: dict[str, list[AttemptRow]] = {job_id: [] for job_id in job_ids}
    query = sa.select(AttemptRow).where(AttemptRow.job_id.in_(job_ids))
    for row in session.scalars(query.order_by(AttemptRow.attempt)):
        found[row.job_id].append(row)
    return found


def add_event(session: Session, job_id: str, attempt: int, kind: str, data: dict[str, Any]) -> None:
    """Write down something that happened to a job."""
    session.add(EventRow(job_id=job_id, attempt=attempt, kind=kind, data=data))


def move(
    session: Session,
    job_id: str,
    attempt: int,
    leave: JobState,
    enter: JobState,
    /,
    *,
    outcome: str | None = None,
    **values: Any,
) -> bool:
    """Move a job between states; false where it has left this state or attempt meanwhile.

    Parameters
    ----------
    outcome
        How the attempt ended, where the state that is entered does not say so.
    values
        Other columns of the row.
    """
    if enter not in MOVES[leave]:
        raise ValueError(f"a job cannot go from {leave} to {enter}")
    if enter in FINAL:
        values["finished_at"] = now()
    moved = update_one(
        session,
        sa.update(JobRow).where(
            JobRow.id == job_id, JobRow.attempt == attempt, JobRow.state == leave
        ),
        state=enter,
        **values,
    )
    if not moved:
        return False
    event: dict[str, Any] = {"state": enter}
    if values.get("error"):
        event["error"] = values["error"]
    add_event(session, job_id, values.get("attempt", attempt), "state", event)
    if leave == JobState.RUNNING:
        _end_attempt(session, job_id, attempt, outcome or enter, values.get("error"))
    if enter in FINAL:
        keep_checkpoint(session, job_id, None)
    return True


def update_one(session: Session, statement: sa.Update, **values: Any) -> bool:
    """Set values of the one row that a statement names; false where there is none."""
    result = session.execute(
        statement.values(**values).execution_options(synchronize_session=False)
    )
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def submit(session: Session, job: JobRow) -> bool:
    """Hand a queued job to the engine as its next attempt."""
    return move(
        session,
        job.id,
        job.attempt,
        JobState.QUEUED,
        JobState.SUBMITTED,
        attempt=job.attempt + 1,
        worker=None,
        progress=None,
        is_release_requested=False,
    )


def claim(
    session: Session, job_id: str, attempt: int, worker: str, *, threads: int | None = None
) -> bool:
    """Begin a submitted attempt; false for every claimant but the first, and once cancelled.

    Parameters
    ----------
    threads
        What the job gets if it asks for none. All later attempts get as many, on any machine: the
        last bits of a result depend on it.
    """
    row = get(session, job_id)
    if row is None or row.state != JobState.SUBMITTED or row.attempt != attempt:
        return False
    if row.is_cancel_requested:
        move(session, job_id, attempt, JobState.SUBMITTED, JobState.CANCELLED)
        return False
    began = move(
        session,
        job_id,
        attempt,
        JobState.SUBMITTED,
        JobState.RUNNING,
        worker=worker,
        charged=JobRow.charged + 1,
        threads=sa.func.coalesce(JobRow.threads, threads),
        started_at=sa.func.coalesce(JobRow.started_at, now()),
    )
    if began:
        session.add(
            AttemptRow(job_id=job_id, attempt=attempt, worker=worker, outcome=JobState.RUNNING)
        )
    return began


def beat(
    session: Session,
    job_id: str,
    attempt: int,
    worker: str,
    progress: dict[str, Any] | None,
    *,
    is_told: bool = True,
) -> Wish | None:
    """Say that an attempt lives; give what is wanted of it, None where it was fenced out.

    Parameters
    ----------
    is_told
        Whether the progress becomes an event as well.
    """
    values: dict[str, Any] = {"heartbeat": JobRow.heartbeat + 1}
    if progress is not None:
        values["progress"] = progress
        if is_told:
            add_event(session, job_id, attempt, "progress", progress)
    statement = (
        sa.update(JobRow)
        .where(
            JobRow.id == job_id,
            JobRow.attempt == attempt,
            JobRow.worker == worker,
            JobRow.state == JobState.RUNNING,
        )
        .values(**values)
        .returning(JobRow.is_cancel_requested, JobRow.is_release_requested)
        .execution_options(synchronize_session=False)
    )
    wanted = session.execute(statement).one_or_none()
    if wanted is None:
        session.rollback()
        return None
    is_cancelled, is_released = wanted
    if is_cancelled:
        return Wish.CANCEL
    return Wish.RELEASE if is_released else Wish.GO_ON


def is_free(session: Session, job_id: str) -> bool:
    """Return whether nobody else is writing a row; then, until the session ends, nobody does."""
    query = sa.select(JobRow.id).where(JobRow.id == job_id)
    return session.scalar(query.with_for_update(skip_locked=True)) is not None


def is_held(session: Session, job_id: str, attempt: int) -> bool:
    """Return whether an attempt has the row; while the session writes, nobody takes it away."""
    query = sa.select(JobRow.id).where(
        JobRow.id == job_id, JobRow.attempt == attempt, JobRow.state == JobState.RUNNING
    )
    return session.scalar(query.with_for_update()) is not None


def keep_checkpoint(session: Session, job_id: str, blob_id: str | None) -> None:
    """Have the next attempt at a job go on from a blob, in place of the one before it."""
    before = session.scalar(sa.select(JobRow.checkpoint_blob_id).where(JobRow.id == job_id))
    if before == blob_id:
        return
    statement = sa.update(JobRow).where(JobRow.id == job_id)
    update_one(session, statement, checkpoint_blob_id=blob_id)
    if before is not None:
        release_blob(session, before)


def keep_output(session: Session, job_id: str, blob_id: str, result: dict[str, Any]) -> None:
    """Write down what an inference came to, and where its outputs are."""
    statement = sa.update(JobRow).where(JobRow.id == job_id)
    update_one(session, statement, output_blob_id=blob_id, result=result)


def output_of(session: Session, job: JobRow) -> BlobRow | None:
    """Return the outputs of an inference, while they are kept."""
    return None if job.output_blob_id is None else session.get(BlobRow, job.output_blob_id)


def drop_output(session: Session, job: JobRow) -> None:
    """Delete the outputs of an inference; that it was, and what it came to, stays."""
    blob_id = job.output_blob_id
    update_one(session, sa.update(JobRow).where(JobRow.id == job.id), output_blob_id=None)
    if blob_id is not None:
        release_blob(session, blob_id)


def request_release(session: Session, *, worker: str) -> None:
    """Ask a supervisor to keep a checkpoint of what it runs, stop, and give it back."""
    session.execute(
        sa.update(JobRow)
        .where(JobRow.worker == worker, JobRow.state == JobState.RUNNING)
        .values(is_release_requested=True)
        .execution_options(synchronize_session=False)
    )


def request_cancel(session: Session, job: JobRow) -> None:
    """Cancel a job: at once where it waits, else by a flag that its supervisor sees.

    One that waits for its parts is cancelled with the last of them.
    """
    if job.state == JobState.QUEUED and move(
        session, job.id, job.attempt, JobState.QUEUED, JobState.CANCELLED
    ):
        return
    flagged = update_one(
        session,
        sa.update(JobRow).where(
            JobRow.id == job.id,
            JobRow.state.notin_(FINAL),
            JobRow.is_cancel_requested.is_(False),
        ),
        is_cancel_requested=True,
    )
    if flagged:
        add_event(session, job.id, job.attempt, "cancel", {})
        parts = sa.select(JobRow).where(JobRow.parent_id == job.id, JobRow.state.notin_(FINAL))
        for part in session.scalars(parts.execution_options(populate_existing=True)).all():
            request_cancel(session, part)


def lose(session: Session, job: JobRow, lost: Lost) -> bool:
    """End an active attempt that gave no result: queue the job again, or end it with the cause."""
    state = JobState(job.state)
    error = {"code": lost.code, "detail": lost.detail, "attempt": job.attempt}
    here = (session, job.id, job.attempt, state)
    if job.is_cancel_requested:
        return move(*here, JobState.CANCELLED)
    if state == JobState.SUBMITTED:
        return move(*here, JobState.QUEUED)
    if not lost.is_charged:
        return move(*here, JobState.QUEUED, outcome="released", charged=JobRow.charged - 1)
    enter = JobState.QUEUED if job.charged < job.max_attempts else JobState.FAILED
    return move(*here, enter, outcome="lost", error=error)


def count_waiting(session: Session, owner: str) -> int:
    """Return the number of jobs of an owner that wait; the parts of one count as one."""
    query = sa.select(sa.func.count()).where(
        JobRow.owner == owner,
        JobRow.parent_id.is_(None),
        JobRow.state.in_((JobState.QUEUED, JobState.WAITING)),
    )
    return session.scalar(query) or 0


def count_by_state(session: Session) -> dict[str, int]:
    """Return the number of jobs in each state that is not an end."""
    states = [state for state in JobState if state not in FINAL]
    query = (
        sa.select(JobRow.state, sa.func.count())
        .where(JobRow.state.in_(states))
        .group_by(JobRow.state)
    )
    return dict.fromkeys(map(str, states), 0) | dict(session.execute(query).tuples().all())


def oldest_queued(session: Session) -> datetime | None:
    """Return when the job was created that has been queued for longest."""
    query = sa.select(sa.func.min(JobRow.created_at)).where(JobRow.state == JobState.QUEUED)
    return session.scalar(query)


def active(session: Session) -> Sequence[JobRow]:
    """Return the jobs that are submitted or running."""
    query = sa.select(JobRow).where(JobRow.state.in_(ACTIVE))
    return session.scalars(query.execution_options(populate_existing=True)).all()


def has_queued(session: Session) -> bool:
    """Return whether there is a job to admit."""
    query = sa.select(JobRow.id).where(JobRow.state == JobState.QUEUED)
    return session.scalar(query.limit(1)) is not None


def next_queued(session: Session, limit: int) -> list[JobRow]:
    """Return the jobs to admit next: by priority, then the owner with fewest busy, then age."""
    # a part is as old as its whole
    age = (sa.func.coalesce(JobRow.parent_id, JobRow.id), JobRow.id)
    rank = sa.func.row_number().over(
        partition_by=JobRow.owner, order_by=(JobRow.priority.desc(), *age)
    )
    queued = (
        sa.select(JobRow.id, JobRow.owner, JobRow.priority, rank.label("rank"))
        .where(JobRow.state == JobState.QUEUED)
        .subquery()
    )
    busy = (
        sa.select(JobRow.owner, sa.func.count().label("n"))
        .where(JobRow.state.in_(ACTIVE))
        .group_by(JobRow.owner)
        .subquery()
    )
    # an owner's r-th waiting job would be its (busy + r)-th at work
    turn = sa.func.coalesce(busy.c.n, 0) + queued.c.rank
    query = (
        sa.select(JobRow)
        .join(queued, queued.c.id == JobRow.id)
        .outerjoin(busy, busy.c.owner == queued.c.owner)
        .order_by(queued.c.priority.desc(), turn, *age)
        .limit(limit)
    )
    return list(session.scalars(query))


def _end_attempt(
    session: Session, job_id: str, attempt: int, outcome: str, error: dict[str, Any] | None
) -> None:
    statement = sa.update(AttemptRow).where(
        AttemptRow.job_id == job_id, AttemptRow.attempt == attempt
    )
    update_one(session, statement, outcome=outcome, error=error, finished_at=now())
