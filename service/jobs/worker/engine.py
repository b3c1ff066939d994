"""The Dask pool: processes on this machine by default, or a cluster at an address."""

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
_RPC_TIMEOUT_S: Final = 1


class Engine:
    """A connection to a Dask scheduler: an embedded one, or one at an address.

    Parameters
    ----------
    url
        Address of a scheduler; if empty, start a pool on this machine.
    slots
        Number of workers of the embedded pool.
    data_dir
        Folder for the files of the embedded workers.
    tls_dir
        Folder of the certificates for a scheduler that uses TLS.
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
                memory_limit=0,  # the limit is on the child process, not on the worker
                local_directory=str(data_dir / "dask"),
                env={"SIBLING_DATA_DIR": str(data_dir)},
                silence_logs=logging.CRITICAL,
            )
        try:
            self._client = self._connect(url, tls_dir)
        except BaseException:
            if self._cluster is not None:  # or every retry would leave a pool behind
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
            The scheduler is not reachable.
        """
        scheduler = self._client.scheduler
        if scheduler is None or self._client.status != "running":
            raise OSError("the scheduler is not connected")
        threads = self._client.sync(scheduler.ncores, workers=None, callback_timeout=_RPC_TIMEOUT_S)
        return sum(threads.values())

    def is_closed(self) -> bool:
        """Return whether the connection to the scheduler has ended for good."""
        return self._client.status in ("closing", "closed")

    def submit(self, job_id: str, attempt: int, *, on_done: Callable[[], None]) -> Any:
        """Submit an attempt; return a future that ends with it or with its process."""
        from distributed import fire_and_forget

        future = self._client.submit(
            run_attempt,
            self._database_url,
            job_id,
            attempt,
            key=f"{job_id}-{attempt}",
            pure=False,
            retries=0,  # the dispatcher retries
            fifo_timeout=0,
        )
        fire_and_forget(future)  # or the scheduler would cancel it when this client disconnects
        future.add_done_callback(lambda _: on_done())
        return future

    @staticmethod
    def failure(future: Any) -> str | None:
        """Return the error that an attempt raised; None without one, or if its process died."""
        from distributed import KilledWorker

        if future is None or future.status != "error":
            return None
        error = future.exception(timeout=_RPC_TIMEOUT_S)
        return None if isinstance(error, KilledWorker) else f"raised {error!r}"

    def is_healthy(self) -> bool:
        """Return whether the scheduler is connected and answers within a second."""
        if self._client.status != "running" or self._client.scheduler is None:
            return False
        try:
            self._client.sync(self._client.scheduler.identity, callback_timeout=_RPC_TIMEOUT_S)
        except (TimeoutError, OSError):
            return False
        return True

    def close(self) -> None:
        """Disconnect, and stop the embedded pool with its child processes."""
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
