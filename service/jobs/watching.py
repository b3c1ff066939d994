"""Watchers: one loop per process queries the values that requests wait for."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from service.http.waiting import WaitingRequests
from service.observability.logs import log

Value = TypeVar("Value")


class _Watched(Generic[Value]):
    """A key that requests wait for, and its value; None before the first query."""

    def __init__(self) -> None:
        self.n_waiting = 0
        self.latest: Value | None = None
        self.changed = asyncio.Event()

    def update(self, value: Value) -> None:
        if value != self.latest:
            self.latest = value
            self.changed.set()
            self.changed = asyncio.Event()


class Watcher(ABC, Generic[Value]):
    """A loop that queries the values of keys, such as ids of jobs, while requests wait for them.

    All methods run on the event loop.

    Parameters
    ----------
    waiting
        Counts the requests that wait.
    poll_s
        Time between two queries.
    first_poll_s
        Time between the first two queries after a request begins to wait.
    """

    def __init__(self, waiting: WaitingRequests, *, poll_s: float, first_poll_s: float) -> None:
        self.waiting = waiting
        self._poll_s = poll_s
        self._first_poll_s = first_poll_s
        self._interval_s = first_poll_s
        self._watched: dict[str, _Watched[Value]] = {}
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, key: str, owner: str) -> Iterator[None]:
        """Query a key, for a request of an owner, until the end of the block."""
        watched = self._watched.setdefault(key, _Watched())
        watched.n_waiting += 1
        self._interval_s = self._first_poll_s
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            with self.waiting.place(owner):
                yield
        finally:
            watched.n_waiting -= 1
            if not watched.n_waiting:
                del self._watched[key]

    async def next_change(self, key: str, seen: Value | None, timeout_s: float) -> Value | None:
        """Return a value of a watched key that is not ``seen``; ``seen`` after the timeout."""
        watched = self._watched[key]
        if watched.latest is None or watched.latest == seen:
            try:
                await asyncio.wait_for(watched.changed.wait(), timeout_s)
            except TimeoutError:
                return seen
        return watched.latest

    async def _run(self) -> None:
        while self._watched:
            latest = {key: watched.latest for key, watched in self._watched.items()}
            try:
                async for key, value in self._query(latest):
                    if key in self._watched:
                        self._watched[key].update(value)
            except SQLAlchemyError as error:  # the requests wait on; they have a time limit
                log.warning("watcher.query_failed", exc_info=error)
            await asyncio.sleep(self._interval_s)
            self._interval_s = min(self._poll_s, 1.5 * self._interval_s)

    @abstractmethod
    def _query(self, latest: Mapping[str, Value | None]) -> AsyncIterator[tuple[str, Value]]:
        """Yield the keys with their values.

        Parameters
        ----------
        latest
            The value of each watched key in the last query; None before the first one.
        """
