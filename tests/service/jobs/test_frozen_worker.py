"""A worker that no longer responds, although its process exists."""

import signal
import time
from contextlib import contextmanager

import httpx
import numpy as np
import psutil
import pytest

from sibling import Client

pytestmark = pytest.mark.slow  # waits for Dask

TIMEOUT_S = 240  # only ends a hang


@pytest.fixture
def service(start_service):
    return start_service(
        SIBLING_WORKER_SLOTS=2, SIBLING_SUBMIT_TIMEOUT_S=3, SIBLING_HEARTBEAT_TIMEOUT_S=600
    )


@contextmanager
def frozen(process):
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def workers_of(service):
    """Return the worker processes: those that have the child processes of jobs."""
    family = psutil.Process(service.process.pid).children(recursive=True)
    parents = {p.ppid() for p in family if "service.jobs.worker.child" in p.cmdline()}
    return [process for process in family if process.pid in parents]


def health(service):
    return httpx.get(f"{service.url}/v2/health/ready", timeout=TIMEOUT_S).json()


def test_jobs_run_on_the_other_worker_and_readiness_names_the_frozen_one(service, wait_until):
    wait_until(lambda: len(workers_of(service)) == 2, seconds=TIMEOUT_S)
    with Client(service.url) as client:
        dataset = client.upload({"a": np.eye(4), "b": np.eye(4)}, name="d")
        with frozen(workers_of(service)[0]):
            # two at once: one of them is given to the frozen worker, which still looks free
            jobs = [client.train(dataset, "pca", model=f"m{n}", k=1) for n in range(6)]
            started = time.monotonic()
            for job in jobs:
                wait_until(
                    lambda job=job: job.refresh().info["state"] == "succeeded", seconds=TIMEOUT_S
                )
            assert time.monotonic() - started < TIMEOUT_S
            attempts = [attempt for job in jobs for attempt in job.info["attempts"]]
            assert {attempt["outcome"] for attempt in attempts} == {"succeeded"}
            wait_until(lambda: health(service)["warnings"] != [], seconds=TIMEOUT_S)
            found = health(service)
            assert found["ready"]
            assert "does not respond" in found["warnings"][0]
        wait_until(lambda: health(service)["warnings"] == [], seconds=TIMEOUT_S)
        # the attempt that it was given has been replaced, and changes nothing
        client.train(dataset, "pca", model="after", k=1).wait()
        assert {job.refresh().info["state"] for job in jobs} == {"succeeded"}


def test_a_service_without_a_worker_that_responds_is_not_ready(service, wait_until):
    wait_until(lambda: len(workers_of(service)) == 2, seconds=TIMEOUT_S)
    first, second = workers_of(service)
    with frozen(first), frozen(second):
        wait_until(lambda: not health(service)["ready"], seconds=TIMEOUT_S)
        assert "does not respond" in health(service)["reasons"][0]
    wait_until(lambda: health(service)["ready"], seconds=TIMEOUT_S)


@pytest.mark.slow  # Dask waits for half a minute at least
@pytest.mark.timeout(600)
def test_a_worker_that_stays_frozen_is_restarted_and_its_files_are_removed(
    start_service, wait_until
):
    service = start_service(SIBLING_WORKER_SLOTS=1, SIBLING_HEARTBEAT_TIMEOUT_S=4)
    wait_until(lambda: len(workers_of(service)) == 1, seconds=TIMEOUT_S)
    (worker,) = workers_of(service)
    (scratch,) = (service.data_dir / "work").iterdir()
    (scratch / "job_1-1.checkpoint").write_text("state")
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: not worker.is_running(), seconds=300)
    wait_until(lambda: not scratch.exists(), seconds=TIMEOUT_S)
    with Client(service.url) as client:
        dataset = client.upload({"a": np.eye(4), "b": np.eye(4)}, name="d")
        client.train(dataset, "pca", model="after", k=1).wait()
