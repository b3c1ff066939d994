"""How the calls of each model went: counts, times, quantiles."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from service.inference.counts import Counts, Key, Row
from service.inference.lookup import Found
from service.metrics import Metrics

#: Latest calls that quantiles are taken of, in each process.
_LATEST: Final = 1024
#: Phases of a call, in order, as the protocol names them; and their places there.
PHASES: Final = ("queue", "compute_input", "compute_infer", "compute_output")
QUEUE, INPUT, INFER, OUTPUT = range(len(PHASES))
QUANTILES: Final = (0.5, 0.9, 0.99)


class Clock:
    """Times of one call, in nanoseconds; it arrives when this is made."""

    __slots__ = ("_last", "arrived", "phases")

    def __init__(self) -> None:
        self.arrived = self._last = time.perf_counter_ns()
        self.phases = [0] * len(PHASES)

    def end(self, phase: int) -> None:
        """Note that what was done since the end before was a part of a phase."""
        now = time.perf_counter_ns()
        self.phases[phase] += now - self._last
        self._last = now

    def total(self) -> int:
        """Give the time since the call arrived."""
        return time.perf_counter_ns() - self.arrived


@dataclass(frozen=True, slots=True)
class Record:
    """How the calls of one method of one version went."""

    n_calls: int
    n_rows: int
    n_failed: int
    total_ns: int
    failed_ns: int
    phases_ns: tuple[int, ...]
    last_ms: int
    latest_ns: Row

    def quantiles_ns(self) -> dict[str, int]:
        """Give quantiles of the time of the latest calls."""
        if not self.latest_ns.size:
            return {}
        values = np.quantile(self.latest_ns, QUANTILES)
        names = (f"p{100 * q:g}" for q in QUANTILES)
        return {name: int(value) for name, value in zip(names, values, strict=True)}


#: A row: calls, rows, failures, time of both, time of the phases; the last call; latest times.
_SUMS: Final = slice(0, 5 + len(PHASES))
_LAST: Final = _SUMS.stop
_TIMES: Final = slice(_LAST + 1, _LAST + 1 + _LATEST)


class _Answered(NamedTuple):
    """A call that was answered, and the time it took in all."""

    key: Key
    clock: Clock
    total_ns: int
    n_rows: int


class Statistics:
    """Records of calls since the service started.

    Parameters
    ----------
    metrics
        Counts apart from the records, of which some are forgotten: a counter never goes back.
    folder
        Where processes that serve together count; None: there is one.
    """

    def __init__(self, metrics: Metrics, folder: Path | None) -> None:
        self._metrics = metrics
        self._counts = Counts(_TIMES.stop, folder)
        self._lock = threading.Lock()
        self._answered = metrics.tally(self._count)

    def succeeded(self, owner: str, found: Found, clock: Clock, n_rows: int) -> None:
        """Count a call that was answered."""
        self._answered.add(_Answered(_key(owner, found), clock, clock.total(), n_rows))

    def failed(self, owner: str, found: Found, clock: Clock) -> None:
        """Count a call that was refused."""
        self._metrics.refused(found.method)
        with self._lock:
            row = self._counts.own(_key(owner, found))
            row[_SUMS] += (0, 0, 1, 0, clock.total(), *[0] * len(PHASES))

    def of(self, keys: Sequence[Key]) -> list[Record]:
        """Give the record of each key; an empty one where it was not called."""
        self._answered.settle()
        with self._lock:
            counts = self._counts.all()
            return [_record(counts.get(key, [])) for key in keys]

    def _count(self, answered: Sequence[_Answered]) -> None:
        since_ns = time.time_ns() - time.perf_counter_ns()
        by_key: dict[Key, list[_Answered]] = {}
        for call in answered:
            by_key.setdefault(call.key, []).append(call)
        for key, calls in by_key.items():
            self._metrics.called(key[-1], len(calls), sum(call.n_rows for call in calls))
            sums = np.array([(1, c.n_rows, 0, c.total_ns, 0, *c.clock.phases) for c in calls])
            with self._lock:
                row = self._counts.own(key)
                for i, call in enumerate(calls, int(row[0])):
                    row[_TIMES.start + i % _LATEST] = call.total_ns
                row[_SUMS] += sums.sum(axis=0)
                row[_LAST] = (since_ns + calls[-1].clock.arrived + calls[-1].total_ns) // 1_000_000


def _key(owner: str, found: Found) -> Key:
    return owner, found.served.name, found.served.version, found.method


def _record(rows: Sequence[Row]) -> Record:
    """Give the record of what several processes have counted."""
    sums = np.sum([row[_SUMS] for row in rows], axis=0).tolist() if rows else [0] * _LAST
    n_calls, n_rows, n_failed, total_ns, failed_ns, *phases_ns = sums
    last_ms = max((int(row[_LAST]) for row in rows), default=0)
    latest = [row[_TIMES][: row[0]] for row in rows]
    latest_ns = np.concatenate(latest) if latest else np.zeros(0, np.int64)
    return Record(
        n_calls, n_rows, n_failed, total_ns, failed_ns, tuple(phases_ns), last_ms, latest_ns
    )
