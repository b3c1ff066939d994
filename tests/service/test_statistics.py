"""Inference statistics: bounded, summed over processes, and kept when a process ends."""

import os
import subprocess
import sys

import numpy as np
import pytest

from service.inference import statistics
from service.inference.statistics import INFER, Clock, Statistics, quantile
from service.models.resolver import ResolvedModel
from service.models.store import ServableVersion
from service.observability.metrics import Metrics

pytestmark = pytest.mark.slow  # several server processes


def resolved(name, version=1):
    served = ServableVersion(name, version, "v", "pca", ["transform"], "ds", "b", "s", 1)
    return ResolvedModel(served, "transform")


def test_counts_are_read_back():
    counted = Statistics(Metrics())
    clock = Clock()
    clock.end(INFER)
    for n_rows in (2, 3):
        counted.record_success("me", resolved("a"), clock, n_rows)
    counted.record_failure("me", resolved("a"), clock)
    counted.record_success("you", resolved("a"), clock, 7)
    mine, other, none = counted.read(
        [("me", "a", 1, "transform"), ("you", "a", 1, "transform"), ("me", "a", 2, "transform")]
    )
    assert (mine.n_requests, mine.n_rows, mine.n_failed) == (2, 5, 1)
    assert (other.n_requests, other.n_rows, other.n_failed) == (1, 7, 0)
    assert 0 < mine.phases_ns[INFER] <= mine.total_ns
    assert mine.phases_ns[INFER] == pytest.approx(2 * clock.phases[INFER], abs=1)
    assert mine.last_ms > 1_700_000_000_000
    assert (none.n_requests, none.total_ns, none.quantiles_ns) == (0, 0, {})


def test_quantiles_assume_uniform_values_within_each_bucket():
    bounds = np.array([0.001, 0.01, 0.1, 1.0])
    n = np.array([100, 300, 50, 550])
    edges = np.concatenate([[0.0], bounds])
    values = np.concatenate([np.linspace(*edges[i : i + 2], n[i]) for i in range(4)])
    buckets = [*zip(bounds, np.cumsum(n), strict=True), (np.inf, n.sum())]
    for q in (0.05, 0.3, 0.5, 0.9, 0.99):
        assert quantile(q, buckets) == pytest.approx(np.quantile(values, q), rel=0.02)
    assert quantile(0.5, [(0.1, 0), (np.inf, 10)]) == 0.1  # the last bucket has no upper bound


def test_a_new_key_takes_the_place_of_the_least_recently_used(monkeypatch):
    monkeypatch.setattr(statistics, "MAX_KEYS", 3)
    metrics = Metrics()
    counted = Statistics(metrics)
    for name in ("a", "b", "c", "a", "d"):
        counted.record_success("me", resolved(name), Clock(), 1)
    named = [sample for sample in metrics.samples() if "model" in sample.labels]
    assert {sample.labels["model"] for sample in named} == {"a", "c", "d"}
    found = counted.read([("me", name, 1, "transform") for name in "abcd"])
    assert [one.n_rows for one in found] == [2, 0, 1, 1]
    counted.record_success("me", resolved("b"), Clock(), 5)
    assert counted.read([("me", "b", 1, "transform")])[0].n_rows == 5


COUNT_MANY = """
from service.inference import statistics
from service.inference.statistics import Clock, Statistics
from service.observability.metrics import Metrics
from tests.service.test_statistics import resolved
statistics.MAX_KEYS = 3
metrics = Metrics()
counted = Statistics(metrics)
for i in range(10):
    counted.record_success("me", resolved(f"m{i}"), Clock(), 1)
for sample in metrics.samples():
    if sample.name == "sibling_inference_rows_total":
        print(sample.labels["model"], sample.value)
"""


def test_further_keys_of_several_processes_are_counted_together(tmp_path):
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": "."}
    command = [sys.executable, "-W", "error", "-c", COUNT_MANY]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert sorted(done.stdout.splitlines()) == ["m0 1.0", "m1 1.0", "m2 1.0", "other 7.0"]


COUNT = """
import sys
from service.inference.statistics import Clock, Statistics
from service.observability.metrics import Metrics
from tests.service.test_statistics import resolved
metrics = Metrics()
counted = Statistics(metrics)
counted.record_success("me", resolved("a"), Clock(), int(sys.argv[1]))
metrics.pending.inc()
metrics.observe_request(method="POST", route="/x", status=200, elapsed_s=0.1)
print(counted.read([("me", "a", 1, "transform")])[0].n_rows)
print(metrics.text().decode())
"""


def test_totals_include_processes_that_have_ended(tmp_path):
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": "."}
    for n_rows, total in ((1, 1), (10, 11), (100, 111)):
        command = [sys.executable, "-c", COUNT, str(n_rows)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        read, *lines = done.stdout.splitlines()
        assert int(read) == total
        # requests of an ended process are not pending
        assert "sibling_inference_pending 1.0" in lines
    requests = 'sibling_http_requests_total{method="POST",route="/x",status="200"} 3.0'
    assert requests in lines
    assert sum(line.startswith("process_resident_memory_bytes") for line in lines) == 1
