"""Limit on the requests per second of an owner, checked before the body is read."""

import math
import time
from collections.abc import Callable
from typing import Final

from service.errors import Problem

#: A bucket holds the requests of so many seconds, but at least some.
_BURST_S: Final = 2.0
_MIN_BURST: Final = 10
_MAX_OWNERS: Final = 10_000
#: Rounding error of times of the clock.
_ROUNDING_S: Final = 1e-6


class RateLimiter:
    """A token bucket per owner, in this process. All methods run on the event loop.

    A bucket is one number: the time at which it will be full again. It is forgotten once it is
    full, or when there are too many; the owner then starts with a full one.

    Parameters
    ----------
    per_s
        Requests per second that an owner can sustain.
    clock
        Monotonic clock in seconds.
    """

    def __init__(self, per_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval_s = 1 / per_s
        self._burst = max(_MIN_BURST, math.ceil(per_s * _BURST_S))
        self._window_s = self._burst * self._interval_s
        self._per_s = per_s
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def check(self, owner: str) -> None:
        """Take a token of an owner; raise a Problem if there is none."""
        now_s = self._clock()
        full_at = self._full_at.get(owner)
        if full_at is None:
            full_at = self._new_bucket(now_s)
        full_at = max(full_at, now_s) + self._interval_s
        if full_at - now_s > self._window_s + _ROUNDING_S:
            raise self._problem(full_at - now_s - self._window_s)
        self._full_at[owner] = full_at

    def _new_bucket(self, now_s: float) -> float:
        """Return the time at which a new bucket is full, which is now; make room for it."""
        if len(self._full_at) >= _MAX_OWNERS:
            self._full_at = {o: at for o, at in self._full_at.items() if at > now_s}
        if len(self._full_at) >= _MAX_OWNERS:
            del self._full_at[next(iter(self._full_at))]
        return now_s

    def _problem(self, wait_s: float) -> Problem:
        detail = (
            f"you have used up your {self._burst} requests per {self._window_s:g} s: the limit is "
            f"{self._per_s:g} requests per second, in each process; retry after {wait_s:.3g} s"
        )
        seconds = max(1, math.ceil(wait_s))
        headers = {
            "Retry-After": str(seconds),
            "RateLimit-Policy": f'"requests";q={self._burst};w={math.ceil(self._window_s)}',
            "RateLimit": f'"requests";r=0;t={seconds}',
        }
        return Problem("rate-limited", detail, headers=headers)
