"""Beats for an attempt in a thread of its own, so that nothing it waits for can silence it."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from sqlalchemy.exc import SQLAlchemyError

from service.jobs.queue.states import Wish
from service.logs import log

#: How long an ended attempt waits for a beat that hangs; a late one is fenced out by the row.
_LAST_BEAT_S: Final = 5


class Heart:
    """Says all the while that an attempt lives: while it fetches, trains, and stores its result.

    A beat waits for the database, which may hang; whoever watches the training must not.

    Parameters
    ----------
    beat
        Writes a sign of life with the progress, if there is news; gives what is wanted of the
        attempt, None where it has lost its right to the row.
    every_s
        Time between two beats.
    """

    def __init__(
        self, beat: Callable[[dict[str, Any] | None], Wish | None], *, every_s: float
    ) -> None:
        self._beat = beat
        self._every_s = every_s
        self._progress: dict[str, Any] | None = None
        #: What was wanted at the last beat.
        self.wish: Wish | None = Wish.GO_ON
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._has_ended.set()
        self._thread.join(_LAST_BEAT_S)

    def pulse(self, progress: dict[str, Any] | None) -> Wish | None:
        """Have the next beat carry the progress; give what was wanted at the last one."""
        if progress is not None:
            self._progress = progress
        return self.wish

    def _run(self) -> None:
        while self.wish is not None and not self._has_ended.wait(self._every_s):
            progress, self._progress = self._progress, None
            try:
                self.wish = self._beat(progress)
            except SQLAlchemyError as error:  # the database is away: the fence decides later
                log.warning("attempt.silent", error=type(error).__name__)
            except Exception as error:  # noqa: BLE001 - without a heart the attempt would be lost
                log.error("attempt.defect", exc_info=error)
