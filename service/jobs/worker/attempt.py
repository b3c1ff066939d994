"""One attempt at a job, in a worker of the pool: claim the row, supervise the child, store the end.

The worker never trains in its own process: a LAPACK call holds the interpreter until it returns,
so no heartbeat or cancel request would get through. The child process can be killed.
"""

import contextlib
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy.orm import Session

from service.access.stored_bytes import (
    StoredBytesExceeded,
    check_after_storing,
    lock_quotas,
)
from service.jobs.queue import child_store, queries, store
from service.jobs.queue.outcome import Outcome, without_paths
from service.jobs.studies.child_jobs import ADAPT, INFER
from service.jobs.worker.heartbeat import HeartbeatThread, heartbeat_interval_s
from service.jobs.worker.publication import Outputs, publish_model, publish_outputs
from service.jobs.worker.scratch import sweep_scratch
from service.jobs.worker.supervisor import postponed
from service.jobs.worker.worker_process import Worker, open_worker
from service.observability.logs import log
from service.observability.tracing import current_traceparent, is_tracing, record_past_span, span
from service.storage.database import UNAVAILABLE, retry_while_unavailable
from service.storage.job_states import AttemptCommand, JobState
from service.storage.shortages import find_shortage
from service.storage.tables import DatasetRow, JobRow, VersionRow

_RETRY_INTERVAL_S: Final = 0.5
#: Time between two counts of the running attempts, which set the interval of the heartbeats.
_COUNT_INTERVAL_S: Final = 10
#: The time between two progress events grows by this factor: some hundred events in a week.
_EVENT_INTERVAL_GROWTH: Final = 1.02


T = TypeVar("T")


def prepare_worker(database_url: str) -> None:
    """Start the child process before the first job arrives."""
    open_worker(database_url).supervisor.warm_up()


def run_attempt(database_url: str, job_id: str, attempt: int) -> None:
    """Run one attempt at a job. Dask calls this function, and no other."""
    worker = open_worker(database_url)
    sweep_scratch(worker.work_dir.parent)
    try:
        claimed = retry_while_unavailable(
            lambda is_retry: _claim(worker, job_id, attempt, is_retry=is_retry),
            worker.settings.db_retry_timeout_s,
        )
        if claimed is None:
            return  # another worker claimed it first, or the job was cancelled
        log.info("attempt.started", job_id=job_id, attempt=attempt)
        outcome = _run_traced(worker, claimed)
    finally:
        worker.database.release_connections()
    log.info("attempt.ended", job_id=job_id, attempt=attempt, outcome=outcome.kind)


class _Claimed(NamedTuple):
    """Rows of a claimed attempt; ``queued_at`` is read for its trace only."""

    job: JobRow
    dataset: DatasetRow
    child_results: list[dict[str, Any]]
    queued_at: datetime | None


def _run_traced(worker: Worker, claimed: _Claimed) -> Outcome:
    """Run an attempt, with spans of it and of its time in the queue."""
    job = claimed.job
    parent = job.traceparent
    if claimed.queued_at is not None:
        record_past_span("queue wait", parent=parent, started_at=claimed.queued_at, job_id=job.id)
    with span("attempt", parent=parent, job_id=job.id, attempt=job.attempt) as current:
        outcome = _Attempt(worker, job, claimed.dataset, claimed.child_results).run()
        if current is not None:
            current.set_attribute("sibling.outcome", outcome.kind)
    return outcome


def _claim(worker: Worker, job_id: str, attempt: int, *, is_retry: bool) -> _Claimed | None:
    """Claim an attempt; return its job, dataset and results of child jobs, None if that fails.

    Parameters
    ----------
    is_retry
        Whether an earlier claim failed: it may have been committed nevertheless.
    """
    with worker.database.write() as session:
        is_claimed = store.claim(
            session, job_id, attempt, worker.name, threads=worker.supervisor.threads
        )
        if not is_claimed and not (is_retry and store.owns(session, job_id, attempt, worker.name)):
            return None
        job = session.get_one(JobRow, job_id)
        dataset = session.get_one(DatasetRow, job.dataset_id)
        child_results = child_store.child_results(session, job_id)
        queued_at = queries.queued_at(session, job_id) if is_tracing() else None
        return _Claimed(job, dataset, child_results, queued_at)


