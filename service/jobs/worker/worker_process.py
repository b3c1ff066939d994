"""A worker process of the pool: its start, its end, and its state between jobs."""

import contextlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from service.jobs.queue import store
from service.jobs.worker.scratch import make_scratch
from service.jobs.worker.supervisor import Supervisor
from service.observability.logs import configure_logs, log
from service.observability.tracing import missing_package, start_tracing
from service.processes.lifetime import this_process
from service.settings import Settings
from service.storage.blobs import BlobStore, open_blobs
from service.storage.database import UNAVAILABLE, Database

#: Threads of a worker that use the database: attempt, heartbeats, and the end of the worker.
_N_DATABASE_THREADS: Final = 3


@dataclass(frozen=True, slots=True)
class Worker:
    """State of a worker process between jobs."""

    name: str
    settings: Settings
    database: Database
    blobs: BlobStore
    supervisor: Supervisor
    work_dir: Path


#: The workers in this process by database URL: one, except in tests.
_WORKERS: Final[dict[str, Worker]] = {}


def open_worker(database_url: str) -> Worker:
    """Return the worker in this process, opened at the first call."""
    if database_url not in _WORKERS:
        _WORKERS[database_url] = _open(database_url)
    return _WORKERS[database_url]


def end_workers() -> None:
    """Ask the attempts in this process to store a checkpoint, stop, and requeue their jobs."""
    for worker in _WORKERS.values():
        with contextlib.suppress(*UNAVAILABLE), worker.database.write() as session:
            store.request_release(session, worker=worker.name)


def scratch_dir(settings: Settings) -> Path:
    """Return the directory of the scratch folders of workers."""
    return settings.data_dir.resolve() / "work"


def _open(database_url: str) -> Worker:
    settings = Settings()
    configure_logs(settings.log_level)
    if settings.tracing:
        _start_tracing()
    database = Database(
        database_url,
        statement_timeout_s=settings.db_statement_timeout_s,
        connect_timeout_s=settings.db_connect_timeout_s,
        max_connections=_N_DATABASE_THREADS,
        max_idle_connections=1,
    )
    return Worker(
        name=this_process().to_text(),
        settings=settings,
        database=database,
        blobs=open_blobs(database, settings),
        supervisor=_supervisor(),
        work_dir=make_scratch(scratch_dir(settings)),
    )


@cache
def _supervisor() -> Supervisor:
    """Return the supervisor of the child process that all workers in this process share."""
    return Supervisor(Settings())


def _start_tracing() -> None:
    """Start tracing; without its packages on this machine, jobs run without it."""
    missing = missing_package()
    if missing is None:
        start_tracing("worker")
    else:
        log.warning("tracing.unavailable", reason=f"this worker needs {missing}")
