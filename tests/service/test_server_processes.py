"""Several processes behind one address: they are one service, and outlive one of them."""

import contextlib

import httpx
import numpy as np
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sibling import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # several server processes

N_WORKERS = 3
ROWS = np.random.default_rng(0).standard_normal((40, 4))


def workers(service):
    """Return the server processes; other children are the worker pool or belong to Python."""
    return spawned_by(psutil.Process(service.process.pid))


def spawned_by(process):
    """Return the server processes of a supervisor, or the pool of a server process."""
    found = []
    for child in process.children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "spawn_main" in " ".join(child.cmdline()):
                found.append(child)
    return found


def counted(service, name):
    text = httpx.get(f"{service.url}/metrics", timeout=240).text
    samples = (s for family in text_string_to_metric_families(text) for s in family.samples)
    return {tuple(sorted(s.labels.items())): s.value for s in samples if s.name == name}


def calls_of(service):
    counts = counted(service, "sibling_inference_seconds_count")
    return sum(n for labels, n in counts.items() if ("method", "transform") in labels)


def executed(service):
    stats = httpx.get(f"{service.url}/v2/models/replicated.transform/stats", timeout=240).json()[
        "model_stats"
    ]
    return sum(of_version["execution_count"] for of_version in stats)


@pytest.fixture(scope="module")
def replicas(launch_service):
    with launch_service(SIBLING_WORKERS=N_WORKERS, SIBLING_WORKER_SLOTS=1) as running:
        yield running


@pytest.fixture(scope="module")
def trained(replicas):
    with Client(replicas.url) as client:
        yield client.train(client.upload({"a": ROWS}), "pca", model="replicated", k=2).wait()


def call(service, name="replicated"):
    """Call once, on a connection of its own: any process may answer."""
    body = {"task": "a", "inputs": ROWS[:2].tolist()}
    return httpx.post(f"{service.url}/v1/models/{name}/transform", json=body, timeout=240)


def test_all_processes_return_the_same_response(replicas, trained):
    assert len(workers(replicas)) == N_WORKERS
    expected = call(replicas).json()
    assert expected["version"] == trained.version
    for _ in range(30):
        response = call(replicas)
        assert response.status_code == 200
        assert response.json() == expected


def test_metrics_are_sums_over_all_processes(replicas, trained):
    assert trained.name == "replicated"
    before = calls_of(replicas)
    for _ in range(60):
        assert call(replicas).status_code == 200
    # whichever process answers
    assert {calls_of(replicas) for _ in range(10)} == {before + 60}
    requests = counted(replicas, "sibling_http_requests_total")
    path = "/v1/models/{name}/transform"
    n_counted = requests[("method", "POST"), ("route", path), ("status", "200")]
    assert n_counted >= before + 60
    (resident,) = counted(replicas, "process_resident_memory_bytes").values()
    assert resident > sum(m.memory_info().rss for m in workers(replicas)) / 2
    assert set(counted(replicas, "sibling_inference_pending").values()) == {0}


def test_statistics_are_those_of_all_processes(replicas, trained):
    assert trained.name == "replicated"

    def counts():
        (stats,) = httpx.get(
            f"{replicas.url}/v2/models/replicated.transform/stats", timeout=240
        ).json()["model_stats"]
        calls = stats["inference_stats"]
        return stats["inference_count"], calls["success"]["count"], calls["fail"]["count"]

    n_rows, n_calls, n_failed = counts()
    for _ in range(60):
        assert call(replicas).status_code == 200
    bad = {"task": "none", "inputs": ROWS[:2].tolist()}
    for _ in range(20):
        assert (
            httpx.post(
                f"{replicas.url}/v1/models/replicated/transform", json=bad, timeout=240
            ).status_code
            == 422
        )
    # whichever process answers
    assert {counts() for _ in range(10)} == {(n_rows + 120, n_calls + 60, n_failed + 20)}
    every = httpx.get(f"{replicas.url}/v2/models/stats", timeout=240).json()["model_stats"]
    (mine,) = (stats for stats in every if stats["name"] == "replicated.transform")
    assert mine["inference_stats"]["success"]["count"] == n_calls + 60
    assert mine["latency_ns"]["p50"] > 0


