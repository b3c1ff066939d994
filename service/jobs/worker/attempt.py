"""One try at a job, in a worker of the pool: claim the row, supervise the child, settle.

The worker never trains in its own process: a LAPACK call holds the interpreter for its whole
length, and then no heartbeat and no cancel would get through. The child can be killed.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from service.batch.publish import Outputs, publish_outputs
from service.blobs import BlobStore
from service.database import Database
from service.jobs.queue import child_store, store
from service.jobs.queue.outcome import Outcome
from service.jobs.queue.states import JobState, Wish
from service.jobs.studies.child_jobs import ADAPT, INFER
from service.jobs.worker.heartbeat import Heart
from service.jobs.worker.scratch import make_scratch
from service.jobs.worker.supervisor import Supervisor
from service.logs import configure_logs, log
from service.models import publish
from service.processes import this_process
from service.rows import DatasetRow, JobRow, VersionRow
from service.settings import Settings

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


#: The workers in this process, by the address of the database: one, but for tests.
_WORKERS: Final[dict[str, Worker]] = {}


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
        if not store.claim(
            session, job_id, attempt, worker.name, threads=worker.supervisor.threads
        ):
            return  # another claimant was first, or the job was cancelled
        job = session.get_one(JobRow, job_id)
        dataset = session.get_one(DatasetRow, job.dataset_id)
        parts = child_store.results_of_parts(session, job_id)
    log.info("attempt.began", job_id=job_id, attempt=attempt)
    outcome = _Attempt(worker, job, dataset, parts).run()
    log.info("attempt.ended", job_id=job_id, attempt=attempt, outcome=outcome.kind)


class _Attempt:
    """A claimed attempt.

    Parameters
    ----------
    parts
        What each part of the job came to.
    """

    def __init__(
        self, worker: Worker, job: JobRow, dataset: DatasetRow, parts: list[dict[str, Any]]
    ) -> None:
        self._worker = worker
        self._job = job
        self._dataset = dataset
        self._parts = parts
        self._artifact = worker.work_dir / f"{job.id}-{job.attempt}.model"
        self._content = worker.work_dir / f"{job.id}-{job.attempt}.content"
        self._checkpoint = worker.work_dir / f"{job.id}-{job.attempt}.checkpoint"
        self._started = time.monotonic()
        self._told_s = 0.0
        self._kept_ns = 0
        self._heart = Heart(self._beat, every_s=worker.settings.heartbeat_s)

    def run(self) -> Outcome:
        """Train, and write down how it ended."""
        try:
            with self._heart:
                return self._settle_patiently(self._train())
        finally:
            self._artifact.unlink(missing_ok=True)
            self._content.unlink(missing_ok=True)
            self._checkpoint.unlink(missing_ok=True)

    def _train(self) -> Outcome:
        job = self._job
        try:
            dataset = self._patiently(self._fetch)
            base = self._patiently(self._fetch_base)
        except LookupError as error:
            return Outcome("failed", "base_model_gone", str(error))
        except (OSError, OperationalError) as error:  # another worker may do better
            return Outcome("lost", "worker_failed", f"the dataset could not be fetched: {error}")
        order = {
            "dataset": str(dataset),
            "manifest": self._dataset.manifest,
            "algorithm": job.algorithm,
            "params": job.params,
            "seed": job.seed,
            "plan": job.plan,
            "parts": self._parts,
            "base": None if base is None else str(base),
            "artifact": str(self._artifact),
            "content": str(self._content),
            "max_bytes": self._worker.settings.max_expanded_bytes,
            "checkpoint": str(self._checkpoint),
            "checkpoint_s": self._worker.settings.checkpoint_s,
        }
        return self._worker.supervisor.run(
            order,
            beat=self._heart.pulse,
            timeout_s=job.timeout_s,
            memory_mb=job.memory_mb,
            threads=job.threads,
        )

    def _patiently(self, fetch: Callable[[], T]) -> T:
        """Return what is fetched, waiting for a database that is away."""
        deadline = self._deadline()
        while True:
            try:
                return fetch()
            except OperationalError:
                if time.monotonic() > deadline or self._heart.wish != Wish.GO_ON:
                    raise
                time.sleep(_TRY_AGAIN_S)

    def _fetch(self) -> Path:
        """Return the dataset's file on this machine; put the checkpoint, if any, in its place."""
        blobs, dataset = self._worker.blobs, self._dataset
        if self._job.checkpoint_blob_id is not None:
            blobs.copy(self._job.checkpoint_blob_id, self._checkpoint)
        assert dataset.content_blob_id is not None
        assert dataset.content_sha256 is not None
        return blobs.path(dataset.content_blob_id, dataset.content_sha256)

    def _fetch_base(self) -> Path | None:
        """Return the file of the model that the job starts from, if it is such a one."""
        plan = self._job.plan
        if plan is None or plan["kind"] not in (ADAPT, INFER):
            return None
        with self._worker.database.read() as session:
            version = session.get(VersionRow, plan["version_id"])
        if version is None:
            raise LookupError("the model that the job was to start from has been deleted")
        return self._worker.blobs.path(version.artifact_blob_id, version.artifact_sha256)

    def _beat(self, progress: dict[str, Any] | None) -> Wish | None:
        """Say that the attempt is alive; give what is wanted of it, None where it is fenced out."""
        job = self._job
        elapsed_s = time.monotonic() - self._started
        is_told = progress is not None and elapsed_s >= self._told_s
        with self._worker.database.write() as session:
            wish = store.beat(
                session, job.id, job.attempt, self._worker.name, progress, is_told=is_told
            )
        if is_told:
            self._told_s = elapsed_s * _TOLD_GROWTH
        if wish is not None:
            self._keep_checkpoint()
        return wish

    def _keep_checkpoint(self, *, is_last: bool = False) -> None:
        """Store the child's state where it is newer than what is stored, within the limit.

        Apart from the beat: one for which there is no room must not silence the attempt.
        """
        with contextlib.suppress(FileNotFoundError):
            stat = self._checkpoint.stat()
            limit = self._worker.settings.max_checkpoint_bytes
            if stat.st_size > limit or (stat.st_mtime_ns == self._kept_ns and not is_last):
                return
            self._kept_ns = stat.st_mtime_ns  # one that cannot be stored is not tried again
            try:
                with self._worker.database.write() as session:
                    if store.is_held(session, self._job.id, self._job.attempt):
                        blob = self._worker.blobs.put_file(session, self._checkpoint)
                        store.keep_checkpoint(session, self._job.id, blob.id)
            except OperationalError as error:
                log.warning("attempt.checkpoint", job_id=self._job.id, error=str(error.orig))

    def _settle_patiently(self, outcome: Outcome) -> Outcome:
        """Write the outcome, waiting for a database that is away or full; give what it came to."""
        deadline = self._deadline()
        while True:
            try:
                return outcome if self._settle(outcome) else Outcome("fenced")
            except OperationalError as error:
                log.warning("attempt.unsettled", job_id=self._job.id, error=str(error.orig))
                outcome = self._give_up(
                    outcome, str(error.orig), is_late=time.monotonic() > deadline
                )
                if outcome.kind == "fenced":
                    return outcome
                time.sleep(_TRY_AGAIN_S)

    def _give_up(self, outcome: Outcome, cause: str, *, is_late: bool) -> Outcome:
        """Return what an outcome that cannot be written down now comes to."""
        if self._heart.wish is None:
            return Outcome("fenced")
        if outcome.kind not in ("succeeded", "scored"):
            if is_late:
                raise TimeoutError(f"how the attempt ended could not be stored: {cause}")
            return outcome
        if self._heart.wish == Wish.CANCEL:
            return Outcome("cancelled")
        if is_late:
            return Outcome("lost", "not_stored", f"the result could not be stored: {cause}")
        return outcome

    def _deadline(self) -> float:
        return time.monotonic() + self._worker.settings.patience_s

    def _settle(self, outcome: Outcome) -> bool:
        """Write the outcome, all or nothing; false where the attempt was fenced out."""
        job = self._job
        if outcome.kind in ("lost", "released"):
            self._keep_checkpoint(is_last=True)
        if outcome.kind == "succeeded":
            return self._publish(outcome)
        with self._worker.database.write() as session:
            match outcome.kind:
                case "scored":
                    return self._end(session, JobState.SUCCEEDED, result=outcome.result)
                case "lost" | "released":
                    return self._give_back(session, outcome)
                case "failed" | "timed_out":
                    error = {"code": outcome.code, "detail": outcome.detail, "attempt": job.attempt}
                    state = JobState(outcome.kind)
                    return self._end(session, state, error={**error, **outcome.place})
                case "cancelled":
                    return self._end(session, JobState.CANCELLED)
                case _:  # another attempt has the row
                    return False

    def _publish(self, outcome: Outcome) -> bool:
        """Make visible what the attempt has made; false where it was fenced out."""
        blobs = self._worker.blobs
        with self._worker.database.write() as session:
            if (self._job.plan or {}).get("kind") == INFER:
                made = Outputs(self._job, self._dataset, outcome, self._content)
                return publish_outputs(session, blobs, made)
            return publish.publish(session, blobs, self._job, self._dataset, outcome)

    def _end(self, session: Session, state: JobState, **values: Any) -> bool:
        values = {"error": None, **values}
        return store.move(
            session, self._job.id, self._job.attempt, JobState.RUNNING, state, **values
        )

    def _give_back(self, session: Session, outcome: Outcome) -> bool:
        row = store.get(session, self._job.id)
        if row is None or (row.attempt, row.state) != (self._job.attempt, JobState.RUNNING):
            return False
        is_charged = outcome.kind == "lost"
        return store.lose(session, row, store.Lost(outcome.code, outcome.detail, is_charged))


def _worker(database_url: str) -> Worker:
    if database_url not in _WORKERS:
        _WORKERS[database_url] = _open_worker(database_url)
    return _WORKERS[database_url]


def _open_worker(database_url: str) -> Worker:
    settings = Settings()
    configure_logs(settings.log_level)
    database = Database(database_url)
    data_dir = settings.data_dir.resolve()
    return Worker(
        name=this_process().to_text(),
        settings=settings,
        database=database,
        blobs=BlobStore(database, data_dir / "cache", cache_bytes=settings.blob_cache_bytes),
        supervisor=Supervisor(settings),
        work_dir=make_scratch(data_dir / "work"),
    )
