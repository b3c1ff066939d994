"""Jobs that need more memory than their limit are refused at submission."""

import httpx
import numpy as np
import pytest

from algorithms.interface.tasks import TaskSummary
from algorithms.registry import ALGORITHMS
from service.errors.problems import Problem
from service.jobs.memory import check_memory
from service.settings import Settings

ROOT = "/v1/jobs"
N_ROWS = 6_000  # their kernel matrix takes 288 MB


def tasks(n):
    return (TaskSummary("t", n, 5, target="numbers"),)


def check(n, *, memory_mb=4096, settings=None, **values):
    algorithm = ALGORITHMS["fmtl"]
    settings = settings or Settings(scheduler_url="tcp://example.org:8786")
    params = algorithm.parse(values)
    return check_memory(
        algorithm, tasks(n), params, memory_mb=memory_mb, settings=settings, time="about 2 h"
    )


def test_a_job_far_below_its_limit_has_no_warning():
    expected, warnings = check(1_000)
    assert expected > 16 * 1_000**2
    assert warnings == []


def test_a_job_near_its_limit_has_a_warning_with_the_remedy():
    _, warnings = check(14_000)
    (warning,) = warnings
    assert "the kernel matrix of 14,000 rows" in warning
    assert "'memory_mb' = 4096" in warning
    assert "nystrom=2000" in warning


def test_a_job_above_its_limit_is_refused_with_estimate_and_remedy():
    with pytest.raises(Problem, match=r"78.4 GB for the kernel matrix of 70,000 rows") as raised:
        check(70_000)
    assert (raised.value.code, raised.value.status_code) == ("exceeds-memory", 422)
    assert "it would take about 2 h: use nystrom=2000" in raised.value.detail
    (entry,) = raised.value.errors
    assert entry["pointer"] == "/memory_mb"
    assert entry["limit_bytes"] < 78.4e9 < entry["expected_bytes"]
    assert check(70_000, nystrom=2_000)[0] < entry["limit_bytes"]


def test_a_limit_beyond_the_memory_of_this_machine_does_not_help():
    with pytest.raises(Problem, match="the memory of this machine"):
        check(1_000_000, memory_mb=2**20 * 100, settings=Settings())


def test_the_service_refuses_the_job_or_says_what_it_needs(client, service):
    rng = np.random.default_rng(0)
    X = {name: rng.standard_normal((N_ROWS // 2, 2)) for name in ("a", "b")}
    y = {name: rng.standard_normal(N_ROWS // 2) for name in X}
    dataset = client.upload(X, y, name="long")
    spec = {"dataset_id": dataset.id, "algorithm": "fmtl", "model": "long", "memory_mb": 512}
    with httpx.Client(base_url=service.url, timeout=240) as http:
        refused = http.post(ROOT, json=spec)
        assert refused.status_code == 422, refused.text
        problem = refused.json()
        assert problem["code"] == "exceeds-memory"
        assert "kernel matrix of 6,000 rows" in problem["detail"]
        assert problem["errors"][0]["pointer"] == "/memory_mb"
        fine = {**spec, "params": {"kernel": "linear"}}
        valid = http.post(ROOT, params={"validate_only": True}, json=fine).json()
        assert 0 < valid["memory_mb"] < 512
