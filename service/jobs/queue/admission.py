"""Admission: which queued jobs are submitted next, and in which order.

The slots are shared between owners: the next job belongs to the owner with the fewest active jobs;
of several such owners, to the owner served longest ago. Priorities order the jobs of one
owner. With ``priority_across_owners`` they come before everything else.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session, aliased

from service.jobs.queue import store
from service.storage.database import UtcTime, now
from service.storage.job_states import ACTIVE, JobState
from service.storage.tables import JobRow, TurnRow

#: Number of jobs of an owner that are read at a time.
PAGE_SIZE: Final = 32
#: More than any priority.
_ABOVE_ALL: Final = 2**31 - 1
_OTHER_TURN: Final = aliased(TurnRow)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of the queue."""

    id: str
    owner: str
    attempt: int
    priority: int
    #: Number of its submission; submissions of all owners are numbered.
    turn: int = 0


class _Place(NamedTuple):
    """Place of an owner in the order of admission; the smallest is next."""

    #: Priority of the next job, negative; 0 if priorities order the jobs of one owner only.
    urgency: int
    n_active: int
    #: Number of the last submission of the owner, 0 before the first one.
    turn: int
    owner: str


def admit(
    session: Session, limit: int, *, priority_across_owners: bool = False
) -> list[tuple[str, int]]:
    """Submit the next queued jobs; return the id and attempt of each.

    Parameters
    ----------
    limit
        Maximum number of jobs.
    priority_across_owners
        Whether a job with a higher priority comes before the jobs of all other owners.
    """
    jobs = next_queued(session, limit, priority_across_owners=priority_across_owners)
    submitted = set(store.submit(session, jobs))
    in_order = [job for job in jobs if (job.id, job.attempt + 1) in submitted]
    _record_turns(session, in_order)
    return [(job.id, job.attempt + 1) for job in in_order]


def next_queued(
    session: Session, limit: int, *, priority_across_owners: bool = False
) -> list[QueuedJob]:
    """Return the jobs to submit next, in order."""
    owners = session.execute(_OWNERS).all()
    queues = {row.owner: _queue_of(session, row.owner, limit) for row in owners}
    n_active = {row.owner: row.n_active for row in owners}
    turns = {row.owner: row.turn or 0 for row in owners}
    places: list[_Place] = []
    peeked: dict[str, QueuedJob] = {}

    def push(owner: str) -> None:
        urgency = 0
        if priority_across_owners:  # otherwise, the queues of other owners are not read
            job = next(queues[owner], None)
            if job is None:
                return
            peeked[owner], urgency = job, -job.priority
        place = _Place(urgency, n_active[owner], turns[owner], owner)
        heapq.heappush(places, place)

    for owner in queues:
        push(owner)
    turn = max((row.last_turn or 0 for row in owners), default=0)
    jobs: list[QueuedJob] = []
    while places and len(jobs) < limit:
        owner = heapq.heappop(places).owner
        job = peeked.pop(owner, None) or next(queues[owner], None)
        if job is None:
            continue
        turn += 1
        jobs.append(replace(job, turn=turn))
        n_active[owner] += 1
        turns[owner] = turn
        push(owner)
    return jobs


def _owners_by_index() -> sa.Select[Any]:
    """Return a query of the owners of queued jobs, with one look into the index for each.

    Each has the number of its active jobs, its last turn, and the last turn of all owners.
    """
    queued = JobRow.state == JobState.QUEUED
    owners = sa.select(sa.func.min(JobRow.owner).label("owner")).where(queued).cte(recursive=True)
    following = sa.select(sa.func.min(JobRow.owner)).where(queued, JobRow.owner > owners.c.owner)
    owners = owners.union_all(
        sa.select(following.scalar_subquery()).where(owners.c.owner.is_not(None))
    )
    n_active = sa.select(sa.func.count()).where(
        JobRow.state.in_(sorted(ACTIVE)), JobRow.owner == owners.c.owner
    )
    return (
        sa.select(
            owners.c.owner,
            n_active.correlate(owners).scalar_subquery().label("n_active"),
            TurnRow.turn,
            sa.select(sa.func.max(_OTHER_TURN.turn)).scalar_subquery().label("last_turn"),
        )
        .outerjoin(TurnRow, TurnRow.owner == owners.c.owner)
        .where(owners.c.owner.is_not(None))
    )


def _page() -> sa.Select[str, int, str, int]:
    """Return a query of the next jobs of an owner, all of the highest priority below a limit.

    The index has jobs of one priority in order, so that the query reads only what it returns.
    """
    queued = (
        JobRow.state == JobState.QUEUED,
        JobRow.owner == sa.bindparam("owner"),
        sa.or_(
            JobRow.retry_at.is_(None),
            JobRow.retry_at <= sa.bindparam("now", type_=UtcTime),
            # later than any delay: the clock has been set back since
            JobRow.retry_at > sa.bindparam("latest", type_=UtcTime),
        ),
    )
    highest = sa.select(sa.func.max(JobRow.priority)).where(
        *queued, JobRow.priority < sa.bindparam("below")
    )
    after = sa.tuple_(sa.bindparam("root_id", type_=sa.String), sa.bindparam("id", type_=sa.String))
    return (
        sa.select(JobRow.id, JobRow.attempt, JobRow.root_id, JobRow.priority)
        .where(*queued, JobRow.priority == highest.scalar_subquery())
        .where(sa.tuple_(JobRow.root_id, JobRow.id) > after)
        .order_by(JobRow.root_id, JobRow.id)
        .limit(sa.bindparam("size"))
        # a job that another session is changing must not delay the others
        .with_for_update(skip_locked=True, of=JobRow)
    )


# built once: admission runs several times a second, and building takes longer than running
_OWNERS: Final = _owners_by_index()
_PAGE: Final = _page()


def _queue_of(session: Session, owner: str, limit: int) -> Iterator[QueuedJob]:
    """Yield the queued jobs of an owner, by priority, then age."""
    size = min(limit, PAGE_SIZE)
    time = now()
    latest = time + timedelta(seconds=store.MAX_DELAY_S)
    owned = {"owner": owner, "size": size, "now": time, "latest": latest}
    below, last = _ABOVE_ALL, None  # the last job read of the present priority
    while True:
        after = ("", "") if last is None else (last.root_id, last.id)
        place = {"below": below, "root_id": after[0], "id": after[1]}
        rows = session.execute(_PAGE, owned | place).all()
        for row in rows:
            yield QueuedJob(row.id, owner, row.attempt, row.priority)
        if rows:
            last = rows[-1]
        elif last is None:
            return
        if len(rows) < size:
            below, last = last.priority, None


def _record_turns(session: Session, jobs: Sequence[QueuedJob]) -> None:
    """Record the order in which owners were served."""
    if not jobs:
        return
    turns = {job.owner: job.turn for job in jobs}
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    insert = (sqlite if is_sqlite else postgresql).insert(TurnRow)
    values = [{"owner": owner, "turn": turn} for owner, turn in turns.items()]
    upsert = insert.values(values).on_conflict_do_update(
        index_elements=[TurnRow.owner], set_={"turn": insert.excluded.turn}
    )
    session.execute(upsert)
