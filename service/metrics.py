"""Numbers for Prometheus: what happens as it happens, the rest read when it is asked for."""

import os
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from service.context import Services
from service.crew import counts_folder
from service.database import now
from service.jobs.queue import queries
from service.tally import MANY, Event, Tally

#: Seconds; most calls are inference, of milliseconds.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"


class _Kind(NamedTuple):
    """What is counted together; no status: the caller went away."""

    method: str
    route: str | None
    status: int | None


class Metrics:
    """What one process counts, or several together.

    Labels are templates of routes and names of methods, never ids: they must stay few.

    Attributes
    ----------
    pending
        Calls of models that are computed in threads, or wait for one.
    cache_bytes
        Size of the models that are loaded.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # several count in files, which are read instead of what this process knows
        is_one = counts_folder() is None
        own = self._registry if is_one else None
        if is_one:
            ProcessCollector(registry=self._registry)
        else:
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
            self._registry.register(_Crew())
        self._requests = Counter(
            "sibling_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=own,
        )
        self._seconds = Histogram(
            "sibling_http_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=own,
        )
        self._calls, self._rows, self._failures = (
            Counter(f"sibling_inference_{name}", what, ("method",), registry=own)
            for name, what in (
                ("calls", "Calls answered."),
                ("rows", "Rows answered."),
                ("failures", "Calls refused."),
            )
        )
        self.pending, self.cache_bytes = (
            Gauge(f"sibling_{name}", what, registry=own, multiprocess_mode="livesum")
            for name, what in (
                ("inference_pending", "Calls that are computed in threads or wait for one."),
                ("model_cache_bytes", "Size of the models that are loaded."),
            )
        )
        # to find them by their labels takes longer than to count
        self._counted: dict[_Kind, tuple[Counter, Histogram]] = {}
        # files are read by other processes whenever they like
        self._most = MANY if is_one else 1
        self._tallies: list[Tally[Any]] = []
        self._answered = self.tally(self._count_answers)

    def tally(self, count: Callable[[Sequence[Event]], None]) -> Tally[Event]:
        """Give a tally that is settled before anybody is told of what is counted."""
        tally = Tally(count, self._most)
        self._tallies.append(tally)
        return tally

    def observe(
        self, *, method: str, route: str | None, status: int | None, elapsed_s: float
    ) -> None:
        """Count a request; no status: the caller went away."""
        self._answered.add((_Kind(method, route, status), elapsed_s))

    def _count_answers(self, answers: Sequence[tuple[_Kind, float]]) -> None:
        for kind, n in Counts(kind for kind, _ in answers).items():
            self._of(kind)[0].inc(n)
        for kind, elapsed_s in answers:
            self._of(kind)[1].observe(elapsed_s)

    def _of(self, kind: _Kind) -> tuple[Counter, Histogram]:
        counted = self._counted.get(kind)
        if counted is None:
            method = kind.method if kind.method in _METHODS else _OTHER
            route = kind.route or _OTHER
            counted = (
                self._requests.labels(method, route, str(kind.status or _OTHER)),
                self._seconds.labels(method, route),
            )
            if method != _OTHER:  # of others there may be any number
                self._counted[kind] = counted
        return counted

    def called(self, method: str, n_calls: int, n_rows: int) -> None:
        """Count calls of models that were answered."""
        self._calls.labels(method).inc(n_calls)
        self._rows.labels(method).inc(n_rows)

    def refused(self, method: str) -> None:
        """Count a call of a model that was refused."""
        self._failures.labels(method).inc()

    def watch(self, services: Services) -> None:
        """Tell the state of the parts too."""
        self._registry.register(_Parts(services))

    def text(self) -> bytes:
        """Give everything in the text format of Prometheus."""
        for tally in self._tallies:
            tally.settle()
        return generate_latest(self._registry)


class _Parts(Collector):
    """The state of the parts, read when it is asked for."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self) -> Iterator[Metric]:
        """Give nothing: to describe them would read the database before it is needed."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Give the metrics."""
        yield from self._jobs()
        reasons = self._services.watch.reasons()
        yield GaugeMetricFamily(
            "sibling_ready", "Whether jobs and inference can be served.", value=float(not reasons)
        )

    def _jobs(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("sibling_jobs", "Jobs that have not ended.", labels=("state",))
        try:
            with self._services.database.read() as session:
                counts, oldest = queries.count_by_state(session), queries.oldest_queued(session)
        except SQLAlchemyError:
            return  # numbers that nobody knows are left out; sibling_ready tells why
        for state, n in counts.items():
            jobs.add_metric((state,), n)
        yield jobs
        age = 0.0 if oldest is None else max(0.0, (now() - oldest).total_seconds())
        yield GaugeMetricFamily(
            "sibling_queue_age_seconds", "Age of the job that waits longest.", value=age
        )


class _Crew(Collector):
    """What the processes that serve together take of the machine."""

    def describe(self) -> Iterator[Metric]:
        """Give nothing, as above."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Give the metrics, named as those of one process are."""
        cpu_s, resident_bytes = 0.0, 0
        for process in psutil.Process(os.getppid()).children():
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                cpu_s += times.user + times.system
                resident_bytes += process.memory_info().rss
        yield CounterMetricFamily("process_cpu_seconds", "Time of the processors.", value=cpu_s)
        yield GaugeMetricFamily(
            "process_resident_memory_bytes", "Memory that is resident.", value=resident_bytes
        )
