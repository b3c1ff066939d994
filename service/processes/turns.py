"""Turns of threads at a resource that one thread at a time can have, fair between owners."""

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager


class NoTurn(Exception):
    """Too many threads wait, or an owner with fewer waiting threads has taken the place."""


class Turns:
    """Turns at a resource that one thread at a time can have. Owners take turns.

    Parameters
    ----------
    max_threads
        Maximum number of threads that have or wait for a turn. One more takes the place of the last
        thread of the owner with the most, unless its own owner would then have as many.
    """

    def __init__(self, max_threads: int) -> None:
        self._max_waiting = max_threads - 1
        self._lock = threading.Lock()
        self._is_taken = False
        #: Waiting turns by owner, in the order of the owners; without owners that have none.
        self._waiting: dict[str, deque[Future[None]]] = {}

    @contextmanager
    def turn(self, owner: str) -> Iterator[None]:
        """Wait for a turn, which lasts until the end of the block.

        Raises
        ------
        NoTurn
            There is no place to wait, or an owner with fewer turns to wait for has taken it.
        """
        self._join(owner).result()
        try:
            yield
        finally:
            self._pass_on()

    def _join(self, owner: str) -> "Future[None]":
        """Return a future that resolves with the turn."""
        turn: Future[None] = Future()
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                turn.set_result(None)
                return turn
            if sum(map(len, self._waiting.values())) >= self._max_waiting:
                self._make_place(owner)
            self._waiting.setdefault(owner, deque()).append(turn)
        return turn

    def _make_place(self, owner: str) -> None:
        most = max(self._waiting, key=lambda other: len(self._waiting[other]), default=owner)
        if len(self._waiting.get(most, ())) <= len(self._waiting.get(owner, ())) + 1:
            raise NoTurn
        self._waiting[most].pop().set_exception(NoTurn())

    def _pass_on(self) -> None:
        with self._lock:
            self._is_taken = bool(self._waiting)
            if self._waiting:
                owner = next(iter(self._waiting))
                turns = self._waiting.pop(owner)
                turns.popleft().set_result(None)
                if turns:
                    self._waiting[owner] = turns  # behind the others
