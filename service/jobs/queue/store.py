"""SQL of jobs. Every state transition is one UPDATE whose WHERE names the state and attempt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session

from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS
from algorithms.interface.races import RACE
from algorithms.interface.ties import DEFAULT_TIES
from service.jobs.studies.child_jobs import AUTOMATIC
from service.storage.blob_rows import release_blob
from service.storage.database import now
from service.storage.job_states import FINAL, TRANSITIONS, AttemptCommand, JobState
from service.storage.tables import AttemptRow, BlobRow, EventRow, JobRow, new_id
from service.webhooks.events import EventType, emit

#: Outcome of an attempt on a machine that lacked space, memory or file handles.
POSTPONED: Final = "postponed"
_FIRST_DELAY_S: Final = 2
MAX_DELAY_S: Final = 300
#: Types of the events of jobs that end.
_END_EVENTS: Final[dict[JobState, EventType]] = {
    JobState.SUCCEEDED: "job.succeeded",
    JobState.FAILED: "job.failed",
    JobState.CANCELLED: "job.cancelled",
    JobState.TIMED_OUT: "job.timed_out",
}


@dataclass(frozen=True, slots=True)
class NewJob:
    """Columns of a new job."""

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
    #: Plan of a job that does more than one fit; see :mod:`service.jobs.studies.plans`.
    plan: dict[str, Any] | None = None
    #: Options of the preparation of raw rows; None: the default of the dataset.
    preparation: dict[str, Any] | None = None
    #: Options of the calibration of the model; None: no calibration.
    calibration: dict[str, Any] | None = None
    #: Weights of classes in the fit; None: no weights.
    class_weight: str | dict[str, float] | None = None
    #: What calls of the model do about tasks that it was not trained on.
    new_tasks: str = DEFAULT_NEW_TASKS
    #: Which equal rows are held out together.
    ties: str = DEFAULT_TIES
    #: The specification as it was sent, of a training job.
    spec: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    #: Expected time; see :mod:`service.jobs.duration`. None if it is unknown, and for child jobs.
    expected_s: float | None = None
    reference_s: float | None = None


class Queued(Protocol):
    """A queued job, as it was read."""

    @property
    def id(self) -> str:
        """Id of the job."""

    @property
    def attempt(self) -> int:
        """Number of the last attempt, 0 before the first one."""


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Reason for which an attempt ended without a result."""

    code: str
    detail: str
    #: Whether the attempt counts against ``max_attempts``.
    is_counted: bool = True


def create(
    session: Session,
    job: NewJob,
    *,
    state: JobState = JobState.QUEUED,
    parent_id: str | None = None,
) -> JobRow:
    """Create a job and return its row."""
    return create_all(session, [job], state=state, parent_id=parent_id)[0]


def create_all(
    session: Session,
    jobs: Iterable[NewJob],
    *,
    state: JobState = JobState.QUEUED,
    parent_id: str | None = None,
) -> list[JobRow]:
    """Create jobs, with few statements however many they are, and return their rows.

    Parameters
    ----------
    state
        First state: queued, or waiting for child jobs.
    parent_id
        Parent of all these jobs, which are child jobs.
    """
    rows = [_new_row(job, state=state, parent_id=parent_id) for job in jobs]
    session.add_all(rows)
    session.flush()
    # needs no lock: other sessions see these jobs only after the transaction; see add_event
    event = {"attempt": 0, "kind": "state", "data": {"state": state}}
    if rows:
        session.execute(sa.insert(EventRow), [{"job_id": row.id, **event} for row in rows])
    return rows


def _new_row(job: NewJob, *, state: JobState, parent_id: str | None) -> JobRow:
    job_id = new_id("job")
    return JobRow(
        id=job_id,
        state=state,
        attempt=0,
        parent_id=parent_id,
        root_id=parent_id or job_id,
        base_version_id=(job.plan or {}).get("version_id"),
        **{name: getattr(job, name) for name in NewJob.__dataclass_fields__},
    )


