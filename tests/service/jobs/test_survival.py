"""Accepted jobs are neither lost nor run twice, on a real server with real workers and kills."""

import numpy as np
import psutil
import pytest

from sibling import Client, JobFailed
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # kills processes

#: Long enough to be interrupted, short enough to be finished: some seconds of iterations.
LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}
END_S = 240  # only ends a hang


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return {f"task {t}": rng.normal(size=(40, 24)) for t in range(60)}


@pytest.fixture(scope="module")
def running(launch_service):
    """A service that lives through what happens to its workers."""
    with launch_service(SIBLING_WORKER_SLOTS=1) as service:
        yield service


def states(job):
    return [e["data"]["state"] for e in job.events() if e["kind"] == "state"]


def versions_of(client, name):
    return [model["version"] for model in client.models if model["name"] == name]


@pytest.mark.sql
def test_a_kill_of_the_service_neither_loses_nor_duplicates_a_job(start_service, rows):
    first = start_service(SIBLING_WORKER_SLOTS=1, SIBLING_CHECKPOINT_INTERVAL_S=0.2)
    with Client(first.url) as client:
        dataset = client.upload(rows)
        job = client.train(dataset, "rmt-pca", model="survivor", **LONG)
        # far enough for some checkpoints
        wait_for(lambda: (job.refresh().info["progress"] or {}).get("fraction", 0) > 0.3)
    family = psutil.Process(first.process.pid).children(recursive=True)
    first.process.kill()
    first.process.wait()
    _, orphans = psutil.wait_procs(family, timeout=END_S)
    assert not orphans

    second = start_service(data_dir=first.data_dir, SIBLING_WORKER_SLOTS=1)
    with Client(second.url) as client:
        handle = client.job(job.id)
        model = handle.wait()
        assert handle.info["attempt"] == 2
        assert model.version == 1
        assert len(list(client.models)) == 1
        assert states(handle) == ["queued", "submitted", "running"] * 2 + ["succeeded"]
        # it continued from the checkpoint
        restarted = [e for e in handle.events() if e["kind"] == "progress" and e["attempt"] == 2]
        assert restarted[0]["data"]["fraction"] > 0.05
        # the model equals that of a job without interruption
        plain = client.train(client.dataset(dataset.id), "rmt-pca", model="plain", **LONG).wait()
        X = rows["task 0"]
        np.testing.assert_array_equal(
            model.transform(X, task="task 0"), plain.transform(X, task="task 0")
        )


def test_a_stopped_service_requeues_its_job_uncounted_with_a_checkpoint(start_service, rows):
    first = start_service(SIBLING_WORKER_SLOTS=1, SIBLING_DRAIN_TIMEOUT_S=0)
    with Client(first.url) as client:
        dataset = client.upload(rows)
        job = client.train(dataset, "rmt-pca", limits={"max_attempts": 1}, **LONG)
        wait_for(lambda: job.refresh().info["progress"])
    family = psutil.Process(first.process.pid).children(recursive=True)
    first.process.terminate()
    first.process.wait(120)
    assert not psutil.wait_procs(family, timeout=END_S)[1]
    second = start_service(data_dir=first.data_dir, SIBLING_WORKER_SLOTS=1)
    with Client(second.url) as client:
        handle = client.job(job.id)
        handle.wait()
        assert [a["outcome"] for a in handle.info["attempts"]] == ["released", "succeeded"]
        assert len(list(client.models)) == 1
        # a checkpoint is stored twice a minute, and when the job is stopped
        progress = [e for e in handle.events() if e["kind"] == "progress"]
        before = max(e["data"]["fraction"] for e in progress if e["attempt"] == 1)
        after = min(e["data"]["fraction"] for e in progress if e["attempt"] == 2)
        assert after >= before


def test_a_stopped_service_waits_for_a_job_that_ends_soon(start_service, rows):
    first = start_service(SIBLING_WORKER_SLOTS=1, SIBLING_DRAIN_TIMEOUT_S=100)
    with Client(first.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", **LONG)
        wait_for(lambda: (job.refresh().info["progress"] or {}).get("fraction", 0) > 0.3)
    first.process.terminate()
    first.process.wait(120)
    second = start_service(data_dir=first.data_dir, SIBLING_WORKER_SLOTS=1)
    with Client(second.url) as client:
        handle = client.job(job.id).refresh()
        assert handle.state == "succeeded"
        assert [a["outcome"] for a in handle.info["attempts"]] == ["succeeded"]


def test_a_job_whose_child_process_is_killed_is_retried(running, rows):
    with Client(running.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", model="child-killed", **LONG)
        for attempt in (1, 2):
            wait_for(lambda n=attempt: job.refresh().info["attempt"] == n and _child(running))
            wait_for(lambda: job.refresh().info["progress"])
            _child(running).kill()
        job.wait()
        assert job.info["attempt"] == 3
        assert versions_of(client, "child-killed") == [1]


def test_a_job_that_kills_every_worker_fails_with_the_cause(running, rows):
    with Client(running.url) as client:
        job = client.train(
            client.upload(rows), "rmt-pca", model="all-killed", limits={"max_attempts": 1}, **LONG
        )
        wait_for(lambda: job.refresh().info["progress"])
        _child(running).kill()
        with pytest.raises(JobFailed, match="SIGKILL"):
            job.wait()
        assert job.info["error"]["code"] == "crashed"
        assert versions_of(client, "all-killed") == []


def test_a_job_whose_dask_worker_is_killed_is_retried(running, rows):
    with Client(running.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", model="worker-killed", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        _child(running).parent().kill()
        job.wait()
        assert job.info["attempt"] == 2
        assert versions_of(client, "worker-killed") == [1]


def test_a_running_job_is_cancelled_and_leaves_no_model(running, rows):
    with Client(running.url) as client:
        dataset = client.upload(rows)
        job = client.train(dataset, "rmt-pca", model="cancelled", **LONG)
        waiting = client.train(dataset, "rmt-pca", model="cancelled", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        assert waiting.cancel().state == "cancelled"
        assert job.cancel().state in ("cancelling", "cancelled")
        with pytest.raises(JobFailed, match="cancelled"):
            job.wait()
        assert versions_of(client, "cancelled") == []
        # the files go after the state is stored
        wait_for(lambda: not [p for p in (running.data_dir / "work").rglob("*") if p.is_file()])


def test_a_job_beyond_its_time_limit_is_timed_out(running, rows):
    with Client(running.url) as client:
        job = client.train(
            client.upload(rows), "rmt-pca", model="timed-out", limits={"timeout_s": 1}, **LONG
        )
        with pytest.raises(JobFailed, match="time limit of 1 s"):
            job.wait()
        assert job.state == "timed_out"


def test_a_second_service_on_the_same_data_is_on_standby_and_takes_over(start_service, rows):
    first = start_service(SIBLING_WORKER_SLOTS=1)
    second = start_service(data_dir=first.data_dir, SIBLING_WORKER_SLOTS=1)
    with Client(second.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        assert _child(first) is not None
        assert _child(second) is None
        first.process.kill()
        first.process.wait()
        job.wait()
        assert job.info["attempt"] == 2
        assert len(list(client.models)) == 1


def _child(service):
    """Return the child process of a service with one slot."""
    for process in psutil.Process(service.process.pid).children(recursive=True):
        try:
            if "service.jobs.worker.child" in process.cmdline():
                return process
        except psutil.NoSuchProcess:
            continue
    return None
