"""Inference statistics by model, version and method: Prometheus metrics, also read for ``/v2``."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from prometheus_client import Counter, Gauge, Histogram, Summary

from service.models.resolver import ResolvedModel
from service.observability.metrics import Metrics

#: Owner, model, version and method: the labels of a metric.
MethodKey: TypeAlias = tuple[str, str, int, str]
_LABELS: Final = ("owner", "model", "version", "method")
#: Maximum number of method keys per process. A further one takes the place of the least recently
#: used; with several processes, whose files keep every label, further ones are counted as "other".
MAX_KEYS: Final = 2000
_OTHER: Final = "other"
#: Histogram buckets in seconds.
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10)
#: Phases of a request in order, with the names of the Open Inference Protocol; and their indices.
PHASES: Final = ("queue", "compute_input", "compute_infer", "compute_output")
QUEUE, INPUT, INFER, OUTPUT = range(len(PHASES))
QUANTILES: Final = (0.5, 0.9, 0.99)


class Clock:
    """Timer of one request, which starts when it is created; phases are in nanoseconds."""

    __slots__ = ("_last", "arrived", "phases")

    def __init__(self) -> None:
        self.arrived = self._last = time.perf_counter_ns()
        self.phases = [0] * len(PHASES)

    def end(self, phase: int) -> None:
        """Count the time since the previous call, or the creation, as time of a phase."""
        now = time.perf_counter_ns()
        self.phases[phase] += now - self._last
        self._last = now

    def total_s(self) -> float:
        """Return the time since the request arrived."""
        return (time.perf_counter_ns() - self.arrived) / 1e9


class MethodStatistics(NamedTuple):
    """Statistics of one method of one version since the service started."""

    n_requests: int
    n_rows: int
    n_failed: int
    total_ns: int
    failed_ns: int
    phases_ns: tuple[int, ...]
    last_ms: int
    quantiles_ns: dict[str, int]


class _Counters(NamedTuple):
    """Metrics of one :data:`MethodKey`."""

    seconds: Histogram
    failure_seconds: Summary
    rows: Counter
    last: Gauge
    phases: tuple[Counter, ...]


class Statistics:
    """Writer and reader of the inference metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        registry = metrics.registry
        self._seconds = Histogram(
            "sibling_inference_seconds",
            "Time from the arrival of an inference request to its response.",
            _LABELS,
            buckets=_BUCKETS,
            registry=registry,
        )
        self._failure_seconds = Summary(
            "sibling_inference_failure_seconds",
            "Time from the arrival of an inference request to its rejection.",
            _LABELS,
            registry=registry,
        )
        self._rows = Counter(
            "sibling_inference_rows",
            "Rows of successful inference requests.",
            _LABELS,
            registry=registry,
        )
        self._last = Gauge(
            "sibling_inference_last_timestamp_seconds",
            "Unix time of the last successful inference request.",
            _LABELS,
            registry=registry,
            multiprocess_mode="max",
        )
        self._phases = Counter(
            "sibling_inference_phase_seconds",
            "Time spent in each phase of inference requests.",
            (*_LABELS, "phase"),
            registry=registry,
        )
        self._counters: OrderedDict[MethodKey, _Counters] = OrderedDict()
        #: Counters of further keys, by method.
        self._others: dict[str, _Counters] = {}
        self._lock = threading.Lock()

    def record_success(
        self, owner: str, resolved: ResolvedModel, clock: Clock, n_rows: int
    ) -> None:
        """Count a successful request."""
        counters = self._counters_of(owner, resolved)
        counters.seconds.observe(clock.total_s())
        counters.rows.inc(n_rows)
        counters.last.set(time.time())
        for phase, spent_ns in zip(counters.phases, clock.phases, strict=True):
            phase.inc(spent_ns / 1e9)

    def record_failure(self, owner: str, resolved: ResolvedModel, clock: Clock) -> None:
        """Count a rejected request."""
        self._counters_of(owner, resolved).failure_seconds.observe(clock.total_s())

    def read(self, keys: Sequence[MethodKey]) -> list[MethodStatistics]:
        """Return the statistics of each key over all processes; zeros if it was never called."""
        values: dict[tuple[str, ...], dict[str, float]] = {}
        for sample in self._metrics.samples():
            if sample.labels.keys() >= frozenset(_LABELS):
                key = tuple(sample.labels[name] for name in _LABELS)
                detail = sample.labels.get("phase") or sample.labels.get("le") or ""
                values.setdefault(key, {})[sample.name + detail] = sample.value
        return [_from_samples(values.get(_labels_of(key), {})) for key in keys]

    def _counters_of(self, owner: str, resolved: ResolvedModel) -> _Counters:
        served, method = resolved
        key = owner, served.name, served.version, method
        with self._lock:
            counters = self._counters.get(key)
            if counters is None:
                return self._add(key)
            self._counters.move_to_end(key)
            return counters

    def _add(self, key: MethodKey) -> _Counters:
        """Return the counters of a new key."""
        method = key[-1]
        if len(self._counters) >= MAX_KEYS:
            if self._metrics.is_shared:
                if method not in self._others:
                    self._others[method] = self._create_counters((_OTHER, _OTHER, _OTHER, method))
                return self._others[method]
            self._remove(_labels_of(self._counters.popitem(last=False)[0]))
        counters = self._counters[key] = self._create_counters(_labels_of(key))
        return counters

    def _remove(self, labels: tuple[str, ...]) -> None:
        for metric in (self._seconds, self._failure_seconds, self._rows, self._last):
            metric.remove(*labels)
        for phase in PHASES:
            self._phases.remove(*labels, phase)

    def _create_counters(self, labels: tuple[str, ...]) -> _Counters:
        return _Counters(
            self._seconds.labels(*labels),
            self._failure_seconds.labels(*labels),
            self._rows.labels(*labels),
            self._last.labels(*labels),
            tuple(self._phases.labels(*labels, phase) for phase in PHASES),
        )


