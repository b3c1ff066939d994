"""The thread that deletes expired rows and blobs, in the process that dispatches jobs."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from service.observability.logs import log
from service.retention import store
from service.settings import Settings
from service.storage.database import Database, now

#: Pause between two transactions, in which other writers get their turn.
_PAUSE_S: Final = 0.02
#: Time between two looks at whether a sweep is due.
_TICK_S: Final = 1.0
_STOP_TIMEOUT_S: Final = 5

Expire = Callable[[Database, datetime], Iterator[int]]
_MONITORED: Final = "monitored"
#: Kinds in the order of their deletion: rows before the blobs that only they reference.
_KINDS: Final[Mapping[str, Expire]] = {
    "events": store.expire_events,
    "attempts": store.expire_attempts,
    "jobs": store.expire_jobs,
    "idempotency_keys": store.expire_idempotency_keys,
    "audit": store.expire_audit_events,
    "webhook_deliveries": store.expire_deliveries,
    "uploads": store.expire_uploads,
    _MONITORED: store.expire_monitored,
    "blobs": store.expire_blobs,
}


class Sweeper:
    """A thread that regularly deletes expired rows and unreferenced blobs.

    Parameters
    ----------
    is_leader
        Returns whether this process holds the dispatcher's lease. Two processes that sweep at
        the same time, as after a pause of one of them, do no harm.
    count
        Counts deletions: the kind, and their number.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        is_leader: Callable[[], bool],
        count: Callable[[str, int], None],
    ) -> None:
        self._database = database
        self._interval_s = settings.retention_interval_s
        days = {
            kind: getattr(settings, f"retention_{kind}_days")
            for kind in _KINDS
            if kind != _MONITORED
        }
        self._max_age = {kind: timedelta(days=n) for kind, n in days.items() if n > 0}
        self._max_age[_MONITORED] = timedelta(0)  # monitors have days of their own
        self._is_leader = is_leader
        self._count = count
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the present transaction, unless the database hangs."""
        self._end.set()
        self._thread.join(_STOP_TIMEOUT_S)

    def _run(self) -> None:
        due_s = time.monotonic()
        while not self._end.wait(_TICK_S):
            if time.monotonic() >= due_s and self._is_leader():
                self._sweep()
                due_s = time.monotonic() + self._interval_s

    def _sweep(self) -> None:
        for kind, max_age in self._max_age.items():
            n_deleted = 0
            try:
                for n in _KINDS[kind](self._database, now() - max_age):
                    n_deleted += n
                    self._count(kind, n)
                    if self._end.wait(_PAUSE_S) or not self._is_leader():
                        break
            except SQLAlchemyError as error:  # the database is unavailable: the next sweep retries
                log.warning("retention.failed", kind=kind, error=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - the thread must survive any failed sweep
                log.error("retention.error", kind=kind, exc_info=error)
            if n_deleted:
                log.info("retention.deleted", kind=kind, n_deleted=n_deleted)