def get(session: Session, job_id: str, *, owner: str | None = None) -> JobRow | None:
    """Return the row of a job; None if it does not exist or belongs to another owner."""
    row = session.get(JobRow, job_id, populate_existing=True)
    return row if row is not None and owner in (None, row.owner) else None


def add_event(session: Session, job_id: str, attempt: int, kind: str, data: dict[str, Any]) -> None:
    """Add an event to a job.

    The id of an event is taken while the transaction holds the lock of the job's row. Otherwise
    PostgreSQL could commit a higher id of the same job first, and a reader that has seen the
    higher one would never look for the lower one.

    Parameters
    ----------
    kind
        Kind of the event, such as ``state`` or ``progress``.
    data
        Content of the event, as JSON.
    """
    _lock(session, job_id)
    session.add(EventRow(job_id=job_id, attempt=attempt, kind=kind, data=data))


def _lock(session: Session, job_id: str) -> None:
    """Lock a row until the session ends. SQLite has only one writer at a time."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(JobRow.id).where(JobRow.id == job_id).with_for_update())


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
    """Move a job to another state; return False if its state or attempt has changed meanwhile.

    Parameters
    ----------
    outcome
        Outcome of the attempt, if it differs from the new state.
    values
        Other columns of the row.
    """
    if enter not in TRANSITIONS[leave]:
        raise ValueError(f"a job cannot move from {leave} to {enter}")
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
        set_checkpoint(session, job_id, None)
        _emit_end(session, job_id, enter)
    return True


def _emit_end(session: Session, job_id: str, state: JobState) -> None:
    """Emit the event of a job that has ended; child jobs have none."""
    names = ("id", "state", "algorithm", "dataset_id", "error", "created_at", "finished_at")
    columns = (JobRow.owner, JobRow.parent_id, JobRow.model_name)
    query = sa.select(*columns, *(getattr(JobRow, name) for name in names))
    job = session.execute(query.where(JobRow.id == job_id)).one()
    if job.parent_id is None:
        data = {"model": job.model_name, **{name: getattr(job, name) for name in names}}
        kind = _END_EVENTS[state]
        path = f"/v1/jobs/{job_id}"
        emit(session, job.owner, kind, source=path, subject=path, data=data)


def update_one(session: Session, statement: sa.Update, **values: Any) -> bool:
    """Update the one row that a statement selects; return False if there is none."""
    result = session.execute(
        statement.values(**values).execution_options(synchronize_session=False)
    )
    assert isinstance(result, CursorResult)
    return result.rowcount == 1


def submit(session: Session, jobs: Sequence[Queued]) -> list[tuple[str, int]]:
    """Mark queued jobs as submitted; return id and attempt of each that was still queued."""
    if not jobs:
        return []
    rows = sa.tuple_(JobRow.id, JobRow.attempt).in_([(job.id, job.attempt) for job in jobs])
    statement = (
        sa.update(JobRow)
        .where(rows, JobRow.state == JobState.QUEUED)
        .values(
            state=JobState.SUBMITTED,
            attempt=JobRow.attempt + 1,
            worker=None,
            progress=None,
            is_release_requested=False,
            retry_at=None,
        )
        .returning(JobRow.id, JobRow.attempt)
        .execution_options(synchronize_session=False)
    )
    submitted = [(job_id, attempt) for job_id, attempt in session.execute(statement)]
    data = {"state": JobState.SUBMITTED}
    events = [
        {"job_id": job_id, "attempt": attempt, "kind": "state", "data": data}
        for job_id, attempt in submitted
    ]
    if events:  # the update has locked the rows; see add_event
        session.execute(sa.insert(EventRow), events)
    return submitted


def claim(
    session: Session, job_id: str, attempt: int, worker: str, *, threads: int | None = None
) -> bool:
    """Start a submitted attempt; return False if it was claimed before or has been cancelled.

    Parameters
    ----------
    threads
        Number of threads if the job sets none. Later attempts use the same number on any machine:
        the last bits of a result depend on it.
    """
    row = get(session, job_id)
    if row is None or row.state != JobState.SUBMITTED or row.attempt != attempt:
        return False
    if row.is_cancel_requested:
        move(session, job_id, attempt, JobState.SUBMITTED, JobState.CANCELLED)
        return False
    has_started = move(
        session,
        job_id,
        attempt,
        JobState.SUBMITTED,
        JobState.RUNNING,
        worker=worker,
        counted_attempts=JobRow.counted_attempts + 1,
        threads=sa.func.coalesce(JobRow.threads, threads),
        started_at=sa.func.coalesce(JobRow.started_at, now()),
    )
    if has_started:
        session.add(
            AttemptRow(job_id=job_id, attempt=attempt, worker=worker, outcome=JobState.RUNNING)
        )
    return has_started


def owns(session: Session, job_id: str, attempt: int, worker: str) -> bool:
    """Return whether a worker is running this attempt."""
    query = sa.select(JobRow.id).where(
        JobRow.id == job_id,
        JobRow.attempt == attempt,
        JobRow.worker == worker,
        JobRow.state == JobState.RUNNING,
    )
    return session.scalar(query) is not None


def record_heartbeat(
    session: Session,
    job_id: str,
    attempt: int,
    worker: str,
    progress: dict[str, Any] | None,
    *,
    add_progress_event: bool = True,
) -> AttemptCommand | None:
    """Record that an attempt is alive; return the command for it.

    It is None if the attempt is fenced out: the job has ended, or belongs to a later attempt.

    Parameters
    ----------
    add_progress_event
        Whether to add the progress as an event as well.
    """
    values: dict[str, Any] = {"heartbeat": JobRow.heartbeat + 1}
    if progress is not None:
        values["progress"] = progress
    statement = (
        sa.update(JobRow)
        .where(
            JobRow.id == job_id,
            JobRow.attempt == attempt,
            JobRow.worker == worker,
            JobRow.state == JobState.RUNNING,
        )
        .values(**values)
        .returning(
            JobRow.is_cancel_requested, JobRow.is_release_requested, JobRow.is_finish_requested
        )
        .execution_options(synchronize_session=False)
    )
    flags = session.execute(statement).one_or_none()
    if flags is None:  # the job may have been deleted, so that it could not have an event
        return None
    if progress is not None and add_progress_event:
        add_event(session, job_id, attempt, "progress", progress)
    commands = (AttemptCommand.CANCEL, AttemptCommand.RELEASE, AttemptCommand.FINISH)
    requested = (command for command, flag in zip(commands, flags, strict=True) if flag)
    return next(requested, AttemptCommand.CONTINUE)


def try_lock(session: Session, job_id: str) -> bool:
    """Lock a row until the session ends; return False at once if another session has locked it."""
    query = sa.select(JobRow.id).where(JobRow.id == job_id)
    return session.scalar(query.with_for_update(skip_locked=True)) is not None


def lock_attempt(session: Session, job_id: str, attempt: int) -> bool:
    """Lock the job's row until the session ends; return whether this attempt is running."""
    query = sa.select(JobRow.id).where(
        JobRow.id == job_id, JobRow.attempt == attempt, JobRow.state == JobState.RUNNING
    )
    return session.scalar(query.with_for_update()) is not None


