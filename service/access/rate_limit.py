"""Limit on the requests per second of an owner, checked before the body is read."""

import math
import time
from collections.abc import Callable
from typing import Final

from service.errors.problems import Problem
from service.processes.token_buckets import TokenBuckets

#: A bucket holds the requests of this many seconds, but at least ``_MIN_BURST``.
_BURST_S: Final = 2.0
_MIN_BURST: Final = 10


class RateLimiter:
    """Limit of the requests of each owner to this process. All methods run on the event loop.

    Parameters
    ----------
    per_s
        Requests per second that an owner can sustain.
    clock
        Monotonic clock in seconds.
    """

    def __init__(self, per_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = max(_MIN_BURST, math.ceil(per_s * _BURST_S))
        self._window_s = self._burst / per_s
        self._buckets = TokenBuckets(per_s, size=self._burst, clock=clock)

    def check(self, owner: str) -> None:
        """Take a token of an owner; raise a Problem if there is none."""
        wait_s = self._buckets.take(owner)
        if wait_s:
            raise self._problem(wait_s)

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
