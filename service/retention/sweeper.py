"""The thread that deletes expired rows and blobs, in the process that dispatches jobs."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from service.observability.logs import log
from service.retention import store
from service.settings import Settings
from service.storage.background import BackgroundThread
from service.storage.database import Database, now

#: Pause between two transactions, in which other writers get their turn.
_PAUSE_S: Final = 0.02
#: Time between two looks at whether a sweep is due.
_TICK_S: Final = 1.0

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


class Sweeper(BackgroundThread):
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
        super().__init__("retention", is_leader=is_leader)
        self._database = database
        self._interval_s = settings.retention_interval_s
        days = {
            kind: getattr(settings, f"retention_{kind}_days")
            for kind in _KINDS
            if kind != _MONITORED
        }
        self._max_age = {kind: timedelta(days=n) for kind, n in days.items() if n > 0}
        self._max_age[_MONITORED] = timedelta(0)  # monitors have days of their own
        self._count = count

    def _run(self) -> None:
        due_s = time.monotonic()
        for _ in self._turns(_TICK_S):
            if time.monotonic() >= due_s:
                self._sweep()
                due_s = time.monotonic() + self._interval_s

    def _sweep(self) -> None:
        for kind, max_age in self._max_age.items():
            delete = partial(self._delete, kind, now() - max_age)
            self._run_step("retention", delete, unavailable="failed", kind=kind)

    def _delete(self, kind: str, before: datetime) -> None:
        n_deleted = 0
        try:
            for n in _KINDS[kind](self._database, before):
                n_deleted += n
                self._count(kind, n)
                if self._end.wait(_PAUSE_S) or not self._is_leader():
                    break
        finally:
            if n_deleted:
                log.info("retention.deleted", kind=kind, n_deleted=n_deleted)
