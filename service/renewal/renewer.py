"""The thread that looks at alarms and renews aliases, in the process that dispatches jobs."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from service.errors.problems import Problem
from service.monitoring import alarms
from service.observability.logs import log
from service.renewal import clearing, decision, store, training
from service.renewal.context import RenewalServices
from service.renewal.store import Late, Listed, Renewing
from service.renewal.trial import predict_some
from service.storage.background import BackgroundThread
from service.storage.database import UNAVAILABLE, now

_TICK_S: Final = 1.0
#: Share of the time of a core that the thread may take from calls.
_MAX_LOAD: Final = 0.05
#: Time between two looks at what changes slowly: rules, and days of trials.
_LOOK_S: Final = 10.0
_SLOW: Final = ("waiting", "trial")
#: Time after an unexpected error in which a renewal, or the look at a monitor, is left alone; after
#: each further one in a row twice as long, up to a day.
_PAUSE: Final = timedelta(minutes=5)
_MAX_DOUBLINGS: Final = 8
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Renewer(BackgroundThread):
    """A thread that looks at monitors once a day, and takes the next step of each renewal.

    Every step is a transaction that begins with the stored state, so that another process can take
    the next one, and one that is killed is taken again.

    Parameters
    ----------
    is_leader
        Returns whether this process holds the dispatcher's lease. Of two processes that act at the
        same time, as after a pause of one of them, one finds that it comes late.
    wake
        Tells the dispatcher that there may be a new job.
    """

    def __init__(
        self,
        services: RenewalServices,
        *,
        is_leader: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        super().__init__("renewals", is_leader=is_leader)
        self._services = services
        self._wake = wake
        self._looked_s: dict[str, float] = {}
        #: Unexpected errors in a row, by kind and monitor, and ends of the pauses of looks.
        self._n_errors: dict[tuple[str, str], int] = {}
        self._paused_s: dict[str, float] = {}
        #: Rows up to these times are predicted by the challenger, by monitor; as of a step.
        self._predicted: dict[str, tuple[int, datetime]] = {}

    def _run(self) -> None:
        for _ in self._turns(_TICK_S, max_load=_MAX_LOAD):
            self._run_step("renewal", self._turn)

    def _turn(self) -> None:
        with self._services.database.read() as session:
            due = alarms.due_monitors(session)
            found = store.list_renewals(session)
        now_s = time.monotonic()
        looks = [seen for seen in due if now_s >= self._paused_s.get(seen.monitor.id, 0)]
        for watched in looks[:1]:  # a report takes long, and renewals wait for it
            look = partial(alarms.look, self._services.monitoring, watched)
            self._try_to("alarm", watched.monitor.id, look)
        for listed in found:
            self._try_to("renewal", listed.monitor_id, partial(self._step, listed))

    def _try_to(self, kind: str, monitor_id: str, step: Callable[[], None]) -> None:
        if self._end.is_set() or not self._is_leader():
            return
        if self._run_step(kind, step, monitor_id=monitor_id):
            self._n_errors.pop((kind, monitor_id), None)
        else:
            self._postpone(kind, monitor_id)

    def _postpone(self, kind: str, monitor_id: str) -> None:
        n_before = self._n_errors.get((kind, monitor_id), 0)
        self._n_errors[kind, monitor_id] = n_before + 1
        pause = _PAUSE * 2 ** min(n_before, _MAX_DOUBLINGS)
        if kind == "alarm":
            self._paused_s[monitor_id] = time.monotonic() + pause.total_seconds()
            return
        with suppress(*UNAVAILABLE), self._services.database.write() as session:
            store.retry_at(session, monitor_id, now() + pause)

    def _step(self, listed: Listed) -> None:
        services = self._services
        if not listed.has_monitor:
            clearing.abandon(services, listed)
        elif listed.state == "clearing":
            clearing.clear(services, listed)
        elif listed.state not in _SLOW or self._is_due(listed.monitor_id):
            with services.database.read() as session:
                seen = store.find(session, listed.monitor_id)
            if seen is not None:
                try:
                    self._advance(seen)
                except Late:
                    log.info("renewal.late", monitor_id=listed.monitor_id)
        if listed.retry_at is not None:
            with services.database.write() as session:
                store.retry_at(session, listed.monitor_id, None)

    def _advance(self, seen: Renewing) -> None:
        services = self._services
        match seen.row.state:
            case "waiting":
                training.look(services, seen)
            case "copying":
                training.copy(services, seen)
            case "combining":
                training.combine(services, seen)
                self._wake()
            case "training":
                decision.follow(services, seen)
            case "trial":
                self._try(seen)

    def _try(self, seen: Renewing) -> None:
        monitor_id, step = seen.row.monitor_id, seen.row.step
        as_of, after = self._predicted.get(monitor_id, (step, _BEGINNING))
        has_more = False
        with suppress(Problem):  # a version was deleted, which ends the trial
            until, has_more = predict_some(
                self._services.monitoring, seen, after if as_of == step else _BEGINNING
            )
            self._predicted[monitor_id] = step, until
        if has_more:
            del self._looked_s[monitor_id]
        else:
            decision.weigh(self._services, seen)

    def _is_due(self, monitor_id: str) -> bool:
        """Return whether to look again at what changes slowly."""
        now_s = time.monotonic()
        if now_s - self._looked_s.get(monitor_id, -_LOOK_S) < _LOOK_S:
            return False
        self._looked_s[monitor_id] = now_s
        return True
