"""Thread pool for inference with a bounded queue."""

import asyncio
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

from service.errors.problems import Problem
from service.observability.metrics import Metrics

Result = TypeVar("Result")


class ComputePool:
    """Pool of threads that run work off the event loop.

    Parameters
    ----------
    queue_size
        Maximum number of calls that wait for a thread. Further calls are rejected at once, which
        bounds memory and delay.
    processes
        Number of server processes on this machine, each with its own pool.

    Attributes
    ----------
    blas_threads
        Number of BLAS threads per call.
    """

    def __init__(self, metrics: Metrics, *, threads: int, queue_size: int, processes: int) -> None:
        # calls share the cores: more BLAS threads than cores slow each other down
        self.blas_threads = max(1, (os.cpu_count() or 1) // (threads * processes))
        self._metrics = metrics
        self._limit = threadpool_limits(self.blas_threads, user_api="blas")
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="compute")
        self._max_pending = threads + queue_size
        self._n_pending = 0

    def is_idle(self) -> bool:
        """Return whether no call is running or waiting."""
        return self._n_pending == 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return the result of the work.

        Raises
        ------
        Problem
            The queue is full.
        """
        if self._n_pending >= self._max_pending:
            detail = (
                f"{self._n_pending} inference requests are pending, the maximum; try again later"
            )
            raise Problem("unavailable", detail, headers={"Retry-After": "1"})
        self._n_pending += 1
        self._metrics.pending.inc()
        try:
            context = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, context.run, work)
        finally:
            self._n_pending -= 1
            self._metrics.pending.dec()

    def close(self) -> None:
        """Cancel waiting calls and end the threads after their current call."""
        self._executor.shutdown(cancel_futures=True)
        self._limit.restore_original_limits()
