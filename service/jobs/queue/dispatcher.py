"""Admits queued jobs to the pool and takes back those whose attempt was lost.

One dispatcher acts at a time, the holder of the lease. It keeps nothing that it could not read
from the rows again: after a kill of everything, a fresh one goes on from them.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.database import Database
from service.jobs.queue import child_store, store
from service.jobs.queue.lease import Lease
from service.jobs.queue.liveness import Silence
from service.jobs.queue.pool import WorkerPool
from service.jobs.queue.states import JobState
from service.jobs.studies.plans import next_parts
from service.logs import log
from service.processes import ProcessIdentity
from service.rows import JobRow

#: Longest time between two looks at the rows.
TICK_S: Final = 0.25
#: The process of a lost attempt may outlive the news of its loss by so long; without this wait,
#: two processes of one job were alive together in 3 of 11 trials.
GRACE_S: Final = 1.5
_DRAIN_POLL_S: Final = 0.1

Key = tuple[str, int]


class Dispatcher:
    """The thread that admits and reconciles.

    Parameters
    ----------
    open_engine
        Starts or connects the pool; called when the lease is first held.
    stale_s
        A running attempt whose heartbeat has not moved for so long is lost.
    drain_s
        Time that running jobs have to end by themselves once the service is stopped.
    stop_s
        Time that they have afterwards to keep a checkpoint and stop.
    """

    def __init__(
        self,
        database: Database,
        *,
        open_engine: Callable[[], WorkerPool],
        lease_s: float,
        stale_s: float,
        drain_s: float,
        stop_s: float,
    ) -> None:
        self._database = database
        self._open_engine = open_engine
        self._engine: WorkerPool | None = None
        self._lease = Lease(database, "dispatcher", lease_s=lease_s)
        self._stale_s = stale_s
        self._drain_s = drain_s
        self._stop_s = stop_s
        self._futures: dict[Key, Any] = {}
        self._silence: Silence[Key] = Silence()
        self._gone_since: dict[Key, float] = {}
        self._news: dict[str, Any] = {}
        self._wake = threading.Event()
        self._is_stopping = False
        #: None: not known yet.
        self._leads: bool | None = None
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Begin to dispatch, in a thread."""
        self._thread.start()

    def wake(self) -> None:
        """Look at the rows now: a job was created or has ended."""
        self._wake.set()

    def stop(self) -> None:
        """Stop admitting, let running jobs end or give them back uncharged, close the pool."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join()
        if self._leads:  # at once: another replica need not wait for our jobs
            self._lease.release()
        if self._engine is not None:
            if self._engine.is_own:  # in another's pool they go on without us
                self._drain()
            self._engine.close()

    def status(self) -> str:
        """Return where it stands: ``leading``, ``standby``, ``starting``, ``down`` or ``stopped``.

        It asks the scheduler, which may take a second.
        """
        if not self._thread.is_alive():
            return "stopped"
        if self._leads is False:
            return "standby"
        if self._engine is None:
            return "starting"
        return "leading" if self._engine.is_healthy() else "down"

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._tick()
            except SQLAlchemyError as error:  # the database is away: nothing is lost by waiting
                log.warning("dispatcher.database", error=type(error).__name__)
            except OSError as error:  # the scheduler is: it is asked again
                log.warning("dispatcher.engine", error=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - the service must outlive any one tick
                log.error("dispatcher.defect", exc_info=error)
            self._wake.wait(TICK_S)
            self._wake.clear()

    def _tick(self) -> None:
        self._leads = self._lease.hold()
        if not self._leads:
            return
        self._reconcile()
        self._collect()
        self._admit(self._ready_engine())  # last: without a pool the rows are looked after

    def _ready_engine(self) -> WorkerPool:
        """Return the pool, opened anew where its scheduler was away for longer than Dask waits."""
        if self._engine is not None and self._engine.is_closed():
            log.warning("engine.lost")
            self._engine.close()
            self._engine = None
        if self._engine is None:
            self._engine = self._open_engine()
            log.info("engine.started", slots=self._engine.slots())
        return self._engine

    def _admit(self, engine: WorkerPool) -> None:
        with self._database.read() as session:
            if not store.has_queued(session):
                return
        n_slots = engine.slots()  # not below: a scheduler that hangs must not lock the database
        with self._database.write() as session:
            n_free = n_slots - len(store.active(session))
            jobs = store.next_queued(session, n_free) if n_free > 0 else []
            admitted = [job for job in jobs if store.submit(session, job)]
        for job in admitted:  # only now: a worker must find the row as it was committed
            key = (job.id, job.attempt + 1)
            self._futures[key] = engine.submit(*key, on_done=self.wake)
            log.info("job.submitted", job_id=job.id, attempt=key[1])

    def _reconcile(self) -> None:
        with self._database.read() as session:
            jobs = store.active(session)
        keys = {(job.id, job.attempt) for job in jobs}
        self._silence.look()
        self._silence.forget_all_but(keys)
        # a finished future is dropped at once: the pool would compute a lost result again
        for table in (self._futures, self._gone_since):
            for key in table.keys() - keys:
                del table[key]
        for job in jobs:
            lost = self._find_lost(job)
            if lost is not None:
                self._take_back(job, lost)

    def _collect(self) -> None:
        """Have jobs whose parts are done go on; of those whose parts have not moved, nothing."""
        with self._database.read() as session:
            news = child_store.news_of_parts(session)
        for job_id in [j for j in news if news[j] != self._news.get(j)]:
            with self._database.write() as session:
                _collect(session, job_id)
        self._news = news

    def _find_lost(self, job: JobRow) -> store.Lost | None:
        key = (job.id, job.attempt)
        future = self._futures.get(key)
        if job.state == JobState.SUBMITTED:
            if future is None:
                return store.Lost("not_begun", "submitted by a dispatcher that is gone")
            if future.done() and self._is_settled(key):
                return store.Lost("not_begun", "the pool dropped it before it began")
            return None
        if self._has_died(job, future):
            if self._is_settled(key):
                failure = None if self._engine is None else self._engine.failure(future)
                return _lost(job, f"worker {_short(job.worker)} has {failure or 'died'}")
        elif self._silence.of(key, job.heartbeat) > self._stale_s:
            silence = f"gave no sign of life for {self._stale_s:g} s"
            return _lost(job, f"worker {_short(job.worker)} {silence}")
        return None

    def _has_died(self, job: JobRow, future: Any) -> bool:
        # "cancelled" or "lost" only tells that the scheduler died: the heartbeat decides then;
        # and a worker that ends in order leaves the pool before its attempt is settled
        if (
            not job.is_release_requested
            and future is not None
            and future.status in ("error", "finished")
        ):
            return True
        return job.worker is not None and _identity(job.worker).is_certainly_dead()

    def _is_settled(self, key: Key) -> bool:
        since = self._gone_since.setdefault(key, time.monotonic())
        return time.monotonic() - since > GRACE_S

    def _take_back(self, job: JobRow, lost: store.Lost) -> None:
        with self._database.write() as session:
            # a worker cut off in the middle of a write keeps its row for a while: not to be
            # waited for, as every other job would wait with it
            if store.is_free(session, job.id) and store.lose(session, job, lost):
                log.warning("job.lost", job_id=job.id, attempt=job.attempt, cause=lost.code)
        self._wake.set()

    def _drain(self) -> None:
        """Return our running jobs time to end, then time to keep a checkpoint and stop."""
        with contextlib.suppress(SQLAlchemyError):  # without a database the heartbeats tell later
            self._await_ours(self._drain_s)
            with self._database.write() as session:
                for job in self._ours(session):
                    if job.worker is not None:
                        store.request_release(session, worker=job.worker)
            self._await_ours(self._stop_s)
            released = store.Lost("released", "the service was stopped", is_charged=False)
            with self._database.write() as session:
                for job in self._ours(session):
                    store.lose(session, job, released)

    def _await_ours(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self._database.read() as session:
                if not self._ours(session):
                    return
            time.sleep(_DRAIN_POLL_S)

    def _ours(self, session: Session) -> list[JobRow]:
        return [job for job in store.active(session) if (job.id, job.attempt) in self._futures]


def _collect(session: Session, job_id: str) -> None:
    """Have a job go on whose parts are done: with parts that follow from them, or by itself."""
    job = child_store.hold_waiting(session, job_id)
    if job is None:
        return
    parts = child_store.parts_of(session, job_id)
    if child_store.have_succeeded(parts) and not job.is_cancel_requested:
        more = next_parts(job.plan or {}, child_store.results_of_parts(session, job_id))
        if more:
            child_store.add_parts(session, job, more)
            return
    child_store.collect(session, job, parts)


def _lost(job: JobRow, detail: str) -> store.Lost:
    if job.is_release_requested:
        return store.Lost("released", detail, is_charged=False)
    return store.Lost("worker_lost", detail)


def _identity(worker: str) -> ProcessIdentity:
    return ProcessIdentity.from_text(worker)


def _short(worker: str | None) -> str:
    return "?" if worker is None else _identity(worker).name()
