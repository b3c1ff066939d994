"""Admission: which queued jobs are submitted next, and in which order.

The slots are shared between owners: the next job is one of the owner with the fewest active jobs,
and of several such owners, the one that was served longest ago. Priorities order the jobs of one
owner. With ``priority_across_owners`` they come before everything else.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.database import UtcTime, now
from service.job_states import ACTIVE, JobState
from service.jobs.queue import store
from service.rows import JobRow, TurnRow

#: Number of jobs of an owner that are read at a time.
PAGE_SIZE: Final = 32
#: More than any priority.
_ABOVE_ALL: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of the queue."""

    id: str
    owner: str
    attempt: int
    priority: int


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
    _record_turns(session, [job.owner for job in in_order])
    return [(job.id, job.attempt + 1) for job in in_order]


def next_queued(
    session: Session, limit: int, *, priority_across_owners: bool = False
) -> list[QueuedJob]:
    """Return the jobs to submit next, in order."""
    owners = [owner for (owner,) in session.execute(_OWNERS) if owner is not None]
    queues = {owner: _queue_of(session, owner, limit) for owner in owners}
    n_active = dict(session.execute(_ACTIVE).all())
    turns = dict(session.execute(_TURNS).all())
    places: list[_Place] = []
    peeked: dict[str, QueuedJob] = {}

    def push(owner: str) -> None:
        urgency = 0
        if priority_across_owners:  # otherwise, the queues of other owners are not read
            job = next(queues[owner], None)
            if job is None:
                return
            peeked[owner], urgency = job, -job.priority
        place = _Place(urgency, n_active.get(owner, 0), turns.get(owner, 0), owner)
        heapq.heappush(places, place)

    for owner in queues:
        push(owner)
    turn = max(turns.values(), default=0)
    found: list[QueuedJob] = []
    while places and len(found) < limit:
        owner = heapq.heappop(places).owner
        job = peeked.pop(owner, None) or next(queues[owner], None)
        if job is None:
            continue
        found.append(job)
        turn += 1
        n_active[owner] = n_active.get(owner, 0) + 1
        turns[owner] = turn
        push(owner)
    return found


def _owners_by_index() -> sa.Select[str | None]:
    """Return a query of the owners of queued jobs, with one look into the index for each."""
    queued = JobRow.state == JobState.QUEUED
    owners = sa.select(sa.func.min(JobRow.owner).label("owner")).where(queued).cte(recursive=True)
    following = sa.select(sa.func.min(JobRow.owner)).where(queued, JobRow.owner > owners.c.owner)
    owners = owners.union_all(
        sa.select(following.scalar_subquery()).where(owners.c.owner.is_not(None))
    )
    return sa.select(owners.c.owner).where(owners.c.owner.is_not(None))


def _page() -> sa.Select[str, int, str, int]:
    """Return a query of the next jobs of an owner, all of the highest priority below a limit.

    The index has jobs of one priority in order, so that the query reads only what it returns.
    """
    queued = (
        JobRow.state == JobState.QUEUED,
        JobRow.owner == sa.bindparam("owner"),
        sa.or_(JobRow.retry_at.is_(None), JobRow.retry_at <= sa.bindparam("now", type_=UtcTime)),
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
_ACTIVE: Final = (
    sa.select(JobRow.owner, sa.func.count())
    .where(JobRow.state.in_(sorted(ACTIVE)))
    .group_by(JobRow.owner)
)
_TURNS: Final = sa.select(TurnRow.owner, TurnRow.turn)


def _queue_of(session: Session, owner: str, limit: int) -> Iterator[QueuedJob]:
    """Yield the queued jobs of an owner, by priority, then age."""
    size = min(limit, PAGE_SIZE)
    owned = {"owner": owner, "size": size, "now": now()}
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


def _record_turns(session: Session, owners: list[str]) -> None:
    """Record the order in which owners were served."""
    if not owners:
        return
    first = (session.scalar(sa.select(sa.func.max(TurnRow.turn))) or 0) + 1
    turns = {owner: turn for turn, owner in enumerate(owners, first)}
    session.execute(sa.delete(TurnRow).where(TurnRow.owner.in_(turns)))
    session.execute(
        sa.insert(TurnRow), [{"owner": owner, "turn": turn} for owner, turn in turns.items()]
    )
