"""Changes of an owner's jobs and datasets that pages wait for."""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fastapi.concurrency import run_in_threadpool

from service.datasets import store as datasets
from service.http.waiting import WaitingRequests
from service.jobs.queue import queries
from service.jobs.watching import Watcher
from service.storage.database import Database

#: Time between two queries.
POLL_S: Final = 0.5
#: How long events are counted, since one can become visible after one with a larger id.
_WINDOW_S: Final = 5.0


class Position(NamedTuple):
    """State of an owner's jobs and datasets; each member differs once something changed."""

    jobs: Any
    datasets: Any


@dataclass(slots=True)
class _Window:
    """Time in which the events of an owner are counted."""

    #: Events up to this id are not counted; None until the first query.
    floor: int | None = None
    start_s: float = field(default_factory=time.monotonic)
    #: Number of earlier windows in which something changed.
    n_changed: int = 0

    def count(self, last: int, n_events: int) -> tuple[int, int]:
        """Return a value that differs once there is another event; begin the next window in time.

        Parameters
        ----------
        n_events
            Number of the owner's events above the floor.
        """
        if self.floor is None:
            self.floor = last
            n_events = 0
        elif time.monotonic() - self.start_s > _WINDOW_S:
            # the old window counts as one more change, in case of a late event
            self.floor, self.start_s = last, time.monotonic()
            self.n_changed += n_events > 0
            n_events = 0
        return self.n_changed, n_events


class ChangeWatcher(Watcher[Position]):
    """Watches owners, by name. Each one is a query."""

    def __init__(self, database: Database, waiting: WaitingRequests) -> None:
        super().__init__(waiting, poll_s=POLL_S, first_poll_s=POLL_S)
        self._database = database
        self._windows: dict[str, _Window] = {}

    async def _query(
        self, latest: Mapping[str, Position | None]
    ) -> AsyncIterator[tuple[str, Position]]:
        self._windows = {
            owner: _Window() if seen is None else self._windows[owner]
            for owner, seen in latest.items()
        }
        for owner, window in self._windows.items():
            (last, n_events), marker = await run_in_threadpool(self._read, owner, window.floor)
            yield owner, Position(window.count(last, n_events), marker)

    def _read(self, owner: str, floor: int | None) -> tuple[tuple[int, int], Any]:
        with self._database.read() as session:
            events = queries.events_of_owner(session, owner, floor)
            return events, datasets.unfinished_marker(session, owner)
