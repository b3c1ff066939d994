"""Numbers for Prometheus: requests as they come, the rest read when they are asked for."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from service.context import Services
from service.database import now
from service.jobs import store

#: Seconds; most calls are inference, of milliseconds.
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"


class Metrics:
    """What one process counts. Labels are templates of routes, never ids: they must stay few."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "sibling_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "sibling_http_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        # to find them by their labels takes longer than to count
        self._counted: dict[tuple[str, str | None, int | None], tuple[Counter, Histogram]] = {}

    def observe(
        self, *, method: str, route: str | None, status: int | None, elapsed_s: float
    ) -> None:
        """Count a request; no status: the caller went away."""
        counted = self._counted.get((method, route, status))
        if counted is None:
            known = method if method in _METHODS else _OTHER
            path = route or _OTHER
            counted = (
                self._requests.labels(known, path, str(status or _OTHER)),
                self._seconds.labels(known, path),
            )
            if method in _METHODS:  # of others there may be any number
                self._counted[method, route, status] = counted
        requests, seconds = counted
        requests.inc()
        seconds.observe(elapsed_s)

    def watch(self, services: Services) -> None:
        """Tell the state of the parts too."""
        self._registry.register(_Parts(services))

    def text(self) -> bytes:
        """Give everything in the text format of Prometheus."""
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
        yield from self._inference()
        reasons = self._services.watch.reasons()
        yield GaugeMetricFamily(
            "sibling_ready", "Whether jobs and inference can be served.", value=float(not reasons)
        )

    def _jobs(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("sibling_jobs", "Jobs that have not ended.", labels=("state",))
        try:
            with self._services.database.read() as session:
                counts, oldest = store.count_by_state(session), store.oldest_queued(session)
        except SQLAlchemyError:
            return  # numbers that nobody knows are left out; sibling_ready tells why
        for state, n in counts.items():
            jobs.add_metric((state,), n)
        yield jobs
        age = 0.0 if oldest is None else max(0.0, (now() - oldest).total_seconds())
        yield GaugeMetricFamily(
            "sibling_queue_age_seconds", "Age of the job that waits longest.", value=age
        )

    def _inference(self) -> Iterator[Metric]:
        labels = ("method",)
        calls = CounterMetricFamily("sibling_inference_calls", "Calls answered.", labels=labels)
        rows = CounterMetricFamily("sibling_inference_rows", "Rows answered.", labels=labels)
        failed = CounterMetricFamily("sibling_inference_failures", "Calls refused.", labels=labels)
        for method, totals in self._services.statistics.totals().items():
            for family, n in zip((calls, rows, failed), totals, strict=True):
                family.add_metric((method,), n)
        yield from (calls, rows, failed)
        yield GaugeMetricFamily(
            "sibling_inference_pending",
            "Calls that are computed or wait for it.",
            value=self._services.compute.n_taken,
        )
        yield GaugeMetricFamily(
            "sibling_model_cache_bytes",
            "Size of the models that are loaded.",
            value=self._services.models.size_bytes(),
        )
