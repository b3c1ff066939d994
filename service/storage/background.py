"""Threads that work in the background, with the database, from ``with`` to its end."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final, Self

from service.observability.logs import log
from service.storage.database import UNAVAILABLE

_STOP_TIMEOUT_S: Final = 5


class BackgroundThread(ABC):
    """A thread that ends after its present step, unless that takes longer than some seconds.

    Parameters
    ----------
    is_leader
        Returns whether this process acts: of several, the one with the dispatcher's lease does.
    """

    def __init__(self, name: str, *, is_leader: Callable[[], bool] = lambda: True) -> None:
        self._is_leader = is_leader
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(_STOP_TIMEOUT_S)

    @abstractmethod
    def _run(self) -> None:
        """Work until ``_end`` is set."""

    def _turns(self, tick_s: float, *, max_load: float = 1) -> Iterator[None]:
        """Yield at each tick in which this process acts, until the end.

        Parameters
        ----------
        max_load
            Share of the time of a core that turns may take; a longer pause follows a long one.
        """
        pause_s = tick_s
        while not self._end.wait(pause_s):
            started_s = time.thread_time()
            if self._is_leader():
                yield
            pause_s = max(tick_s, (time.thread_time() - started_s) / max_load)

    def _run_step(
        self,
        event: str,
        step: Callable[[], None],
        *,
        unavailable: str = "database_unavailable",
        **fields: str,
    ) -> bool:
        """Run a step and log what it raises; return False after an unexpected error.

        Parameters
        ----------
        event
            First part of the names of log events.
        unavailable
            Last part of the name of the event of an unavailable database.
        fields
            Further fields of the events.
        """
        try:
            step()
        except UNAVAILABLE as error:  # a later step tries again
            log.warning(f"{event}.{unavailable}", **fields, error=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - the thread must survive any failed step
            log.error(f"{event}.error", **fields, exc_info=error)
            return False
        return True