def _labels_of(key: MethodKey) -> tuple[str, ...]:
    owner, model, version, method = key
    return owner, model, str(version), method


def _from_samples(values: Mapping[str, float]) -> MethodStatistics:
    """Return statistics from samples by metric name, to which bucket or phase is appended."""

    def read(name: str, scale: float = 1) -> int:
        return round(scale * values.get(f"sibling_inference_{name}", 0))

    buckets = sorted(_buckets(values))
    return MethodStatistics(
        n_requests=read("seconds_count"),
        n_rows=read("rows_total"),
        n_failed=read("failure_seconds_count"),
        total_ns=read("seconds_sum", 1e9),
        failed_ns=read("failure_seconds_sum", 1e9),
        phases_ns=tuple(read(f"phase_seconds_total{phase}", 1e9) for phase in PHASES),
        last_ms=read("last_timestamp_seconds", 1e3),
        quantiles_ns={f"p{100 * q:g}": round(1e9 * quantile(q, buckets)) for q in QUANTILES}
        if read("seconds_count")
        else {},
    )


def _buckets(values: Mapping[str, float]) -> Iterator[tuple[float, float]]:
    prefix = "sibling_inference_seconds_bucket"
    for name, value in values.items():
        if name.startswith(prefix):
            yield float(name.removeprefix(prefix)), value


def quantile(q: float, buckets: Sequence[tuple[float, float]]) -> float:
    """Return a quantile of a histogram, as ``histogram_quantile`` of Prometheus does.

    Parameters
    ----------
    buckets
        (upper bound, cumulative count), in ascending order; the last bound is infinite.
    """
    rank = q * buckets[-1][1]
    low, below = 0.0, 0.0
    for high, n in buckets[:-1]:
        if n >= rank:
            return low + (high - low) * (rank - below) / (n - below) if n > below else high
        low, below = high, n
    return low
