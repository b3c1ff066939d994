"""Changes of jobs that requests wait for: one query per process serves them all."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import SQLAlchemyError

from service.database import Database
from service.http.waiting import WaitingRequests
from service.job_states import FINAL, JobState
from service.jobs.queue import queries
from service.observability.logs import log

#: Time between two queries; shorter after a request begins to wait, as many jobs are short.
POLL_S: Final = 0.2
FIRST_POLL_S: Final = 0.02
Result = TypeVar("Result")


class Snapshot(NamedTuple):
    """State of a job, None if it was deleted, and the id of its last event."""

    state: str | None
    last_event: int

    def is_final(self) -> bool:
        """Return whether nothing will change any more."""
        return self.state is None or JobState(self.state) in FINAL


class _Watched:
    """A job that requests wait for."""

    def __init__(self) -> None:
        self.n_waiting = 0
        self.latest: Snapshot | None = None
        self.changed = asyncio.Event()

    def update(self, snapshot: Snapshot) -> None:
        if snapshot != self.latest:
            self.latest = snapshot
            self.changed.set()
            self.changed = asyncio.Event()


class JobWatcher:
    """One loop per process that queries the jobs that requests wait for.

    All methods run on the event loop.

    Parameters
    ----------
    waiting
        Counts the requests that wait.
    """

    def __init__(self, database: Database, waiting: WaitingRequests) -> None:
        self._database = database
        self.waiting = waiting
        self._watched: dict[str, _Watched] = {}
        self._interval_s = FIRST_POLL_S
        self._task: asyncio.Task[None] | None = None
        self._reads: dict[tuple[Any, ...], asyncio.Task[Any]] = {}

    @contextmanager
    def watch(self, job_id: str, owner: str) -> Iterator[None]:
        """Query a job until the end of the block."""
        watched = self._watched.setdefault(job_id, _Watched())
        watched.n_waiting += 1
        self._interval_s = FIRST_POLL_S
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            with self.waiting.place(owner):
                yield
        finally:
            watched.n_waiting -= 1
            if not watched.n_waiting:
                del self._watched[job_id]

    async def next_change(
        self, job_id: str, seen: Snapshot | None, timeout_s: float
    ) -> Snapshot | None:
        """Return a snapshot of a watched job that is not ``seen``; ``seen`` after the timeout."""
        watched = self._watched[job_id]
        if watched.latest is None or watched.latest == seen:
            try:
                await asyncio.wait_for(watched.changed.wait(), timeout_s)
            except TimeoutError:
                return seen
        return watched.latest

    async def share(self, key: tuple[Any, ...], read: Callable[[], Result]) -> Result:
        """Return the result of a query in a thread; concurrent calls with the same key share it."""
        task = self._reads.get(key)
        if task is None:
            task = self._reads[key] = asyncio.create_task(run_in_threadpool(read))
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        result: Result = await asyncio.shield(task)
        return result

    async def _run(self) -> None:
        while self._watched:
            try:
                await self._query()
            except SQLAlchemyError as error:  # the requests wait on; they have a time limit
                log.warning("watcher.query_failed", exc_info=error)
            await asyncio.sleep(self._interval_s)
            self._interval_s = min(POLL_S, 1.5 * self._interval_s)

    async def _query(self) -> None:
        job_ids = list(self._watched)
        found = await run_in_threadpool(self._read, job_ids)
        for job_id in job_ids:
            watched = self._watched.get(job_id)
            if watched is not None:
                watched.update(Snapshot(*found.get(job_id, (None, 0))))

    def _read(self, job_ids: list[str]) -> dict[str, tuple[str, int]]:
        with self._database.read() as session:
            return queries.states_and_last_events(session, job_ids)