class _Attempt:
    """A claimed attempt.

    Parameters
    ----------
    child_results
        Results of the job's child jobs, in order.
    """

    def __init__(
        self, worker: Worker, job: JobRow, dataset: DatasetRow, child_results: list[dict[str, Any]]
    ) -> None:
        self._worker = worker
        self._job = job
        self._dataset = dataset
        self._child_results = child_results
        #: A child that is killed leaves parts of files, so the folder is removed as a whole.
        self._folder = worker.work_dir / f"{job.id}-{job.attempt}"
        self._artifact = self._folder / "model"
        self._content = self._folder / "content"
        self._checkpoint = self._folder / "checkpoint"
        self._started = time.monotonic()
        self._next_event_s = 0.0
        self._next_count_s = 0.0
        self._checkpoint_mtime_ns = 0
        self._heartbeats = HeartbeatThread(
            self._send_heartbeat, interval_s=worker.settings.heartbeat_interval_s
        )

    def run(self) -> Outcome:
        """Train, and store the outcome."""
        try:
            with self._heartbeats:
                return self._settle_with_retries(self._train())
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _train(self) -> Outcome:
        job = self._job
        try:
            dataset = self._retry(self._fetch)
            base = self._retry(self._fetch_base)
        except LookupError as error:
            return Outcome("failed", "base-model-deleted", str(error))
        except (OSError, *UNAVAILABLE) as error:  # another worker may succeed
            return _worker_failed("the dataset could not be fetched", error)
        request = {
            "dataset": str(dataset),
            "manifest": self._dataset.manifest,
            "algorithm": job.algorithm,
            "params": job.params,
            "preparation": job.preparation,
            "calibration": job.calibration,
            "class_weight": job.class_weight,
            "new_tasks": job.new_tasks,
            "ties": job.ties,
            "seed": job.seed,
            "plan": job.plan,
            "child_results": self._child_results,
            "base": None if base is None else str(base),
            "artifact": str(self._artifact),
            "content": str(self._content),
            "max_bytes": self._worker.settings.max_decompressed_bytes,
            "checkpoint": str(self._checkpoint),
            "checkpoint_interval_s": self._worker.settings.checkpoint_interval_s,
            "traceparent": current_traceparent(),
        }
        try:
            return self._worker.supervisor.run(
                request,
                heartbeat=self._heartbeats.report,
                timeout_s=job.timeout_s,
                memory_mb=job.memory_mb,
                threads=job.threads,
            )
        except OSError as error:
            return _worker_failed("the child process could not be run", error)

    def _retry(self, fetch: Callable[[], T]) -> T:
        """Return the result of ``fetch``, retried while the database is unavailable."""
        return retry_while_unavailable(
            lambda _: fetch(),
            self._worker.settings.db_retry_timeout_s,
            is_stopping=lambda: (
                self._heartbeats.command not in (AttemptCommand.CONTINUE, AttemptCommand.FINISH)
            ),
        )

    def _fetch(self) -> Path:
        """Fetch the dataset, and the checkpoint if there is one; return the dataset's file."""
        self._folder.mkdir(exist_ok=True)
        blobs, dataset = self._worker.blobs, self._dataset
        if self._job.checkpoint_blob_id is not None:
            blobs.copy(self._job.checkpoint_blob_id, self._checkpoint)
        assert dataset.content_blob_id is not None
        assert dataset.content_sha256 is not None
        return blobs.path(dataset.content_blob_id, dataset.content_sha256)

    def _fetch_base(self) -> Path | None:
        """Fetch the model that the job adapts or applies; return its file, None without one."""
        plan = self._job.plan
        if plan is None or plan["kind"] not in (ADAPT, INFER):
            return None
        with self._worker.database.read() as session:
            version = session.get(VersionRow, plan["version_id"])
        if version is None:
            raise LookupError("the model that the job needs has been deleted")
        return self._worker.blobs.path(version.artifact_blob_id, version.artifact_sha256)

    def _send_heartbeat(self, progress: dict[str, Any] | None) -> AttemptCommand | None:
        """Store a heartbeat; return the command, None if the attempt no longer owns the job."""
        job = self._job
        elapsed_s = time.monotonic() - self._started
        add_event = progress is not None and elapsed_s >= self._next_event_s
        with self._worker.database.write() as session:
            command = store.record_heartbeat(
                session,
                job.id,
                job.attempt,
                self._worker.name,
                progress,
                add_progress_event=add_event,
            )
            if elapsed_s >= self._next_count_s:
                self._next_count_s = elapsed_s + _COUNT_INTERVAL_S
                self._adjust_interval(queries.count_running(session))
        if add_event:
            self._next_event_s = elapsed_s * _EVENT_INTERVAL_GROWTH
        if command is not None:
            self._store_checkpoint()
        return command

    def _adjust_interval(self, n_running: int) -> None:
        settings = self._worker.settings
        self._heartbeats.interval_s = heartbeat_interval_s(
            n_running,
            shortest_s=settings.heartbeat_interval_s,
            timeout_s=settings.heartbeat_timeout_s,
        )

    def _store_checkpoint(self, *, is_last: bool = False) -> None:
        """Store the child's checkpoint if it is newer than the stored one and within the limit.

        This runs after the heartbeat: a checkpoint that is too large for the database must not
        stop the heartbeats.
        """
        with contextlib.suppress(FileNotFoundError):
            stat = self._checkpoint.stat()
            limit = self._worker.settings.max_checkpoint_bytes
            is_stored = stat.st_mtime_ns == self._checkpoint_mtime_ns
            if stat.st_size > limit or (is_stored and not is_last):
                return
            self._checkpoint_mtime_ns = stat.st_mtime_ns  # set before: a failed one is not retried
            try:
                with self._worker.database.write() as session:
                    if store.lock_attempt(session, self._job.id, self._job.attempt):
                        blob = self._worker.blobs.put_file(session, self._checkpoint)
                        store.set_checkpoint(session, self._job.id, blob.id)
            except UNAVAILABLE as error:
                job_id, cause = self._job.id, _cause(error)
                log.warning("attempt.checkpoint_not_stored", job_id=job_id, error=cause)

    def _settle_with_retries(self, outcome: Outcome) -> Outcome:
        """Store the outcome, retrying while the database is unavailable; return the stored one."""
        deadline = time.monotonic() + self._worker.settings.db_retry_timeout_s
        while True:
            try:
                return outcome if self._settle(outcome) else Outcome("fenced")
            except StoredBytesExceeded as error:
                outcome = Outcome("failed", "quota-exceeded", str(error))
            except UNAVAILABLE as error:
                cause = _cause(error)
                log.warning("attempt.outcome_not_stored", job_id=self._job.id, error=cause)
                outcome = self._revise(outcome, cause, is_late=time.monotonic() > deadline)
                if outcome.kind == "fenced":
                    return outcome
                time.sleep(_RETRY_INTERVAL_S)

    def _revise(self, outcome: Outcome, cause: str, *, is_late: bool) -> Outcome:
        """Return the outcome to store next, after one could not be stored."""
        if self._heartbeats.command is None:
            return Outcome("fenced")
        if outcome.kind not in ("succeeded", "scored"):
            if is_late:
                raise TimeoutError(f"the outcome of the attempt could not be stored: {cause}")
            return outcome
        if self._heartbeats.command == AttemptCommand.CANCEL:
            return Outcome("cancelled")
        if is_late:
            detail = f"the result could not be stored: {cause}"
            return Outcome("lost", "result-not-stored", detail)
        return outcome

    def _settle(self, outcome: Outcome) -> bool:
        """Store the outcome in one transaction; return False if another attempt owns the job."""
        job = self._job
        if outcome.kind in ("lost", "released", "postponed"):
            self._store_checkpoint(is_last=True)
        if outcome.kind == "succeeded":
            return self._publish(outcome)
        with self._worker.database.write() as session:
            match outcome.kind:
                case "scored":
                    return self._end(session, JobState.SUCCEEDED, result=outcome.result)
                case "lost" | "released" | "postponed":
                    return self._requeue(session, outcome)
                case "failed" | "timed_out":
                    error = {"code": outcome.code, "detail": outcome.detail, "attempt": job.attempt}
                    state = JobState(outcome.kind)
                    return self._end(session, state, error={**error, **outcome.place})
                case "cancelled":
                    return self._end(session, JobState.CANCELLED)
                case _:  # another attempt owns the row
                    return False

    def _publish(self, outcome: Outcome) -> bool:
        """Publish the model or the outputs; return False if another attempt owns the job."""
        blobs, owner = self._worker.blobs, self._job.owner
        with span("publication", job_id=self._job.id), self._worker.database.write() as session:
            if (self._job.plan or {}).get("kind") != INFER:
                # a model is kept, whose training may have taken hours: the next upload is refused
                return publish_model(session, blobs, self._job, self._dataset, outcome)
            lock_quotas(session, owner)
            outputs = Outputs(self._job, self._dataset, outcome, self._content)
            is_published = publish_outputs(session, blobs, outputs)
            if is_published:
                check_after_storing(session, owner, self._worker.settings.max_stored_bytes)
            return is_published

    def _end(self, session: Session, state: JobState, **values: Any) -> bool:
        values = {"error": None, **values}
        return store.move(
            session, self._job.id, self._job.attempt, JobState.RUNNING, state, **values
        )

    def _requeue(self, session: Session, outcome: Outcome) -> bool:
        row = store.get(session, self._job.id)
        if row is None or (row.attempt, row.state) != (self._job.attempt, JobState.RUNNING):
            return False
        if outcome.kind == "postponed":
            return store.postpone(session, row, outcome.code, outcome.detail)
        is_counted = outcome.kind == "lost"
        failure = store.AttemptFailure(outcome.code, outcome.detail, is_counted)
        return store.mark_lost(session, row, failure)


def _cause(error: Exception) -> str:
    """Return the message of the database driver, which has no values of parameters."""
    return str(getattr(error, "orig", error))


def _worker_failed(what: str, error: Exception) -> Outcome:
    """Return the outcome of an attempt that the worker could not carry out."""
    shortage = find_shortage(error)
    if shortage is not None:
        return postponed(shortage)
    return Outcome("lost", "worker-failed", without_paths(f"{what}: {error}"))
