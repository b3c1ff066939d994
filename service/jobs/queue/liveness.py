"""Detection of processes whose heartbeats have stopped."""

import time
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

#: A longer time between two ticks counts only this much: the watching process was frozen or could
#: not read the database, and the others could not write to it either.
_MAX_TICK_S: Final = 1.0

Key = TypeVar("Key")


class LivenessTracker(Generic[Key]):
    """Times since heartbeat counters last changed.

    Only the monotonic clock of this process is used: clocks of different machines are never
    compared.
    """

    def __init__(self) -> None:
        self._ticked_at = time.monotonic()
        self._watched_s = 0.0
        self._seen: dict[Key, tuple[int, float]] = {}

    def tick(self) -> None:
        """Record that the counters were read just now."""
        now = time.monotonic()
        self._watched_s += min(now - self._ticked_at, _MAX_TICK_S)
        self._ticked_at = now

    def silent_for(self, key: Key, counter: int) -> float:
        """Return for how many watched seconds a counter has not changed."""
        before, since = self._seen.get(key, (None, 0.0))
        if before != counter:
            self._seen[key] = (counter, self._watched_s)
            return 0.0
        return self._watched_s - since

    def retain(self, keys: Iterable[Key]) -> None:
        """Forget every key but these."""
        self._seen = {key: self._seen[key] for key in keys if key in self._seen}
