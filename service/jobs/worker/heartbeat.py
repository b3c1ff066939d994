"""Heartbeats in a thread of their own, so that blocking work cannot interrupt them."""

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from service.observability.logs import log
from service.storage.background import BackgroundThread
from service.storage.job_states import AttemptCommand

#: Heartbeats per second of all running attempts together; each is a commit.
MAX_HEARTBEATS_PER_S: Final = 50
#: Heartbeats within the time after which an attempt without them is lost.
_MIN_PER_TIMEOUT: Final = 6


def heartbeat_interval_s(n_running: int, *, shortest_s: float, timeout_s: float) -> float:
    """Return the time between two heartbeats of an attempt, which grows with their number.

    Parameters
    ----------
    n_running
        Number of running attempts of all workers.
    shortest_s
        Time between two heartbeats if there are few attempts.
    timeout_s
        Time after which an attempt without heartbeats is lost.
    """
    grown_s = min(n_running / MAX_HEARTBEATS_PER_S, timeout_s / _MIN_PER_TIMEOUT)
    return max(shortest_s, grown_s)


class HeartbeatThread(BackgroundThread):
    """A thread that sends heartbeats while an attempt fetches data, trains and stores its result.

    A heartbeat waits for the database, which may hang; the supervisor must never wait for it. One
    that comes after the end changes no row.

    Parameters
    ----------
    send
        Stores a heartbeat with the latest progress, if any; returns the command for the attempt,
        or None if another attempt owns the job.
    interval_s
        Time until the first heartbeat, and between the following ones.
    """

    def __init__(
        self, send: Callable[[dict[str, Any] | None], AttemptCommand | None], *, interval_s: float
    ) -> None:
        super().__init__("heartbeat")
        self._send = send
        #: Time until the next heartbeat; ``send`` may change it.
        self.interval_s = interval_s
        self._progress: dict[str, Any] | None = None
        #: The command returned by the last heartbeat.
        self.command: AttemptCommand | None = AttemptCommand.CONTINUE

    def report(self, progress: dict[str, Any] | None) -> AttemptCommand | None:
        """Send the progress with the next heartbeat; return the command of the last one."""
        if progress is not None:
            self._progress = progress
        return self.command

    def _run(self) -> None:
        while self.command is not None and not self._end.wait(self.interval_s):
            progress, self._progress = self._progress, None
            try:
                self.command = self._send(progress)
            except SQLAlchemyError as error:  # the database is unavailable: try again later
                log.warning("attempt.heartbeat_failed", error=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - without heartbeats the attempt is lost
                log.error("attempt.heartbeat_error", exc_info=error)
