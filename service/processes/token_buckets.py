"""Token buckets: limits of rates that allow bursts."""

import time
from collections.abc import Callable, Hashable
from typing import Final

#: Number of buckets that are remembered.
_MAX_BUCKETS: Final = 10_000
#: Rounding error of times of the clock.
_ROUNDING_S: Final = 1e-6


class TokenBuckets:
    """A token bucket per owner, in this process. All methods run on the event loop.

    A bucket is one number: the time at which it will be full again. It is forgotten once it is
    full, or when there are too many; the owner then starts with a full one.

    Parameters
    ----------
    per_s
        Tokens that a bucket gets per second.
    size
        Tokens of a full bucket.
    clock
        Monotonic clock in seconds.
    """

    def __init__(
        self, per_s: float, *, size: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval_s = 1 / per_s
        self._window_s = size * self._interval_s
        self._clock = clock
        self._full_at: dict[Hashable, float] = {}

    def take(self, owner: Hashable) -> float:
        """Take a token of an owner; return 0, or the seconds until there is one to take."""
        now_s = self._clock()
        full_at = self._full_at.get(owner)
        if full_at is None:
            full_at = self._new_bucket(now_s)
        full_at = max(full_at, now_s) + self._interval_s
        wait_s = full_at - now_s - self._window_s
        if wait_s > _ROUNDING_S:
            return wait_s
        self._full_at[owner] = full_at
        return 0.0

    def _new_bucket(self, now_s: float) -> float:
        """Return the time at which a new bucket is full, which is now; make room for it."""
        if len(self._full_at) >= _MAX_BUCKETS:
            self._full_at = {o: at for o, at in self._full_at.items() if at > now_s}
        if len(self._full_at) >= _MAX_BUCKETS:
            del self._full_at[next(iter(self._full_at))]
        return now_s
