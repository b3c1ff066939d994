"""Requests that wait for a change, and event streams: how long, and how many of each owner."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: Time after which a request that found no room to wait should come again.
RETRY_AFTER_S: Final = 1


class WaitingRequests:
    """The waiting requests and event streams of each owner, in this process.

    All methods run on the event loop.

    Parameters
    ----------
    max_per_owner
        Maximum number of requests of one owner that wait at the same time.
    """

    def __init__(self, *, max_per_owner: int) -> None:
        self.max_per_owner = max_per_owner
        self._n_of_owner: Counter[str] = Counter()

    def has_room(self, owner: str) -> bool:
        """Return whether one more request of the owner may wait."""
        return self._n_of_owner[owner] < self.max_per_owner

    @contextmanager
    def place(self, owner: str) -> Iterator[None]:
        """Count one more request of an owner that waits, until the end of the block."""
        self._n_of_owner[owner] += 1
        try:
            yield
        finally:
            self._n_of_owner[owner] -= 1
            if not self._n_of_owner[owner]:
                del self._n_of_owner[owner]