def set_checkpoint(session: Session, job_id: str, blob_id: str | None) -> None:
    """Replace the checkpoint from which the next attempt continues; None deletes it."""
    before = session.scalar(sa.select(JobRow.checkpoint_blob_id).where(JobRow.id == job_id))
    if before == blob_id:
        return
    statement = sa.update(JobRow).where(JobRow.id == job_id)
    update_one(session, statement, checkpoint_blob_id=blob_id)
    if before is not None:
        release_blob(session, before)


def set_output(session: Session, job_id: str, blob_id: str, result: dict[str, Any]) -> None:
    """Store the result of a batch inference and the blob of its outputs."""
    statement = sa.update(JobRow).where(JobRow.id == job_id)
    update_one(session, statement, output_blob_id=blob_id, result=result)


def output_of(session: Session, job: JobRow) -> BlobRow | None:
    """Return the blob of the outputs of a batch inference; None without one."""
    return None if job.output_blob_id is None else session.get(BlobRow, job.output_blob_id)


def delete_output(session: Session, job: JobRow) -> None:
    """Delete the outputs of a batch inference; the job and its result stay."""
    blob_id = job.output_blob_id
    update_one(session, sa.update(JobRow).where(JobRow.id == job.id), output_blob_id=None)
    if blob_id is not None:
        release_blob(session, blob_id)


