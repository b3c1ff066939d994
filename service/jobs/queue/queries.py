"""SQL queries over jobs: pages, events, attempts and counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.jobs.queue.lease import LEASE_NAME
from service.observability.metrics import RECENT_S, QueueState
from service.storage.database import Database, contains, now
from service.storage.job_states import ACTIVE, FINAL, UNFINISHED, JobState, ShownJobState
from service.storage.ordered_pages import PageRequest, RowPage, created_between, fetch_page
from service.storage.tables import AttemptRow, EventRow, JobRow, LeaseRow

#: A statement of SQLite has at most 32,766 parameters.
_MAX_IDS_PER_QUERY: Final = 10_000
#: Conditions of jobs that wait since a machine lacked a resource.
_POSTPONED: Final = (JobRow.state == JobState.QUEUED, JobRow.retry_at.is_not(None))
# queries that an idle service repeats are built once: building them takes longer than running them
_ANY_UNFINISHED: Final = sa.select(JobRow.id).where(JobRow.state.in_(UNFINISHED)).limit(1)
_ERROR_OF_A_POSTPONED: Final = sa.select(JobRow.error).where(*_POSTPONED).limit(1)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Conditions that all returned jobs meet; None accepts any value.

    Parameters
    ----------
    parent_id
        The child jobs of this job; without it, jobs that are not child jobs.
    text
        Part of the id or of the model name.
    """

    state: ShownJobState | None = None
    parent_id: str | None = None
    algorithm: str | None = None
    dataset_id: str | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None


#: Columns by which jobs can be sorted; ids sort by time of creation.
ORDERS: Final = {
    "created_at": JobRow.id,
    "model": JobRow.model_name,
    "state": JobRow.state,
    "algorithm": JobRow.algorithm,
}


def list_page(
    session: Session, owner: str | None, where: JobFilter, wanted: PageRequest
) -> RowPage:
    """Return a page of jobs, of all owners if none is given."""
    query = sa.select(JobRow).where(JobRow.parent_id == where.parent_id)
    if owner is not None:
        query = query.where(JobRow.owner == owner)
    if where.state is not None:
        query = query.where(_is_shown_as(where.state))
    for name in ("algorithm", "dataset_id"):
        value = getattr(where, name)
        if value is not None:
            query = query.where(getattr(JobRow, name) == value)
    if where.text is not None:
        query = query.where(contains(where.text, JobRow.id, JobRow.model_name))
    query = created_between(query, JobRow.created_at, where.since, where.until)
    return fetch_page(session, query, ORDERS, JobRow.id, wanted)


def shown_state() -> sa.ColumnElement[str]:
    """Return the state in which the API shows a job."""
    is_cancelling = sa.and_(JobRow.state.in_(UNFINISHED), JobRow.is_cancel_requested)
    return sa.case((is_cancelling, ShownJobState.CANCELLING), else_=JobRow.state)


def _is_shown_as(state: ShownJobState) -> sa.ColumnElement[bool]:
    """Return the condition that the API shows a job in this state, which indexes support."""
    if state == ShownJobState.CANCELLING:
        return sa.and_(JobRow.state.in_(UNFINISHED), JobRow.is_cancel_requested)
    if JobState(state) in FINAL:
        return JobRow.state == state
    return sa.and_(JobRow.state == state, JobRow.is_cancel_requested.is_(False))


def events_after(session: Session, job_id: str, event_id: int, limit: int) -> Sequence[EventRow]:
    """Return the events of a job after the event ``event_id``, in order."""
    query = sa.select(EventRow).where(EventRow.job_id == job_id, EventRow.id > event_id)
    return session.scalars(query.order_by(EventRow.id).limit(limit)).all()


def events_of_owner(session: Session, owner: str, floor: int | None) -> tuple[int, int]:
    """Return the id of the last event, and the number of the owner's events above ``floor``."""
    last = session.scalar(sa.select(sa.func.max(EventRow.id))) or 0
    if floor is None or last == floor:
        return last, 0
    query = sa.select(sa.func.count()).select_from(EventRow)
    query = query.join(JobRow, JobRow.id == EventRow.job_id)
    return last, session.scalar(query.where(EventRow.id > floor, JobRow.owner == owner)) or 0


