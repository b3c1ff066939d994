"""One try at a job, in a worker of the pool: claim the row, supervise the child, settle.

The worker never trains in its own process: a LAPACK call holds the interpreter for its whole
length, and then no heartbeat and no cancel would get through. The child can be killed.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from service.blobs import BlobStore
from service.database import Database
from service.jobs import store
from service.jobs.states import JobState, Wish
from service.jobs.supervisor import Outcome, Supervisor
from service.logs import configure_logs, log
from service.models import publish
from service.processes import this_process
from service.rows import DatasetRow, JobRow
from service.settings import Settings

#: How long an attempt waits for a database that is away before it gives up.
_PATIENCE_S: Final = 600
_TRY_AGAIN_S: Final = 0.5
#: Progress becomes an event when the attempt is older by this part: some hundred events a week.
_TOLD_GROWTH: Final = 1.02


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker process keeps between jobs."""

    name: str
    settings: Settings
    database: Database
    blobs: BlobStore
    supervisor: Supervisor
    work_dir: Path


@dataclass(slots=True)
class Reports:
    """What an attempt tells the database while it trains: that it lives, how far it is, its state.

    Parameters
    ----------
    checkpoint
        File in which the child keeps its state.
    """

    worker: Worker
    job: JobRow
    checkpoint: Path
    _started: float = field(default_factory=time.monotonic)
    _told_s: float = 0.0
    _kept_ns: int = 0

    def beat(self, progress: dict[str, Any] | None) -> Wish | None:
        """Say that the attempt is alive; give what is wanted of it, None where it is fenced out."""
        elapsed_s = time.monotonic() - self._started
        is_told = progress is not None and elapsed_s >= self._told_s
        try:
            with self.worker.database.write() as session:
                wish = store.beat(
                    session,
                    self.job.id,
                    self.job.attempt,
                    self.worker.name,
                    progress,
                    is_told=is_told,
                )
                if wish is not None:
                    self.keep_checkpoint(session)
        except OperationalError:  # the database is away: train on, the fence decides later
            self._kept_ns = 0
            return Wish.GO_ON
        if is_told:
            self._told_s = elapsed_s * _TOLD_GROWTH
        return wish

    def keep_checkpoint(self, session: Session) -> None:
        """Store the child's state where it is newer than what is stored, within the limit."""
        with contextlib.suppress(FileNotFoundError):
            stat = self.checkpoint.stat()
            limit = self.worker.settings.max_checkpoint_bytes
            if stat.st_mtime_ns == self._kept_ns or stat.st_size > limit:
                return
            blob = self.worker.blobs.put_file(session, self.checkpoint)
            store.keep_checkpoint(session, self.job.id, blob.id)
            self._kept_ns = stat.st_mtime_ns


#: The workers in this process, by the address of the database: one, but for tests.
_WORKERS: Final[dict[str, Worker]] = {}


def _worker(database_url: str) -> Worker:
    if database_url not in _WORKERS:
        _WORKERS[database_url] = _open_worker(database_url)
    return _WORKERS[database_url]


def _open_worker(database_url: str) -> Worker:
    settings = Settings()
    configure_logs(settings.log_level)
    database = Database(database_url)
    work_dir = settings.data_dir.resolve() / "work"
    work_dir.mkdir(parents=True, exist_ok=True)
    blobs = BlobStore(
        database,
        settings.data_dir.resolve() / "cache",
        cache_bytes=settings.blob_cache_bytes,
    )
    return Worker(
        name=this_process().to_text(),
        settings=settings,
        database=database,
        blobs=blobs,
        supervisor=Supervisor(settings),
        work_dir=work_dir,
    )


def prepare_worker(database_url: str) -> None:
    """Start the child before the first job comes."""
    _worker(database_url).supervisor.warm_up()


def end_workers() -> None:
    """Have what runs in this process keep a checkpoint, stop, and go back to the queue."""
    for worker in _WORKERS.values():
        with contextlib.suppress(OperationalError), worker.database.write() as session:
            store.request_release(session, worker=worker.name)


def run_attempt(database_url: str, job_id: str, attempt: int) -> None:
    """Run one attempt at a job; the only function that is ever given to the pool."""
    worker = _worker(database_url)
    with worker.database.write() as session:
        if not store.claim(session, job_id, attempt, worker.name):
            return  # another claimant was first, or the job was cancelled
        job = session.get_one(JobRow, job_id)
        dataset = session.get_one(DatasetRow, job.dataset_id)
    log.info("attempt.began", job_id=job_id, attempt=attempt)
    reports = Reports(worker, job, worker.work_dir / f"{job.id}-{job.attempt}.checkpoint")
    artifact = worker.work_dir / f"{job.id}-{job.attempt}.model"
    try:
        outcome = _train(worker, job, dataset, reports, artifact)
        _patiently(lambda: _settle(worker, job, dataset, outcome, reports))
    finally:
        reports.checkpoint.unlink(missing_ok=True)
        artifact.unlink(missing_ok=True)
    log.info("attempt.ended", job_id=job_id, attempt=attempt, outcome=outcome.kind)


def _train(
    worker: Worker, job: JobRow, dataset: DatasetRow, reports: Reports, artifact: Path
) -> Outcome:
    try:
        path = _patiently(lambda: _fetch(worker, job, dataset, reports.checkpoint))
    except OSError as error:
        return Outcome("lost", "worker_failed", f"the dataset could not be fetched: {error}")
    order = {
        "dataset": str(path),
        "manifest": dataset.manifest,
        "algorithm": job.algorithm,
        "params": job.params,
        "seed": job.seed,
        "artifact": str(artifact),
        "checkpoint": str(reports.checkpoint),
        "checkpoint_s": worker.settings.checkpoint_s,
    }
    return worker.supervisor.run(
        order,
        beat=reports.beat,
        timeout_s=job.timeout_s,
        memory_mb=job.memory_mb,
        threads=job.threads,
    )


def _fetch(worker: Worker, job: JobRow, dataset: DatasetRow, checkpoint: Path) -> Path:
    """Give the dataset's file on this machine; put the checkpoint, if there is one, in its place.

    Raises
    ------
    OSError
        The disk is full, or the stored bytes are damaged.
    """
    if job.checkpoint_blob_id is not None:
        worker.blobs.copy(job.checkpoint_blob_id, checkpoint)
    assert dataset.content_blob_id is not None
    assert dataset.content_sha256 is not None
    return worker.blobs.path(dataset.content_blob_id, dataset.content_sha256)


def _patiently(function: Callable[[], T]) -> T:
    """Give what a function gives, waiting for a database that is away."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return function()
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_TRY_AGAIN_S)


def _settle(
    worker: Worker, job: JobRow, dataset: DatasetRow, outcome: Outcome, reports: Reports
) -> None:
    """Write the outcome under the fence, all or nothing."""
    with worker.database.write() as session:
        if outcome.kind == "succeeded":
            publish.publish(session, worker.blobs, job, dataset, outcome)
        elif outcome.kind in ("lost", "released"):
            row = store.get(session, job.id)
            if row is not None and (row.attempt, row.state) == (job.attempt, JobState.RUNNING):
                reports.keep_checkpoint(session)
                is_charged = outcome.kind == "lost"
                store.lose(session, row, store.Lost(outcome.code, outcome.detail, is_charged))
        elif outcome.kind != "fenced":
            error = {"code": outcome.code, "detail": outcome.detail, "attempt": job.attempt}
            store.move(
                session,
                job.id,
                job.attempt,
                JobState.RUNNING,
                JobState(outcome.kind),
                error=None if outcome.kind == "cancelled" else {**error, **outcome.place},
            )
