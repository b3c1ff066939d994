"""Changes of an owner's jobs and datasets that pages wait for: one loop per process finds them."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from fastapi.concurrency import run_in_threadpool
from sqlalchemy.exc import SQLAlchemyError

from service.database import Database
from service.datasets import store as datasets
from service.jobs.queue import queries
from service.observability.logs import log

#: Time between two queries.
POLL_S: Final = 0.5
#: Events are counted for so long, since one can become visible after one with a larger id.
_WINDOW_S: Final = 5.0


class Position(NamedTuple):
    """What an owner's jobs and datasets look like; each member differs once something changed."""

    jobs: Any
    datasets: Any


class _Feed:
    """An owner whose changes streams wait for."""

    def __init__(self) -> None:
        self.n_streams = 0
        self.latest: Position | None = None
        self.changed = asyncio.Event()
        #: Events up to this id are not counted; None until the first query.
        self.floor: int | None = None
        self.window_start_s = time.monotonic()
        self.n_windows = 0


class ChangeWatcher:
    """One loop per process that looks for changes of the owners that streams wait for.

    All methods run on the event loop.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._feeds: dict[str, _Feed] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, owner: str) -> Iterator[None]:
        """Look for changes of an owner until the end of the block."""
        feed = self._feeds.setdefault(owner, _Feed())
        feed.n_streams += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            feed.n_streams -= 1
            if not feed.n_streams:
                del self._feeds[owner]

    async def next_change(
        self, owner: str, seen: Position | None, timeout_s: float
    ) -> Position | None:
        """Return a position of a watched owner that is not ``seen``; ``seen`` after the timeout."""
        feed = self._feeds[owner]
        if feed.latest is None or feed.latest == seen:
            try:
                await asyncio.wait_for(feed.changed.wait(), timeout_s)
            except TimeoutError:
                return seen
        return feed.latest

    async def _run(self) -> None:
        while self._feeds:
            for owner in list(self._feeds):
                try:
                    await self._query(owner)
                except SQLAlchemyError as error:  # the streams wait on
                    log.warning("changes.query_failed", exc_info=error)
            await asyncio.sleep(POLL_S)

    async def _query(self, owner: str) -> None:
        feed = self._feeds.get(owner)
        if feed is None:
            return
        (last, n_events), marker = await run_in_threadpool(self._read, owner, feed.floor)
        if feed.floor is None:
            feed.floor = last
            n_events = 0
        elif time.monotonic() - feed.window_start_s > _WINDOW_S:
            # what was in the old window is counted as one more change, in case of a late event
            feed.floor, feed.window_start_s = last, time.monotonic()
            feed.n_windows += n_events > 0
            n_events = 0
        position = Position((feed.n_windows, n_events), marker)
        if position != feed.latest:
            feed.latest = position
            feed.changed.set()
            feed.changed = asyncio.Event()

    def _read(self, owner: str, floor: int | None) -> tuple[tuple[int, int], Any]:
        with self._database.read() as session:
            events = queries.events_of_owner(session, owner, floor)
            return events, datasets.unfinished_marker(session, owner)