def test_a_moved_alias_is_current_in_all_processes(replicas, trained):
    with Client(replicas.url) as client:
        data = client.upload({"a": ROWS + 2})
        client.train(data, "pca", model="replicated", k=2).wait()
    assert trained.version == 1
    alias, tag = f"{replicas.url}/v1/models/replicated/aliases/live", {}
    for i in range(40):
        moved = httpx.put(alias, json={"version": 1 + i % 2}, headers=tag, timeout=240)
        assert moved.status_code in (200, 201)
        tag = {"If-Match": moved.headers["ETag"]}
        assert call(replicas, "replicated@live").json()["version"] == 1 + i % 2
    assert httpx.delete(alias, headers=tag, timeout=240).status_code == 204
    assert call(replicas, "replicated@live").status_code == 404


def test_connections_are_spread_over_them(replicas):
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            http = stack.enter_context(httpx.Client(base_url=replicas.url, timeout=240))
            assert http.get("/v2/health/live").status_code == 200
        held = [
            sum(c.status == psutil.CONN_ESTABLISHED for c in worker.net_connections("tcp4"))
            for worker in workers(replicas)
        ]
    assert sum(n > 0 for n in held) >= 2, held


def test_one_of_them_dispatches(replicas):
    """The pool of this machine exists once, and jobs run once each."""
    with Client(replicas.url) as client:
        data = client.upload({"a": ROWS + 1})
        jobs = [client.train(data, "pca", model=f"many-{i}", k=1) for i in range(6)]
        assert [job.wait().version for job in jobs] == [1] * 6
    assert sum(spawned_by(worker) != [] for worker in workers(replicas)) == 1


@pytest.mark.timeout(300)
def test_a_killed_process_is_replaced_and_totals_continue(replicas, trained):
    assert trained.name == "replicated"
    n_calls, n_executed = calls_of(replicas), executed(replicas)
    victim = workers(replicas)[0]
    victim.kill()  # it ends some time later
    wait_for(lambda: sum(worker != victim for worker in workers(replicas)) == N_WORKERS)
    wait_for(lambda: httpx.get(f"{replicas.url}/v2/health/ready", timeout=240).status_code == 200)
    for _ in range(20):
        assert call(replicas).status_code == 200
    assert calls_of(replicas) == n_calls + 20
    assert executed(replicas) == n_executed + 20
    assert f"Child process [{victim.pid}] died" in replicas.log()


def test_a_signal_ends_all_processes_after_they_have_answered(start_service):
    """The resource tracker of Python reports semaphores when it ends, last of all processes."""
    service = start_service(SIBLING_WORKERS=2, SIBLING_WORKER_SLOTS=1)
    with Client(service.url) as client, httpx.Client(base_url=service.url, timeout=240) as http:
        job = client.train(client.upload({"a": ROWS}), "pca", model="last", k=1)
        job.wait()
        family = psutil.Process(service.process.pid).children(recursive=True)
        service.process.terminate()
        assert service.process.wait(120) == 0
        with pytest.raises(httpx.TransportError):
            http.get("/v2/health/live")
    _, left = psutil.wait_procs(family, timeout=120)
    assert left == []
    assert "leaked" not in service.log()
    assert "Traceback" not in service.log()


def test_processes_whose_parent_is_killed_end_too(start_service):
    service = start_service(SIBLING_WORKERS=2, SIBLING_WORKER_SLOTS=1)
    family = psutil.Process(service.process.pid).children(recursive=True)
    service.process.kill()
    _, left = psutil.wait_procs(family, timeout=240)
    assert left == []
