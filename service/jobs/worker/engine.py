"""The Dask pool: processes on this machine by default, or a cluster at an address."""

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from service.jobs.worker.attempt import run_attempt
from service.jobs.worker.cluster import (
    NANNY_PRELOAD,
    add_rpcs,
    check_version,
    dask_config,
    describe_workers,
)
from service.jobs.worker.tls import find_security
from service.settings import Settings

_CLOSE_TIMEOUT_S: Final = 2
_RPC_TIMEOUT_S: Final = 1
#: Dask looks for a lost scheduler for 10 s, and may then be neither connected nor closed.
_RECONNECT_TIMEOUT_S: Final = 20
#: Time between two messages of Dask's cluster object to its scheduler, with the cluster's name.
_SYNC_INTERVAL_S: Final = 3600


class Engine:
    """A connection to a Dask scheduler: an embedded one, or one at an address.

    Parameters
    ----------
    settings
        With a scheduler URL: connect to it. Otherwise: start a pool on this machine.
    """

    def __init__(self, settings: Settings, *, database_url: str) -> None:
        import dask
        from distributed import LocalCluster

        dask.config.set(dask_config(settings))
        self._database_url = database_url
        #: The worker of each submitted task that has not ended.
        self._placed: dict[str, str] = {}
        #: When the connection was first seen to be lost.
        self._lost_at: float | None = None
        self._cluster: Any = None
        url, data_dir = settings.scheduler_url, settings.data_dir.resolve()
        if not url:
            self._cluster = LocalCluster(
                n_workers=settings.resolved_worker_slots(),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                memory_limit=0,  # the limit is on the child process, not on the worker
                local_directory=str(data_dir / "dask"),
                env={"SIBLING_DATA_DIR": str(data_dir)},
                preload_nanny=[NANNY_PRELOAD],
                silence_logs=logging.CRITICAL,
                scheduler_sync_interval=_SYNC_INTERVAL_S,
            )
            add_rpcs(self._cluster.scheduler)
        try:
            self._client = self._connect(url, settings.tls_dir)
        except BaseException:
            if self._cluster is not None:  # or every retry would leave a pool behind
                self._cluster.close(timeout=_CLOSE_TIMEOUT_S)
            raise

    def _connect(self, url: str, tls_dir: Path | None) -> Any:
        from distributed import Client

        from service.jobs.worker.plugin import PrepareWorker

        if not url:
            client = Client(self._cluster, set_as_default=False)
            client.register_plugin(PrepareWorker(self._database_url))
            return client
        security = find_security(url, tls_dir)
        check_version(url, security)
        return Client(url, security=security, set_as_default=False)

    @property
    def is_own(self) -> bool:
        """Whether the pool ends with this process."""
        return self._cluster is not None

    def free_slots(self) -> list[str]:
        """Return the address of a worker for each job that the pool can start now.

        Workers that do not respond are left out: Dask would still send them work.

        Raises
        ------
        OSError
            The scheduler is not reachable.
        """
        workers = self._workers()
        placed: dict[str, set[str]] = {address: set() for address in workers}
        for key, address in list(self._placed.items()):  # Dask may not have processed it yet
            placed.setdefault(address, set()).add(key)
        free = {
            address: worker["slots"] - len(placed[address].union(worker["tasks"]))
            for address, worker in workers.items()
            if worker["is_running"] and not worker["is_silent"]
        }
        rounds = range(max(free.values(), default=0))  # one slot of each worker after another
        return [address for n in rounds for address, n_free in free.items() if n_free > n]

    def silent_workers(self) -> tuple[list[str], int]:
        """Return the addresses of the workers that do not respond, and the number of workers.

        Raises
        ------
        OSError
            The scheduler is not connected, or does not answer within a second.
        """
        workers = self._workers()
        return [address for address, worker in workers.items() if worker["is_silent"]], len(workers)

    def _workers(self) -> dict[str, dict[str, Any]]:
        scheduler = self._client.scheduler  # once, as another thread may close the client
        if scheduler is None or self._client.status != "running":
            raise OSError("not connected to the scheduler; check that it runs")
        ask = scheduler.sibling_workers if self._cluster is None else self._describe_own_workers
        workers: dict[str, dict[str, Any]] = self._client.sync(ask, callback_timeout=_RPC_TIMEOUT_S)
        return workers

    async def _describe_own_workers(self) -> dict[str, dict[str, Any]]:
        """Return the workers of the embedded scheduler, on its event loop: no request is sent."""
        return describe_workers(self._cluster.scheduler)

    def is_closed(self) -> bool:
        """Return whether the connection has ended, for good or for longer than Dask waits."""
        if self._client.status == "running":
            self._lost_at = None
            return False
        now = time.monotonic()
        self._lost_at = self._lost_at or now
        is_late = now - self._lost_at > _RECONNECT_TIMEOUT_S
        return is_late or self._client.status in ("closing", "closed")

    def submit(self, job_id: str, attempt: int, *, worker: str, on_done: Callable[[], None]) -> Any:
        """Submit an attempt to a worker; return a future that ends with it or with its process."""
        from distributed import fire_and_forget

        key = f"{job_id}-{attempt}"
        self._placed[key] = worker
        future = self._client.submit(
            run_attempt,
            self._database_url,
            job_id,
            attempt,
            key=key,
            workers=[worker],
            allow_other_workers=True,  # if that worker has left meanwhile
            pure=False,
            retries=0,  # the dispatcher retries
            fifo_timeout=0,
        )
        fire_and_forget(future)  # or the scheduler would cancel it when this client disconnects

        def end(_: Any) -> None:
            self._placed.pop(key, None)
            on_done()

        future.add_done_callback(end)
        return future

    @staticmethod
    def failure(future: Any) -> str | None:
        """Return the error that an attempt raised; None without one, or if its process died."""
        from distributed import KilledWorker

        if future is None or future.status != "error":
            return None
        error = future.exception(timeout=_RPC_TIMEOUT_S)
        return None if isinstance(error, KilledWorker) else f"raised {error!r}"

    def close(self) -> None:
        """Disconnect, and stop the embedded pool with its child processes."""
        with contextlib.suppress(TimeoutError):  # still looks for a lost scheduler
            self._client.close(timeout=_CLOSE_TIMEOUT_S)
        if self._cluster is None:
            return
        pids = [nanny.pid for nanny in self._cluster.workers.values() if nanny.pid]
        try:
            self._cluster.close(timeout=_CLOSE_TIMEOUT_S)
        except TimeoutError:  # a worker in the middle of a job, or a busy machine
            # it is never closed; otherwise Dask would wait for that 10 s when this process exits
            self._cluster.shutdown_on_close = False
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
