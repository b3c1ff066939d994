"""Threads that compute, few and bounded, so that calls beyond them are told to come again."""

import asyncio
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

from service.errors import Problem
from service.metrics import Metrics

Result = TypeVar("Result")


class ComputePool:
    """Runs work off the event loop.

    Parameters
    ----------
    threads
        Work that runs at a time.
    waiting
        Work that may wait; more is refused at once, which keeps memory and delay bounded.
    processes
        Those that have such a pool on this machine.

    Attributes
    ----------
    share
        Threads of the linear algebra of a call.
    """

    def __init__(self, metrics: Metrics, *, threads: int, waiting: int, processes: int) -> None:
        # each call on its share of the cores: more threads would only wait for one another
        self.share = max(1, (os.cpu_count() or 1) // (threads * processes))
        self._metrics = metrics
        self._limit = threadpool_limits(self.share, user_api="blas")
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="compute")
        self._most = threads + waiting
        self._n_taken = 0

    def is_idle(self) -> bool:
        """Return whether nothing is computed."""
        return self._n_taken == 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of the work.

        Raises
        ------
        Problem
            As much as may wait is waiting.
        """
        if self._n_taken >= self._most:
            detail = f"{self._n_taken} calls are being computed, the most at a time; call again"
            raise Problem("unavailable", detail, headers={"Retry-After": "1"})
        self._n_taken += 1
        self._metrics.pending.inc()
        try:
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, context.run, work)
        finally:
            self._n_taken -= 1
            self._metrics.pending.dec()

    def close(self) -> None:
        """End the threads once they have done what they are at."""
        self._executor.shutdown(cancel_futures=True)
        self._limit.restore_original_limits()
