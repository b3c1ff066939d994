"""How long others have been silent, counted only while somebody listened."""

import time
from collections.abc import Iterable
from typing import Final, Generic, TypeVar

#: A longer time between two looks is a gap: who looks was frozen, or could not read the database,
#: and so could not see the signs of life that there were, nor could they be given.
_LONGEST_LOOK_S: Final = 1.0

Key = TypeVar("Key")


class Silence(Generic[Key]):
    """Watches counters that others raise as a sign of life.

    By the monotonic clock of this process alone: nobody compares clocks.
    """

    def __init__(self) -> None:
        self._looked_at = time.monotonic()
        self._listened_s = 0.0
        self._signs: dict[Key, tuple[int, float]] = {}

    def look(self) -> None:
        """Say that the counters were read just now."""
        now = time.monotonic()
        self._listened_s += min(now - self._looked_at, _LONGEST_LOOK_S)
        self._looked_at = now

    def of(self, key: Key, sign: int) -> float:
        """Return the seconds of listening in which a counter has stood as it stands."""
        before, since = self._signs.get(key, (None, 0.0))
        if before != sign:
            self._signs[key] = (sign, self._listened_s)
            return 0.0
        return self._listened_s - since

    def forget_all_but(self, keys: Iterable[Key]) -> None:
        """Drop what is watched no more."""
        self._signs = {key: self._signs[key] for key in keys if key in self._signs}
