"""Metrics for Prometheus.

Several server processes share files (``PROMETHEUS_MULTIPROC_DIR``, the multiprocess mode of
prometheus_client), so each of them reports totals.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, Sample
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

#: In seconds; most requests are inference, which takes milliseconds.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
#: Environment variable that prometheus_client reads when it is imported.
SHARED_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"


class QueueState(NamedTuple):
    """Number of unfinished jobs by state, and age of the oldest queued job in seconds."""

    n_jobs: Mapping[str, int]
    age_s: float


class Metrics:
    """Counters, histograms and gauges of all server processes.

    Labels are route templates and method names, never ids, so that their number stays small.

    Attributes
    ----------
    registry
        Registry of the metrics of this process.
    pending
        Number of inference requests that a thread computes, or that wait for one.
    cache_bytes
        Size of the loaded models.
    """

    def __init__(self) -> None:
        self.registry = self._totals = CollectorRegistry()
        self._state = CollectorRegistry()
        directory = os.environ.get(SHARED_DIRECTORY)
        self._directory = None if directory is None else Path(directory)
        if self._directory is None:
            ProcessCollector(registry=self._state)
        else:
            self._totals = CollectorRegistry()
            MultiProcessCollector(self._totals, directory)  # type: ignore[no-untyped-call]
            self._state.register(ProcessTreeCollector())
        self._requests = Counter(
            "sibling_http_requests",
            "Number of requests.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "sibling_http_request_seconds",
            "Time from the headers of a request to the end of its response.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._deleted = Counter(
            "sibling_retention_deleted",
            "Number of expired rows and unreferenced blobs that were deleted.",
            ("kind",),
            registry=self.registry,
        )
        self.pending, self.cache_bytes = (
            Gauge(f"sibling_{name}", what, registry=self.registry, multiprocess_mode="livesum")
            for name, what in (
                ("inference_pending", "Inference requests in a thread, or waiting for one."),
                ("model_cache_bytes", "Size of the loaded models."),
            )
        )
        self._audit_events = Counter(
            "sibling_audit_events",
            "Audit events: stored, failed (only in the log), limited (too many refused requests).",
            ("result",),
            registry=self.registry,
        )
        # a cache, since looking up labels takes longer than counting
        self._children: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}

    def observe_request(
        self, *, method: str, route: str | None, status: int | None, elapsed_s: float
    ) -> None:
        """Count a request; the status is None if the client disconnected."""
        method = method if method in _METHODS else _OTHER
        labels = method, route or _OTHER, str(status or _OTHER)
        children = self._children.get(labels)
        if children is None:
            children = self._requests.labels(*labels), self._seconds.labels(*labels[:2])
            self._children[labels] = children
        requests, seconds = children
        requests.inc()
        seconds.observe(elapsed_s)

    def count_deleted(self, kind: str, n: int) -> None:
        """Count what retention has deleted."""
        self._deleted.labels(kind).inc(n)

    def count_audit_event(self, result: str) -> None:
        """Count an audit event: ``stored``, ``failed`` or ``limited``."""
        self._audit_events.labels(result).inc()

    def report_state(
        self, queue: Callable[[], QueueState | None], not_ready: Callable[[], list[str]]
    ) -> None:
        """Add metrics that are read at each scrape.

        Parameters
        ----------
        queue
            Returns the state of the queue; None while the database is unavailable.
        not_ready
            Returns the reasons why the service is not ready; empty if it is.
        """
        self._state.register(_StateCollector(queue, not_ready))

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of all processes."""
        for metric in self._totals.collect():
            yield from metric.samples

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        if self._directory is not None:
            _forget_gauges_of_dead_processes(self._directory)
        return generate_latest(self._totals) + generate_latest(self._state)


class _StateCollector(Collector):
    """Collector of readiness and of the job queue in the database."""

    def __init__(
        self, queue: Callable[[], QueueState | None], not_ready: Callable[[], list[str]]
    ) -> None:
        self._queue = queue
        self._not_ready = not_ready

    def describe(self) -> Iterator[Metric]:
        """Return nothing, since describing the metrics would read the database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        state = self._queue()
        if state is not None:
            jobs = GaugeMetricFamily("sibling_jobs", "Unfinished jobs.", labels=("state",))
            for name, n in state.n_jobs.items():
                jobs.add_metric((name,), n)
            yield jobs
            yield GaugeMetricFamily(
                "sibling_queue_age_seconds", "Age of the oldest queued job.", state.age_s
            )
        yield GaugeMetricFamily(
            "sibling_ready",
            "Whether the service can run jobs and inference.",
            not self._not_ready(),
        )


class ProcessTreeCollector(Collector):
    """Collector of CPU time and memory of all server processes, with the usual metric names."""

    def describe(self) -> Iterator[Metric]:
        """Return nothing; describing is not needed."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        cpu_s, resident_bytes = 0.0, 0
        for process in _server_processes():
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                resident_bytes += process.memory_info().rss
        yield CounterMetricFamily("process_cpu_seconds", "Total CPU time in seconds.", cpu_s)
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory in bytes.", resident_bytes
        )


def _server_processes() -> list[psutil.Process]:
    """Return the server processes: the children of the supervisor, or this one if it has none."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return [psutil.Process()]
    return psutil.Process(supervisor.pid).children()


def _forget_gauges_of_dead_processes(directory: Path) -> None:
    """Remove gauges of processes that have ended; their counters remain."""
    living = {process.pid for process in _server_processes()}
    for path in directory.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        if pid not in living:
            mark_process_dead(pid, str(directory))  # type: ignore[no-untyped-call]
