"""Changes of jobs that requests wait for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from fastapi.concurrency import run_in_threadpool

from service.http.waiting import WaitingRequests
from service.jobs.queue import queries
from service.jobs.watching import Watcher
from service.storage.database import Database
from service.storage.job_states import FINAL, JobState

#: Time between two queries; shorter after a request begins to wait, as many jobs are short.
POLL_S: Final = 0.2
FIRST_POLL_S: Final = 0.02
Result = TypeVar("Result")


class Snapshot(NamedTuple):
    """State of a job, None if it was deleted, and the id of its last event."""

    state: str | None
    last_event: int

    def is_final(self) -> bool:
        """Return whether the job has ended or was deleted."""
        return self.state is None or JobState(self.state) in FINAL


class JobWatcher(Watcher[Snapshot]):
    """Watches jobs, by id. One query reads all of them."""

    def __init__(self, database: Database, waiting: WaitingRequests) -> None:
        super().__init__(waiting, poll_s=POLL_S, first_poll_s=FIRST_POLL_S)
        self._database = database
        self._reads: dict[tuple[Any, ...], asyncio.Task[Any]] = {}

    async def share(self, key: tuple[Any, ...], read: Callable[[], Result]) -> Result:
        """Return the result of a query in a thread; concurrent calls with the same key share it."""
        task = self._reads.get(key)
        if task is None:
            task = self._reads[key] = asyncio.create_task(run_in_threadpool(read))
            task.add_done_callback(lambda _: self._reads.pop(key, None))
        result: Result = await asyncio.shield(task)
        return result

    async def _query(
        self, latest: Mapping[str, Snapshot | None]
    ) -> AsyncIterator[tuple[str, Snapshot]]:
        states = await run_in_threadpool(self._read, list(latest))
        for job_id in latest:
            yield job_id, Snapshot(*states.get(job_id, (None, 0)))

    def _read(self, job_ids: Sequence[str]) -> dict[str, tuple[str, int]]:
        with self._database.read() as session:
            return queries.states_and_last_events(session, job_ids)
