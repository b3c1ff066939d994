"""Submission of queued jobs to the pool, and detection of lost attempts.

Only the dispatcher that holds the lease acts. Its state can always be rebuilt from
the database, so after a crash a new one continues where it stopped.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final, Protocol

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.jobs.queue import admission, child_store, queries, store
from service.jobs.queue.lease import LEASE_NAME, Lease
from service.jobs.queue.liveness import LivenessTracker
from service.jobs.queue.outcome import without_paths
from service.jobs.queue.pool import WorkerPool
from service.jobs.studies.plans import next_child_jobs
from service.observability.logs import log
from service.processes.lifetime import ProcessIdentity
from service.storage.database import Database
from service.storage.job_states import JobState
from service.storage.tables import JobRow

#: Longest time between two reads of the jobs table.
TICK_S: Final = 0.25
#: The process of a lost attempt may still run for this long after the pool reports its end;
#: without this delay, two processes of one job were alive together in 3 of 11 trials.
GRACE_S: Final = 1.5
_DRAIN_POLL_S: Final = 0.1
#: Number of workers that a warning names.
_MAX_NAMED: Final = 5

Key = tuple[str, int]


class ReportWorkers(Protocol):
    """Function that takes the numbers of unresponsive workers and of all workers."""

    def __call__(self, *, n_silent: int, n_workers: int) -> None:
        """Report the numbers."""


def _ignore_workers(*, n_silent: int, n_workers: int) -> None:
    """Report nothing."""


class Dispatcher:
    """A thread that submits queued jobs and requeues jobs whose attempt was lost.

    Parameters
    ----------
    open_engine
        Starts the pool or connects to it; called when the lease is first acquired.
    lease_timeout_s
        Another dispatcher takes over when the lease has not been renewed for this time.
    heartbeat_timeout_s
        A running attempt whose heartbeat has not changed for this time is lost.
    submit_timeout_s
        A submitted attempt that no worker has started within this time is submitted again.
    drain_timeout_s
        Time that running jobs have to end by themselves once the service is stopped.
    stop_timeout_s
        Further time that they have to store a checkpoint and stop.
    priority_across_owners
        Whether a job with a higher priority comes before the jobs of all other owners.
    report_workers
        Takes the numbers of unresponsive and of all workers, at each check for warnings.
    """

    def __init__(
        self,
        database: Database,
        *,
        open_engine: Callable[[], WorkerPool],
        lease_timeout_s: float,
        heartbeat_timeout_s: float,
        submit_timeout_s: float,
        drain_timeout_s: float,
        stop_timeout_s: float,
        priority_across_owners: bool = False,
        report_workers: ReportWorkers = _ignore_workers,
    ) -> None:
        self._database = database
        self._open_engine = open_engine
        self._engine: WorkerPool | None = None
        self._lease = Lease(database, LEASE_NAME, timeout_s=lease_timeout_s)
        self._heartbeat_timeout_s = heartbeat_timeout_s
        self._submit_timeout_s = submit_timeout_s
        self._drain_timeout_s = drain_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._priority_across_owners = priority_across_owners
        self._report_workers = report_workers
        self._futures: dict[Key, Any] = {}
        self._liveness: LivenessTracker[Key] = LivenessTracker()
        self._ended_at: dict[Key, float] = {}
        self._child_progress: dict[str, Any] = {}
        #: The database's change token when no job was unfinished; None if a job was.
        self._idle_token: int | None = None
        self._wake = threading.Event()
        self._is_stopping = False
        #: None until the lease has been tried.
        self._is_leader: bool | None = None
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Read the jobs table now: a job was created or has ended."""
        self._wake.set()

    def stop(self) -> None:
        """Stop submitting; let running jobs end, or requeue them uncounted; close the pool."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join()
        if self._is_leader:  # first, so that another replica can submit jobs at once
            self._lease.release()
        if self._engine is not None:
            if self._engine.is_own:  # in an external pool, jobs continue without this process
                self._drain()
            self._engine.close()

    def is_leader(self) -> bool:
        """Return whether this dispatcher holds the lease, as of its last renewal."""
        return bool(self._is_leader) and not self._is_stopping

    def error(self) -> str | None:
        """Return why no job runs, or None if jobs do or another dispatcher acts.

        The call sends a request to the scheduler, which may take a second.
        """
        if not self._thread.is_alive():
            return "the service is stopping"
        if self._is_leader is False:
            return None
        engine = self._engine  # once, as the thread may replace it
        if engine is None:
            return "the job engine is starting"
        try:
            silent, n_workers = engine.silent_workers()
        except OSError:
            return "the job engine is down: its scheduler does not respond"
        if silent and len(silent) == n_workers:
            return f"the job engine is down: each of its workers ({n_workers}) does not respond"
        return None

    def warning(self) -> str | None:
        """Return a warning if some workers do not respond, otherwise None."""
        silent, n_workers = self._silent_workers()
        self._report_workers(n_silent=len(silent), n_workers=n_workers)
        if not silent:
            return None
        named = ", ".join(sorted(silent)[:_MAX_NAMED])
        return (
            f"a worker does not respond; jobs run on the others: {named} "
            f"({len(silent)} of {n_workers})"
        )

    def _silent_workers(self) -> tuple[list[str], int]:
        engine = self._engine
        if engine is None:
            return [], 0
        try:
            return engine.silent_workers()
        except OSError:  # reported as an error
            return [], 0

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._tick()
            except SQLAlchemyError as error:  # the database is unavailable: retry
                log.warning("dispatcher.database_unavailable", error=type(error).__name__)
            except OSError as error:  # the scheduler is unavailable: retry
                log.warning("dispatcher.scheduler_unavailable", error=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - the thread must survive any failed tick
                log.error("dispatcher.error", exc_info=error)
            self._wake.wait(TICK_S)
            self._wake.clear()

    def _tick(self) -> None:
        self._is_leader = self._lease.acquire()
        if not self._is_leader:
            self._close_unused_pool()
            return
        if not self._has_work():
            self._ready_engine()
            return
        self._reconcile()
        self._update_parents()
        engine = self._ready_engine()  # last: the steps before need no pool
        if self._is_leader:
            self._submit(engine)

    def _has_work(self) -> bool:
        """Return whether a job has not ended, or state of an ended job is still kept."""
        if self._futures or self._ended_at or self._child_progress:
            return True
        token = self._database.change_token()  # before the query, which may see a later change
        if token is not None and token == self._idle_token:
            return False
        with self._database.read() as session:
            has_work = queries.has_unfinished(session)
        self._idle_token = None if has_work else token
        return has_work

    def _ready_engine(self) -> WorkerPool:
        """Return the pool; reopen it if its scheduler was away for longer than Dask waits."""
        if self._engine is not None and self._engine.is_closed():
            log.warning("engine.lost")
            self._engine.close()
            self._engine = None
        if self._engine is None:
            self._engine = self._open_and_renew()
            log.info("engine.started", slots=len(self._engine.free_slots()))
        return self._engine

    def _open_and_renew(self) -> WorkerPool:
        """Open the pool, and renew the lease meanwhile: it can take longer than a lease lasts."""
        with ThreadPoolExecutor(1, thread_name_prefix="engine") as executor:
            opening = executor.submit(self._open_engine)
            while wait([opening], timeout=TICK_S).not_done:
                with contextlib.suppress(SQLAlchemyError):  # the next tick reports it
                    self._is_leader = self._lease.acquire()
            return opening.result()

    def _close_unused_pool(self) -> None:
        """Close the pool of a dispatcher that has lost its lease, once no job runs in it."""
        engine = self._engine
        if engine is None or not engine.is_own:
            return
        if all(future.done() for future in self._futures.values()):
            self._engine = None
            engine.close()
            log.info("engine.closed")

    def _submit(self, engine: WorkerPool) -> None:
        with self._database.read() as session:
            if not queries.has_queued(session):
                return
        free = engine.free_slots()  # before the write: a scheduler that hangs must not lock rows
        if not free:
            return
        with self._database.write() as session:
            submitted = admission.admit(
                session, len(free), priority_across_owners=self._priority_across_owners
            )
        # after the commit: a worker must find the committed row
        for key, worker in zip(submitted, free, strict=False):
            self._futures[key] = engine.submit(*key, worker=worker, on_done=self.wake)
            log.info("job.submitted", job_id=key[0], attempt=key[1])

    def _reconcile(self) -> None:
        """Requeue or end the jobs whose attempts were lost."""
        with self._database.read() as session:
            jobs = queries.active(session)
        keys = {(job.id, job.attempt) for job in jobs}
        self._liveness.tick()
        self._liveness.retain(keys)
        # a finished future is dropped at once: the pool would compute a lost result again
        for table in (self._futures, self._ended_at):
            for key in table.keys() - keys:
                del table[key]
        for job in jobs:
            failure = self._find_failure(job)
            if failure is not None:
                self._mark_lost(job, failure)

    def _update_parents(self) -> None:
        """Update each waiting job whose child jobs have changed since the last tick."""
        with self._database.read() as session:
            progress = child_store.child_progress(session)
        for job_id, values in progress.items():
            if values != self._child_progress.get(job_id):
                with self._database.write() as session:
                    _update_parent(session, job_id)
        self._child_progress = progress

    def _find_failure(self, job: JobRow) -> store.AttemptFailure | None:
        key = (job.id, job.attempt)
        future = self._futures.get(key)
        if job.state == JobState.SUBMITTED:
            detail = self._never_started(job, future)
            return None if detail is None else store.AttemptFailure("never-started", detail)
        if self._has_died(job, future):
            if self._is_past_grace(key):
                failure = None if self._engine is None else self._engine.failure(future)
                detail = f"worker {_short(job.worker)} {without_paths(failure or 'died')}"
                return _lost(job, detail)
        elif self._liveness.silent_for(key, job.heartbeat) > self._heartbeat_timeout_s:
            silence = f"sent no heartbeat for {self._heartbeat_timeout_s:g} s"
            return _lost(job, f"worker {_short(job.worker)} {silence}")
        return None

    def _never_started(self, job: JobRow, future: Any) -> str | None:
        """Return why a submitted attempt will not start; None while it still may."""
        key = (job.id, job.attempt)
        if future is None:
            return "the dispatcher that submitted it has stopped"
        if future.done() and self._is_past_grace(key):
            return "the pool dropped it before it started"
        # the worker may be frozen; if it starts the attempt later, it finds the row changed
        if self._liveness.silent_for(key, job.heartbeat) > self._submit_timeout_s:
            return f"no worker started it within {self._submit_timeout_s:g} s"
        return None

    def _has_died(self, job: JobRow, future: Any) -> bool:
        # "cancelled" and "lost" mean only that the scheduler died: then the heartbeat decides. A
        # worker that shuts down normally leaves the pool before its attempt has been settled
        if (
            not job.is_release_requested
            and future is not None
            and future.status in ("error", "finished")
        ):
            return True
        return job.worker is not None and _identity(job.worker).is_certainly_dead()

    def _is_past_grace(self, key: Key) -> bool:
        since = self._ended_at.setdefault(key, time.monotonic())
        return time.monotonic() - since > GRACE_S

    def _mark_lost(self, job: JobRow, failure: store.AttemptFailure) -> None:
        with self._database.write() as session:
            # a worker cut off in the middle of a write keeps its row locked for a while; waiting
            # for that lock would delay every other job
            if store.try_lock(session, job.id) and store.mark_lost(session, job, failure):
                log.warning("job.lost", job_id=job.id, attempt=job.attempt, cause=failure.code)
        self._wake.set()

    def _drain(self) -> None:
        """Wait for running jobs to end, then let them store a checkpoint, then requeue them."""
        with contextlib.suppress(SQLAlchemyError):  # without a database, heartbeats time out later
            self._wait_for_own_jobs(self._drain_timeout_s)
            with self._database.write() as session:
                for job in self._own_jobs(session):
                    if job.worker is not None:
                        store.request_release(session, worker=job.worker)
            self._wait_for_own_jobs(self._stop_timeout_s)
            failure = store.AttemptFailure("requeued", "the service was stopped", is_counted=False)
            with self._database.write() as session:
                for job in self._own_jobs(session):
                    store.mark_lost(session, job, failure)

    def _wait_for_own_jobs(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self._database.read() as session:
                if not self._own_jobs(session):
                    return
            time.sleep(_DRAIN_POLL_S)

    def _own_jobs(self, session: Session) -> list[JobRow]:
        return [job for job in queries.active(session) if (job.id, job.attempt) in self._futures]


def _update_parent(session: Session, job_id: str) -> None:
    """Queue further child jobs of a waiting job, or update its state and progress."""
    job = child_store.lock_waiting(session, job_id)
    if job is None:
        return
    children = child_store.child_jobs_of(session, job_id)
    if child_store.all_succeeded(children) and not job.is_cancel_requested:
        more = next_child_jobs(job.plan or {}, child_store.child_results(session, job_id))
        if more:
            child_store.add_child_jobs(session, job, more)
            return
    child_store.update_parent(session, job, children)


def _lost(job: JobRow, detail: str) -> store.AttemptFailure:
    if job.is_release_requested:
        return store.AttemptFailure("requeued", detail, is_counted=False)
    return store.AttemptFailure("worker-lost", detail)


def _identity(worker: str) -> ProcessIdentity:
    return ProcessIdentity.from_text(worker)


def _short(worker: str | None) -> str:
    return "?" if worker is None else _identity(worker).name()
