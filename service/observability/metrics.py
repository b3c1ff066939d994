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
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, Sample
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

#: In seconds; most requests are inference, which takes milliseconds. Each bucket of each route and
#: method is a time series.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1, 10, 60)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
#: Jobs that ended within this time are counted as recent.
RECENT_S: Final = 600
#: Environment variable that prometheus_client reads when it is imported.
SHARED_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"


class QueueState(NamedTuple):
    """State of the job queue in the database.

    Attributes
    ----------
    n_jobs
        Number of unfinished jobs by state.
    age_s
        Age of the oldest queued job, in seconds.
    n_ended
        Number of jobs by final state that ended in the last :data:`RECENT_S` seconds, without
        child jobs.
    n_postponed
        Number of queued jobs that wait since a machine lacked disk space, memory or file handles.
    n_lease_renewals
        Number of renewals of the dispatcher's lease; 0 without a dispatcher.
    """

    n_jobs: Mapping[str, int]
    age_s: float
    n_ended: Mapping[str, int]
    n_postponed: int
    n_lease_renewals: int


class Metrics:
    """Counters, histograms and gauges of all server processes.

    Labels are route templates and method names, never ids, so that their number stays small.

    Attributes
    ----------
    pending
        Number of inference requests that a thread computes, or that wait for one.
    cache_bytes
        Size of the loaded models.
    is_shared
        Whether several processes share the metrics, in files that keep every label.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a time series of each counter
        self.registry = self._totals = CollectorRegistry()
        self._state = CollectorRegistry()
        directory = os.environ.get(SHARED_DIRECTORY)
        self._directory = None if directory is None else Path(directory)
        self.is_shared = directory is not None
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
            Gauge(
                f"sibling_{name}", description, registry=self.registry, multiprocess_mode="livesum"
            )
            for name, description in (
                ("inference_pending", "Inference requests in a thread, or waiting for one."),
                ("model_cache_bytes", "Size of the loaded models."),
            )
        )
        self._workers = Gauge(
            "sibling_workers",
            "Workers of jobs, as seen by the dispatcher: responding or silent.",
            ("state",),
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._audit_events = Counter(
            "sibling_audit_events",
            "Audit events: stored, failed (only in the log), limited (too many refused requests).",
            ("result",),
            registry=self.registry,
        )
        self._webhook_attempts = Counter(
            "sibling_webhook_attempts",
            "Attempts to send an event to a webhook: delivered or failed.",
            ("result",),
            registry=self.registry,
        )
        self._monitored = Counter(
            "sibling_monitored_rows",
            "Rows for monitors: recorded, or dropped beyond what the queue or a quota holds.",
            ("result",),
            registry=self.registry,
        )
        self._alarms = Gauge(
            "sibling_monitor_alarms",
            "Alarms in the last report of a monitor: of errors and of columns.",
            ("owner", "model", "alias"),
            registry=self.registry,
            multiprocess_mode="mostrecent",
        )
        # a cache, since looking up labels takes longer than counting
        self._children: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}

    def observe_request(
        self, *, method: str, route: str | None, status: int | None, elapsed_s: float
    ) -> None:
        """Count a request.

        Parameters
        ----------
        route
            Template of the route, such as ``/v1/jobs/{job_id}``; None if no route matches.
        status
            HTTP status; None if the client disconnected before the response.
        """
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
        """Count rows or blobs that retention has deleted."""
        self._deleted.labels(kind).inc(n)

    def count_audit_event(self, result: str) -> None:
        """Count an audit event: ``stored``, ``failed`` or ``limited``."""
        self._audit_events.labels(result).inc()

    def count_webhook_attempt(self, result: str) -> None:
        """Count an attempt to send an event: ``delivered`` or ``failed``."""
        self._webhook_attempts.labels(result).inc()

    def count_monitored(self, result: str, n: int) -> None:
        """Count rows that monitors recorded or dropped."""
        self._monitored.labels(result).inc(n)

    def report_alarms(self, owner: str, model: str, alias: str, n: int) -> None:
        """Set the number of alarms in the last report of a monitor."""
        self._alarms.labels(owner, model, alias).set(n)

    def report_workers(self, *, n_silent: int, n_workers: int) -> None:
        """Set the number of workers; both are 0 in a process that does not dispatch jobs."""
        self._workers.labels("silent").set(n_silent)
        self._workers.labels("responding").set(n_workers - n_silent)

    def report_state(
        self,
        queue: Callable[[], QueueState | None],
        not_ready: Callable[[], list[str]],
        data_dir: Path,
    ) -> None:
        """Add metrics that are read at each scrape.

        Parameters
        ----------
        queue
            Returns the state of the queue; None while the database is unavailable.
        not_ready
            Returns the reasons why the service is not ready; empty if it is.
        data_dir
            Directory on the disk whose space is reported.
        """
        self._state.register(_StateCollector(queue, not_ready, data_dir))

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
    """Collector of readiness, disk space, and the job queue in the database."""

    def __init__(
        self,
        queue: Callable[[], QueueState | None],
        not_ready: Callable[[], list[str]],
        data_dir: Path,
    ) -> None:
        self._queue = queue
        self._not_ready = not_ready
        self._data_dir = data_dir

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
            ended = GaugeMetricFamily(
                "sibling_jobs_ended",
                f"Jobs that ended in the last {RECENT_S // 60} minutes, without child jobs.",
                labels=("state",),
            )
            for name, n in state.n_ended.items():
                ended.add_metric((name,), n)
            yield ended
            yield GaugeMetricFamily(
                "sibling_queue_age_seconds", "Age of the oldest queued job.", state.age_s
            )
            yield GaugeMetricFamily(
                "sibling_jobs_postponed",
                "Queued jobs that wait since a machine lacked disk space, memory or file handles.",
                state.n_postponed,
            )
            yield CounterMetricFamily(
                "sibling_dispatcher_lease_renewals",
                "Renewals of the lease of the process that dispatches jobs.",
                state.n_lease_renewals,
            )
        with suppress(OSError):
            disk = psutil.disk_usage(str(self._data_dir))
            for name, n_bytes in (("free", disk.free), ("size", disk.free + disk.used)):
                yield GaugeMetricFamily(
                    f"sibling_disk_{name}_bytes",
                    f"{name.capitalize()} bytes of the disk of SIBLING_DATA_DIR.",
                    n_bytes,
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
    """Return the children of the supervisor, or this process if it has no supervisor."""
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
