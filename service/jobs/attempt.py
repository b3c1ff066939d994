"""One try at a job, in a worker of the pool: claim the row, supervise the child, settle.

The worker never trains in its own process: a LAPACK call holds the interpreter for its whole
length, and then no heartbeat and no cancel would get through. The child can be killed.
"""

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy.exc import OperationalError

from service.blobs import BlobStore
from service.database import Database
from service.jobs import store
from service.jobs.states import JobState
from service.jobs.supervisor import Outcome, Supervisor
from service.logs import configure_logs, log
from service.models import publish
from service.processes import this_process
from service.rows import DatasetRow, JobRow
from service.settings import Settings

#: How long a finished attempt waits for a database that is away before it gives up.
_SETTLE_FOR_S: Final = 600
_SETTLE_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker process keeps between jobs."""

    name: str
    settings: Settings
    database: Database
    blobs: BlobStore
    supervisor: Supervisor
    work_dir: Path


@cache
def _worker(database_url: str) -> Worker:
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


def run_attempt(database_url: str, job_id: str, attempt: int) -> None:
    """Run one attempt at a job; the only function that is ever given to the pool."""
    worker = _worker(database_url)
    with worker.database.write() as session:
        if not store.claim(session, job_id, attempt, worker.name):
            return  # another claimant was first, or the job was cancelled
        job = session.get_one(JobRow, job_id)
        dataset = session.get_one(DatasetRow, job.dataset_id)
    log.info("attempt.began", job_id=job_id, attempt=attempt)
    outcome = _train(worker, job, dataset)
    _settle(worker, job, dataset, outcome)
    log.info("attempt.ended", job_id=job_id, attempt=attempt, outcome=outcome.kind)


def _train(worker: Worker, job: JobRow, dataset: DatasetRow) -> Outcome:
    artifact = worker.work_dir / f"{job.id}-{job.attempt}.model"

    def beat(progress: dict[str, Any] | None) -> bool | None:
        try:
            with worker.database.write() as session:
                return store.beat(session, job.id, job.attempt, worker.name, progress)
        except OperationalError:  # the database is away: train on, the fence decides later
            return False

    assert dataset.content_blob_id is not None
    assert dataset.content_sha256 is not None
    order = {
        "dataset": str(worker.blobs.path(dataset.content_blob_id, dataset.content_sha256)),
        "manifest": dataset.manifest,
        "algorithm": job.algorithm,
        "params": job.params,
        "seed": job.seed,
        "artifact": str(artifact),
        "checkpoint": str(_checkpoint(worker, job)),
        "checkpoint_s": worker.settings.checkpoint_s,
    }
    return worker.supervisor.run(order, beat=beat, timeout_s=job.timeout_s, memory_mb=job.memory_mb)


def _settle(worker: Worker, job: JobRow, dataset: DatasetRow, outcome: Outcome) -> None:
    """Write the outcome under the fence, waiting for a database that is away."""
    deadline = time.monotonic() + _SETTLE_FOR_S
    while True:
        try:
            _settle_once(worker, job, dataset, outcome)
            break
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SETTLE_EVERY_S)
    if outcome.artifact is not None:
        outcome.artifact.unlink(missing_ok=True)
    if outcome.kind != "lost":
        _checkpoint(worker, job).unlink(missing_ok=True)


def _settle_once(worker: Worker, job: JobRow, dataset: DatasetRow, outcome: Outcome) -> None:
    with worker.database.write() as session:
        if outcome.kind == "succeeded":
            publish.publish(session, worker.blobs, job, dataset, outcome)
        elif outcome.kind == "lost":
            row = store.get(session, job.id)
            if row is not None and (row.attempt, row.state) == (job.attempt, JobState.RUNNING):
                store.lose(session, row, store.Lost(outcome.code, outcome.detail))
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


def _checkpoint(worker: Worker, job: JobRow) -> Path:
    return worker.work_dir / f"{job.id}.checkpoint"
