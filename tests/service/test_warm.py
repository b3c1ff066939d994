"""Kernels are compiled before a server or worker computes with them, and never by itself."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import httpx
import psutil
import pytest

from service.processes import kernels

#: A step of RMT-PCA whose last bit shows whether its process compiled the kernels itself.
STEP = """
import hashlib, sys
import numpy as np
{}
from algorithms.numerics.compiled_traces import compile_for
from algorithms.numerics.covariances import from_dense
rng = np.random.default_rng(0)
digest = hashlib.sha256()
for _ in range(200):
    X = rng.normal(size=(40, 27, 24))
    C = from_dense(X.transpose(0, 2, 1) @ X / 27)
    objective = compile_for(C, lam=5.0 / 39, k=5)
    point = np.ascontiguousarray(C.leading(5))
    for _ in range(12):
        value = objective.evaluate(point)
        point = objective.trial_step(point, value.F, radius=0.5, forcing=0.1).point
    digest.update(point.tobytes())
sys.stdout.write(digest.hexdigest())
"""
#: Says that the cache beside it has all kernels.
STAMP = "sibling-kernels"
ENSURE = "from service.processes.kernels import ensure_compiled; ensure_compiled()"


def run(code, cache):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=580,
    )
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The bits of a step of a process that found no compiled kernels, and the cache it left."""
    cache = tmp_path_factory.mktemp("cache")
    return run(STEP.format(ENSURE), cache)[-1], cache


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_equal_work_has_equal_bits_in_the_first_process_and_in_later_ones(first):
    """A process that compiles the kernels of this step itself gets another last bit."""
    bits, cache = first
    assert run(STEP.format(ENSURE), cache)[-1] == bits


@pytest.mark.slow
def test_kernels_are_compiled_once(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    stamp = "from service.processes import kernels; print(kernels._fingerprint())"
    (found,) = run(stamp, cache)
    (cache / STAMP).write_text(found)
    assert run(ENSURE, cache) == []
    assert [path.name for path in cache.iterdir()] == [STAMP]


def test_every_file_with_kernels_counts_for_whether_they_are_compiled():
    root = kernels._ROOT
    counted = {path for pattern in kernels._SOURCES for path in root.glob(pattern)}
    files = [*root.glob("algorithms/**/*.py"), *root.glob("service/**/*.py")]
    decorated = re.compile("^@(exact_)?kernel$", re.MULTILINE)
    compiled = {path for path in files if decorated.search(path.read_text())}
    assert compiled
    assert compiled <= counted


@pytest.fixture
def start_cold(tmp_path):
    """``url, process = start_cold(cache)``: a server for which nobody has compiled the kernels."""
    processes = []

    def start(cache):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environment = os.environ | {
            name: str(tmp_path / name) for name in ("HOME", "SIBLING_DATA_DIR")
        }
        command = [sys.executable, "-m", "sibling", "serve", "--port", str(port)]
        environment["NUMBA_CACHE_DIR"] = str(cache)
        processes.append(subprocess.Popen(command, env=environment, start_new_session=True))
        return f"http://127.0.0.1:{port}", psutil.Process(processes[-1].pid)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def answer_of(url):
    try:
        return httpx.get(url)
    except httpx.TransportError:
        return None


@pytest.mark.slow  # compiles kernels
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_that_compiles_kernels_says_so_and_ends_with_all_processes(
    start_cold, tmp_path, wait_until, number
):
    url, server = start_cold(tmp_path / "cache")
    wait_until(lambda: answer_of(f"{url}/v2/health/live") is not None)
    live, ready = (httpx.get(f"{url}/v2/health/{name}") for name in ("live", "ready"))
    assert (live.status_code, live.json()["live"], live.json()["ready"]) == (200, True, False)
    assert ready.status_code == 503
    assert "compiled" in ready.json()["reasons"][0]
    other = httpx.post(f"{url}/v1/jobs", json={})
    assert (other.status_code, other.json()["code"]) == (503, "unavailable")
    assert int(other.headers["retry-after"]) > 0
    page = httpx.get(url, headers={"Accept": "text/html"})
    assert page.status_code == 503
    assert 'http-equiv="refresh"' in page.text
    wait_until(lambda: len(server.children(recursive=True)) >= 2)  # one compiles in others
    family = [server, *server.children(recursive=True)]
    server.send_signal(number)
    assert not psutil.wait_procs(family, timeout=60)[1]
    assert server.wait() == (0 if number == signal.SIGTERM else -number)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_server_is_ready_once_the_kernels_are_compiled(first, start_cold, tmp_path, wait_until):
    """It finds compiled ones, but no note that they are all, so it goes through them."""
    cache = shutil.copytree(first[1], tmp_path / "cache")
    (cache / STAMP).unlink()
    url, server = start_cold(cache)
    wait_until(lambda: answer_of(f"{url}/v2/health/ready") is not None)
    wait_until(lambda: (found := answer_of(f"{url}/v2/health/ready")) and found.is_success)
    assert (cache / STAMP).exists()
    assert httpx.get(f"{url}/v1/jobs").json()["items"] == []
    server.terminate()
    server.wait(timeout=60)