def states_and_last_events(session: Session, job_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the state of each job that exists, and the id of its last event."""
    last = sa.select(sa.func.max(EventRow.id)).where(EventRow.job_id == JobRow.id)
    states: dict[str, tuple[str, int]] = {}
    for start in range(0, len(job_ids), _MAX_IDS_PER_QUERY):
        ids = job_ids[start : start + _MAX_IDS_PER_QUERY]
        query = sa.select(JobRow.id, JobRow.state, last.scalar_subquery()).where(JobRow.id.in_(ids))
        states |= {job_id: (state, event or 0) for job_id, state, event in session.execute(query)}
    return states


def attempts_of(session: Session, job_ids: Sequence[str]) -> dict[str, list[AttemptRow]]:
    """Return the attempts of each job, in order."""
    attempts: dict[str, list[AttemptRow]] = {job_id: [] for job_id in job_ids}
    query = sa.select(AttemptRow).where(AttemptRow.job_id.in_(job_ids))
    for row in session.scalars(query.order_by(AttemptRow.attempt)):
        attempts[row.job_id].append(row)
    return attempts


def active(session: Session) -> Sequence[JobRow]:
    """Return the jobs that are submitted or running."""
    query = sa.select(JobRow).where(JobRow.state.in_(ACTIVE))
    return session.scalars(query.execution_options(populate_existing=True)).all()


def count_running(session: Session) -> int:
    """Return the number of running attempts."""
    query = sa.select(sa.func.count()).where(JobRow.state == JobState.RUNNING)
    return session.scalar(query) or 0


def has_unfinished(session: Session) -> bool:
    """Return whether any job has not ended."""
    return session.scalar(_ANY_UNFINISHED) is not None


def has_queued(session: Session) -> bool:
    """Return whether any job is queued."""
    query = sa.select(JobRow.id).where(JobRow.state == JobState.QUEUED)
    return session.scalar(query.limit(1)) is not None


def count_waiting(session: Session, owner: str) -> int:
    """Return the number of queued and waiting jobs of an owner, without child jobs."""
    query = sa.select(sa.func.count()).where(
        JobRow.owner == owner,
        JobRow.parent_id.is_(None),
        JobRow.state.in_((JobState.QUEUED, JobState.WAITING)),
    )
    return session.scalar(query) or 0


def count_by_state(session: Session) -> dict[str, int]:
    """Return the number of jobs in each state that is not final."""
    query = (
        sa.select(JobRow.state, sa.func.count())
        .where(JobRow.state.in_(UNFINISHED))
        .group_by(JobRow.state)
    )
    return dict.fromkeys(map(str, UNFINISHED), 0) | dict(session.execute(query).all())


def queued_at(session: Session, job_id: str) -> datetime | None:
    """Return when a job was queued the last time."""
    query = sa.select(EventRow.created_at).where(
        EventRow.job_id == job_id,
        EventRow.kind == "state",
        EventRow.data["state"].as_string() == JobState.QUEUED,
    )
    return session.scalar(query.order_by(EventRow.id.desc()).limit(1))


def oldest_queued(session: Session) -> datetime | None:
    """Return the creation time of the oldest queued job."""
    query = sa.select(JobRow.created_at).where(JobRow.state == JobState.QUEUED)
    return session.scalar(query.order_by(JobRow.id).limit(1))  # ids sort by time of creation


def count_recently_ended(session: Session) -> dict[str, int]:
    """Return the number of jobs by final state that ended recently, without child jobs."""
    query = (
        sa.select(JobRow.state, sa.func.count())
        .where(JobRow.finished_at > now() - timedelta(seconds=RECENT_S))
        .where(JobRow.parent_id.is_(None))
        .group_by(JobRow.state)
    )
    return dict.fromkeys(sorted(FINAL), 0) | dict(session.execute(query).all())


def count_postponed(session: Session) -> int:
    """Return the number of queued jobs that wait since a machine lacked a resource."""
    return session.scalar(sa.select(sa.func.count()).where(*_POSTPONED)) or 0


def lease_renewals(session: Session) -> int:
    """Return the number of renewals of the dispatcher's lease; 0 if nobody holds it."""
    query = sa.select(LeaseRow.renewals).where(LeaseRow.name == LEASE_NAME)
    return session.scalar(query) or 0


def shortage(database: Database) -> str | None:
    """Return a warning if jobs wait because machines lacked space, memory or file handles."""
    try:
        with database.read() as session:
            error = session.scalar(_ERROR_OF_A_POSTPONED)
            if error is None:
                return None
            n_jobs = count_postponed(session)
    except SQLAlchemyError:  # reported as an error
        return None
    return f"{n_jobs} jobs will be tried again: {error['detail']}"


def queue_state(database: Database) -> QueueState | None:
    """Return the state of the job queue, or None while the database does not respond."""
    try:
        with database.read() as session:
            n_jobs, oldest = count_by_state(session), oldest_queued(session)
            n_ended, n_postponed = count_recently_ended(session), count_postponed(session)
            n_renewals = lease_renewals(session)
    except SQLAlchemyError:
        return None
    age_s = 0.0 if oldest is None else max(0.0, (now() - oldest).total_seconds())
    return QueueState(n_jobs, age_s, n_ended, n_postponed, n_renewals)
