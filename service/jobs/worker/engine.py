"""Dask as the distributor: a pool on this machine by default, a cluster of any size by address."""

import contextlib
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from service.jobs.worker.attempt import prepare_worker, run_attempt
from service.jobs.worker.cluster import DASK_CONFIG, check_version
from service.jobs.worker.tls import find_security

_CLOSE_TIMEOUT_S: Final = 2
_ANSWER_TIMEOUT_S: Final = 1


class Engine:
    """A connection to a Dask scheduler, its own or another's.

    Parameters
    ----------
    url
        Address of a scheduler; a pool on this machine's loopback is started if empty.
    slots
        Jobs at a time in the pool of its own.
    data_dir
        Folder in which the workers of its own pool keep their files.
    tls_dir
        Folder of the files that let us in where the scheduler speaks TLS.
    """

    def __init__(
        self, *, url: str, slots: int, database_url: str, data_dir: Path, tls_dir: Path | None
    ) -> None:
        import dask
        from distributed import LocalCluster

        dask.config.set(DASK_CONFIG)
        self._database_url = database_url
        self._cluster: Any = None
        if not url:
            self._cluster = LocalCluster(
                n_workers=slots,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=0,  # the child is limited, not the worker
                local_directory=str(data_dir / "dask"),
                env={"SIBLING_DATA_DIR": str(data_dir)},
                silence_logs=logging.CRITICAL,
            )
        try:
            self._client = self._connect(url, tls_dir)
        except BaseException:
            if self._cluster is not None:  # or each try would leave one behind
                self._cluster.close(timeout=_CLOSE_TIMEOUT_S)
            raise

    def _connect(self, url: str, tls_dir: Path | None) -> Any:
        from distributed import Client

        if not url:
            client = Client(self._cluster, set_as_default=False)
            client.run(prepare_worker, self._database_url)
            return client
        security = find_security(url, tls_dir)
        check_version(url, security)
        return Client(url, security=security, set_as_default=False)

    @property
    def is_own(self) -> bool:
        """Whether the pool ends with this process."""
        return self._cluster is not None

    def slots(self) -> int:
        """Return the number of jobs that the workers can run at a time.

        Raises
        ------
        OSError
            The scheduler is away.
        """
        ask = self._client.scheduler
        if ask is None or self._client.status != "running":
            raise OSError("the scheduler is not connected")
        threads = self._client.sync(ask.ncores, workers=None, callback_timeout=_ANSWER_TIMEOUT_S)
        return sum(threads.values())

    def is_closed(self) -> bool:
        """Return whether the connection has ended for good."""
        return self._client.status in ("closing", "closed")

    def submit(self, job_id: str, attempt: int, *, on_done: Callable[[], None]) -> Any:
        """Hand an attempt to the pool; give the future that tells when its process has died."""
        from distributed import fire_and_forget

        future = self._client.submit(
            run_attempt,
            self._database_url,
            job_id,
            attempt,
            key=f"{job_id}-{attempt}",
            pure=False,
            retries=0,  # the dispatcher retries; the pool would do so behind its back
            fifo_timeout=0,
        )
        fire_and_forget(future)  # or the scheduler would forget it with this client
        future.add_done_callback(lambda _: on_done())
        return future

    @staticmethod
    def failure(future: Any) -> str | None:
        """Return what an attempt raised; None where it did not, or its process has died."""
        from distributed import KilledWorker

        if future is None or future.status != "error":
            return None
        error = future.exception(timeout=_ANSWER_TIMEOUT_S)
        return None if isinstance(error, KilledWorker) else f"raised {error!r}"

    def is_healthy(self) -> bool:
        """Return whether the scheduler is connected and answers; that may take a second."""
        if self._client.status != "running" or self._client.scheduler is None:
            return False
        try:
            self._client.sync(self._client.scheduler.identity, callback_timeout=_ANSWER_TIMEOUT_S)
        except (TimeoutError, OSError):
            return False
        return True

    def close(self) -> None:
        """Disconnect; a pool of its own ends, and its children with it."""
        pids = (
            []
            if self._cluster is None
            else [n.pid for n in self._cluster.workers.values() if n.pid]
        )
        self._client.close(timeout=_CLOSE_TIMEOUT_S)
        if self._cluster is not None:
            with contextlib.suppress(TimeoutError):  # a worker in the middle of a job
                self._cluster.close(timeout=_CLOSE_TIMEOUT_S)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