def request_release(session: Session, *, worker: str) -> None:
    """Ask a worker to store a checkpoint of its job, stop it, and return it to the queue."""
    session.execute(
        sa.update(JobRow)
        .where(JobRow.worker == worker, JobRow.state == JobState.RUNNING)
        .values(is_release_requested=True)
        .execution_options(synchronize_session=False)
    )


def request_finish(session: Session, job: JobRow) -> bool:
    """Ask the race of a job to end with the methods that are scored; return False if it has none.

    Only a race that runs can end: before, and in a part of a comparison, there is nothing to keep.
    """
    statement = sa.update(JobRow).where(
        JobRow.id == job.id,
        JobRow.state == JobState.RUNNING,
        JobRow.is_cancel_requested.is_(False),
    )
    if not has_race(job) or not update_one(session, statement, is_finish_requested=True):
        return False
    if not job.is_finish_requested:
        add_event(session, job.id, job.attempt, "finish", {})
    return True


def has_race(job: JobRow) -> bool:
    """Return whether a job compares methods in one fit, which can end early."""
    is_plain = job.plan is None and job.calibration is None
    return AUTOMATIC in (job.plan or {}) or (job.algorithm == RACE and is_plain)


def request_cancel(session: Session, job: JobRow) -> None:
    """Cancel a job: at once if it is queued, otherwise by a flag that its supervisor reads.

    A job that waits for its child jobs is cancelled once they have all ended.
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
        query = sa.select(JobRow).where(JobRow.parent_id == job.id, JobRow.state.notin_(FINAL))
        for child in session.scalars(query.execution_options(populate_existing=True)).all():
            request_cancel(session, child)


def mark_lost(session: Session, job: JobRow, failure: AttemptFailure) -> bool:
    """End an active attempt without a result: queue the job again, or fail it with the cause."""
    state = JobState(job.state)
    error = {"code": failure.code, "detail": failure.detail, "attempt": job.attempt}
    here = (session, job.id, job.attempt, state)
    if job.is_cancel_requested:
        return move(*here, JobState.CANCELLED)
    if state == JobState.SUBMITTED:
        return move(*here, JobState.QUEUED)
    if not failure.is_counted:
        return move(
            *here, JobState.QUEUED, outcome="released", counted_attempts=JobRow.counted_attempts - 1
        )
    enter = JobState.QUEUED if job.counted_attempts < job.max_attempts else JobState.FAILED
    return move(*here, enter, outcome="lost", error=error)


def postpone(session: Session, job: JobRow, code: str, detail: str) -> bool:
    """Queue a running job again after a while, uncounted: its worker's machine lacked a resource.

    The delay doubles with every such attempt of the job.
    """
    here = (session, job.id, job.attempt, JobState.RUNNING)
    if job.is_cancel_requested:
        return move(*here, JobState.CANCELLED)
    earlier = sa.select(sa.func.count()).where(
        AttemptRow.job_id == job.id, AttemptRow.outcome == POSTPONED
    )
    delay_s = min(_FIRST_DELAY_S * 2 ** (session.scalar(earlier) or 0), MAX_DELAY_S)
    return move(
        *here,
        JobState.QUEUED,
        outcome=POSTPONED,
        error={"code": code, "detail": detail, "attempt": job.attempt},
        counted_attempts=JobRow.counted_attempts - 1,
        retry_at=now() + timedelta(seconds=delay_s),
    )


def _end_attempt(
    session: Session, job_id: str, attempt: int, outcome: str, error: dict[str, Any] | None
) -> None:
    statement = sa.update(AttemptRow).where(
        AttemptRow.job_id == job_id, AttemptRow.attempt == attempt
    )
    update_one(session, statement, outcome=outcome, error=error, finished_at=now())
