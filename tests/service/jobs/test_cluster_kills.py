"""One job on a cluster, each of whose processes is killed in turn."""

import numpy as np
import psutil
import pytest

from sibling import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # a cluster of its own

LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return {f"task {t}": rng.normal(size=(40, 24)) for t in range(80)}


def wait_for_attempt(job, *, after):
    """Wait until a later attempt iterates; return its number."""

    def attempt():
        info = job.refresh().info
        assert info["state"] not in ("succeeded", "failed"), info
        return info["attempt"] > after and info["progress"] and info["attempt"]

    return wait_for(attempt)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a dozen processes start, one after another
def test_a_job_survives_kills_of_nanny_scheduler_and_everything(cluster, start_service, rows):
    settings = {
        "SIBLING_SCHEDULER_URL": cluster.url,
        "SIBLING_TLS_DIR": cluster.folder / "tls",
        "SIBLING_WORKER_SLOTS": 1,
        "SIBLING_HEARTBEAT_TIMEOUT_S": 3,
        "SIBLING_LEASE_TIMEOUT_S": 2,
    }
    cluster.checkpoint_s = 0.2
    scheduler, worker = cluster.scheduler(), cluster.worker("worker 1")
    first = start_service(**settings)
    with Client(first.url) as client:
        limits = {"max_attempts": 9}
        job = client.train(client.upload(rows), "rmt-pca", model="m", limits=limits, **LONG)
        attempt = wait_for_attempt(job, after=0)

        family = cluster.family(worker)
        assert len(family) >= 3  # nanny, worker, child process
        worker.kill()
        assert_ended(family)
        worker = cluster.worker("worker 2")
        attempt = wait_for_attempt(job, after=attempt)

        family = cluster.family(worker)
        scheduler.kill()
        scheduler.wait()
        assert_ended(family)  # a process manager would restart the workers
        scheduler, worker = cluster.scheduler(), cluster.worker("worker 3")
        attempt = wait_for_attempt(job, after=attempt)

    everything = [
        *cluster.family(worker),
        *cluster.family(scheduler),
        *cluster.family(first.process),
    ]
    for process in everything:
        process.suspend()  # so that none sees another exit
    for process in everything:
        process.kill()
    for process in (worker, scheduler, first.process):
        process.wait()
    assert_ended(everything)

    cluster.scheduler()
    cluster.worker("worker 4")
    second = start_service(data_dir=first.data_dir, **settings)
    with Client(second.url) as client:
        handle = client.job(job.id)
        handle.wait()
        outcomes = [a["outcome"] for a in handle.info["attempts"]]
        assert outcomes.pop() == "succeeded"
        assert set(outcomes) <= {"lost", "released"}
        assert handle.info["attempt"] == attempt + 1
        assert [m["version"] for m in client.models] == [1]


def assert_ended(processes):
    _, left = psutil.wait_procs(processes, timeout=240)
    assert not [p for p in left if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
