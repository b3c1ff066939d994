"""How the calls of each model went: counts, times, quantiles."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from service.inference.lookup import Found
from service.metrics import Metrics

#: Latest calls that quantiles are taken of.
_LATEST: Final = 1024
#: Methods of versions that are remembered; the longest unused leaves first.
_MOST: Final = 4096
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


@dataclass(slots=True)
class Record:
    """How the calls of one method of one version went."""

    n_calls: int = 0
    n_rows: int = 0
    n_failed: int = 0
    total_ns: int = 0
    failed_ns: int = 0
    phases_ns: list[int] = field(default_factory=lambda: [0] * len(PHASES))
    last_ms: int = 0
    latest_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_LATEST))

    def quantiles_ns(self) -> dict[str, int]:
        """Give quantiles of the time of the latest calls."""
        if not self.latest_ns:
            return {}
        values = np.quantile(np.array(self.latest_ns), QUANTILES)
        names = (f"p{100 * q:g}" for q in QUANTILES)
        return {name: int(value) for name, value in zip(names, values, strict=True)}


class _Answered(NamedTuple):
    """A call that was answered, and the time it took in all."""

    owner: str
    found: Found
    clock: Clock
    total_ns: int
    n_rows: int


#: Owner, model, version, method.
Key = tuple[str, str, int, str]


class Statistics:
    """Records of calls since this process started.

    Parameters
    ----------
    metrics
        Counts apart from the records, of which some are forgotten: a counter never goes back.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._records: OrderedDict[Key, Record] = OrderedDict()
        self._lock = threading.Lock()
        self._answered = metrics.tally(self._count)

    def succeeded(self, owner: str, found: Found, clock: Clock, n_rows: int) -> None:
        """Count a call that was answered."""
        self._answered.add(_Answered(owner, found, clock, clock.total(), n_rows))

    def _count(self, answered: Sequence[_Answered]) -> None:
        for method in {call.found.method for call in answered}:
            n_rows = [call.n_rows for call in answered if call.found.method == method]
            self._metrics.called(method, len(n_rows), sum(n_rows))
        since_ns = time.time_ns() - time.perf_counter_ns()
        with self._lock:
            for call in answered:
                record = self._record(call.owner, call.found)
                record.n_calls += 1
                record.n_rows += call.n_rows
                record.total_ns += call.total_ns
                for i, spent in enumerate(call.clock.phases):
                    record.phases_ns[i] += spent
                record.last_ms = (since_ns + call.clock.arrived + call.total_ns) // 1_000_000
                record.latest_ns.append(call.total_ns)

    def failed(self, owner: str, found: Found, clock: Clock) -> None:
        """Count a call that was refused."""
        self._metrics.refused(found.method)
        with self._lock:
            record = self._record(owner, found)
            record.n_failed += 1
            record.failed_ns += clock.total()

    def of(self, owner: str, name: str, version: int, method: str) -> Record:
        """Give the record of a method; an empty one where it was not called."""
        self._answered.settle()
        with self._lock:
            return self._records.get((owner, name, version, method), Record())

    def _record(self, owner: str, found: Found) -> Record:
        key = (owner, found.served.name, found.served.version, found.method)
        record = self._records.get(key)
        if record is None:
            record = self._records[key] = Record()
        self._records.move_to_end(key)
        if len(self._records) > _MOST:
            self._records.popitem(last=False)
        return record
