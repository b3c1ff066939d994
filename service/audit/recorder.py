"""Storage of audit events in the background."""

import asyncio
import queue
import threading
from concurrent.futures import Future
from typing import Final

from service.audit import store
from service.audit.events import AuditEvent, RefusalLimit
from service.observability.logs import log
from service.observability.metrics import Metrics
from service.storage.database import Database

#: How long a response waits for its audit event to be stored.
_MAX_WAIT_S: Final = 0.5
#: Maximum number of events that wait for the database.
_MAX_PENDING: Final = 1000
#: How long the end of the service waits for the events that are left.
_CLOSE_TIMEOUT_S: Final = 5.0

_Pending = tuple[AuditEvent, Future[None]]


class AuditRecorder:
    """Recorder that logs each event and stores it in a thread, one transaction per event.

    An event that cannot be stored here does not change the response: the request has had its effect
    already. It is logged as an error with all its fields, and counted.
    """

    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics
        self._limit = RefusalLimit()
        self._is_closed = False
        self._queue: queue.Queue[_Pending | None] = queue.Queue(_MAX_PENDING)
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    async def record(self, *events: AuditEvent) -> None:
        """Log events and store them; return after a short time even if they are not stored yet."""
        pending = {asyncio.wrap_future(stored) for stored in map(self._put, events) if stored}
        if pending:
            await asyncio.wait(pending, timeout=_MAX_WAIT_S)

    def note_stored(self, event: AuditEvent) -> None:
        """Log an event that was stored in the transaction of its change."""
        log.info("audit", **event.log_fields())
        self._metrics.count_audit_event("stored")

    def _put(self, event: AuditEvent) -> Future[None] | None:
        """Log an event and queue it; return a future that resolves once it is stored, or None."""
        log.info("audit", **event.log_fields())
        if not self._limit.admits(event):
            self._metrics.count_audit_event("limited")
            return None
        if self._is_closed:  # waiting would keep the response from being sent before the end
            self._report_failure(event, "the service is stopping")
            return None
        stored: Future[None] = Future()
        try:
            self._queue.put_nowait((event, stored))
        except queue.Full:
            self._report_failure(event, f"{_MAX_PENDING} events already wait for the database")
            return None
        return stored

    def close(self) -> None:
        """Store the events that are left, if that takes little time; later ones are only logged."""
        self._is_closed = True
        try:
            self._queue.put(None, timeout=_CLOSE_TIMEOUT_S)
        except queue.Full:
            return
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while (pending := self._queue.get()) is not None:
            event, stored = pending
            try:
                with self._database.write() as session:
                    store.add(session, event)
            except Exception as error:  # noqa: BLE001 - no error may end the thread
                # without SQL, which repeats the event
                cause = getattr(error, "orig", error)
                self._report_failure(event, f"{type(error).__name__}: {cause}")
            else:
                self._metrics.count_audit_event("stored")
            finally:
                stored.set_result(None)

    def _report_failure(self, event: AuditEvent, error: str) -> None:
        log.error("audit.failed", **event.log_fields(), error=error)
        self._metrics.count_audit_event("failed")
