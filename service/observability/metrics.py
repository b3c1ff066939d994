"""Metrics for Prometheus: counted as things happen, or read from the service at each scrape.

Several server processes count in files that all of them read (``PROMETHEUS_MULTIPROC_DIR``, the
multiprocess mode of prometheus_client), so each of them reports totals.
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

#: Seconds; most requests are inference, of milliseconds.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
#: Set for processes that count together; prometheus_client reads it when it is imported.
SHARED_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"


class QueueState(NamedTuple):
    """Unfinished jobs by state, and the age in seconds of the job that waits longest."""

    n_jobs: Mapping[str, int]
    age_s: float


class Metrics:
    """Counters, histograms and gauges of this process, or of all that count together.

    Labels are templates of routes and names of methods, never ids: they must stay few.

    Attributes
    ----------
    registry
        Where the process registers what it counts itself.
    pending
        Inference requests that are computed in threads, or wait for one.
    cache_bytes
        Size of the models that are loaded.
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
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "sibling_http_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.pending, self.cache_bytes = (
            Gauge(f"sibling_{name}", what, registry=self.registry, multiprocess_mode="livesum")
            for name, what in (
                ("inference_pending", "Requests that are computed in threads or wait for one."),
                ("model_cache_bytes", "Size of the models that are loaded."),
            )
        )
        # looking children up by their labels takes longer than counting
        self._children: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}

    def observe_request(
        self, *, method: str, route: str | None, status: int | None, elapsed_s: float
    ) -> None:
        """Count a request; without a status if the client disconnected."""
        method = method if method in _METHODS else _OTHER
        labels = method, route or _OTHER, str(status or _OTHER)
        children = self._children.get(labels)
        if children is None:
            children = self._requests.labels(*labels), self._seconds.labels(*labels[:2])
            self._children[labels] = children
        requests, seconds = children
        requests.inc()
        seconds.observe(elapsed_s)

    def report_state(
        self, queue: Callable[[], QueueState | None], not_ready: Callable[[], list[str]]
    ) -> None:
        """Add metrics that are read at each scrape.

        Parameters
        ----------
        queue
            Returns the state of the queue, None while the database does not answer.
        not_ready
            Returns why the service is not ready; nothing if it is.
        """
        self._state.register(_StateCollector(queue, not_ready))

    def samples(self) -> Iterator[Sample]:
        """Yield what was counted, in all processes."""
        for metric in self._totals.collect():
            yield from metric.samples

    def text(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        if self._directory is not None:
            _forget_gauges_of_dead_processes(self._directory)
        return generate_latest(self._totals) + generate_latest(self._state)


class _StateCollector(Collector):
    """Whether the service is ready, and the job queue as it is in the database."""

    def __init__(
        self, queue: Callable[[], QueueState | None], not_ready: Callable[[], list[str]]
    ) -> None:
        self._queue = queue
        self._not_ready = not_ready

    def describe(self) -> Iterator[Metric]:
        """Return nothing: to describe them would read the database before it is needed."""
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
                "sibling_queue_age_seconds", "Age of the job that waits longest.", state.age_s
            )
        yield GaugeMetricFamily(
            "sibling_ready", "Whether jobs and inference can be served.", not self._not_ready()
        )


class ProcessTreeCollector(Collector):
    """Processor time and memory of all server processes, named as those of one process are."""

    def describe(self) -> Iterator[Metric]:
        """Return nothing, as above."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        cpu_s, resident_bytes = 0.0, 0
        for process in _server_processes():
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                resident_bytes += process.memory_info().rss
        yield CounterMetricFamily("process_cpu_seconds", "Time of the processors.", cpu_s)
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Memory that is resident.", resident_bytes
        )


def _server_processes() -> list[psutil.Process]:
    """Return the server processes: the children of the supervisor, or this one if it has none."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return [psutil.Process()]
    return psutil.Process(supervisor.pid).children()


def _forget_gauges_of_dead_processes(directory: Path) -> None:
    """Remove gauges of workers that ended, whose counters remain."""
    living = {process.pid for process in _server_processes()}
    for path in directory.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        if pid not in living:
            mark_process_dead(pid, str(directory))  # type: ignore[no-untyped-call]
