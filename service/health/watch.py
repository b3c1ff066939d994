"""Looks again and again at what the service needs, so that nobody who asks has to wait."""

import threading
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from service.database import Database, now
from service.jobs.queue import queries
from service.jobs.queue.dispatcher import Dispatcher
from service.metrics import QueueState
from service.schema import SchemaMismatch, check_schema

_LOOK_EVERY_S: Final = 0.5
#: What takes longer to answer does not answer.
_PATIENCE_S: Final = 1.0

#: Why jobs do not go on, by the state of the dispatcher.
_STATES: Final = {
    "starting": "the job engine is starting",
    "down": "the job engine is down: its scheduler does not answer",
    "stopped": "the service is stopping",
}


class Watch:
    """Looks at the database, its schema and the job engine, each in a thread of its own."""

    def __init__(self, database: Database, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._looks = (
            _Look("the database", lambda: _trouble_of(database)),
            _Look("the job engine", lambda: _STATES.get(dispatcher.status())),
        )

    def start(self) -> None:
        """Begin to look."""
        for look in self._looks:
            look.start()

    def stop(self) -> None:
        """Look no more; a look that hangs is not waited for."""
        for look in self._looks:
            look.stop()

    def reasons(self) -> list[str]:
        """Give why the service cannot do its work; nothing where it can. Never waits."""
        found = [look.reason() for look in self._looks]
        return [reason for reason in found if reason is not None]


class _Look:
    """A thread that asks one thing how it is.

    Parameters
    ----------
    ask
        Gives what is wrong, None where nothing is; it may hang.
    """

    def __init__(self, name: str, ask: Callable[[], str | None]) -> None:
        self._name = name
        self._ask = ask
        self._found: str | None = f"{name} has not been looked at yet"
        self._asked_at: float | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()

    def reason(self) -> str | None:
        asked_at = self._asked_at
        if asked_at is not None and time.monotonic() - asked_at > _PATIENCE_S:
            return f"{self._name} has not answered for {time.monotonic() - asked_at:.0f} s"
        return self._found

    def _run(self) -> None:
        while not self._end.is_set():
            self._asked_at = time.monotonic()
            self._found = self._ask()
            self._asked_at = None
            self._end.wait(_LOOK_EVERY_S)


def queue_state(database: Database) -> QueueState | None:
    """Return the state of the job queue; None while the database does not answer."""
    try:
        with database.read() as session:
            n_jobs, oldest = queries.count_by_state(session), queries.oldest_queued(session)
    except SQLAlchemyError:
        return None
    age_s = 0.0 if oldest is None else max(0.0, (now() - oldest).total_seconds())
    return QueueState(n_jobs, age_s)


def _trouble_of(database: Database) -> str | None:
    try:
        check_schema(database)
    except SchemaMismatch as error:
        return str(error)
    except SQLAlchemyError as error:
        return f"the database does not answer ({type(error).__name__})"
    return None
