"""The service on PostgreSQL: the same jobs, the same promises."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from service.client import Client, JobFailed, ServiceError

LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}
LEASE_S = 2


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    return {f"task {t}": rng.normal(size=(40, 24)) for t in range(120)}


@pytest.fixture
def database_url(new_postgres):
    url = new_postgres()
    subprocess.run(
        [sys.executable, "-m", "service", "migrate"],
        cwd=Path(__file__).parents[2],
        env={"PATH": "", "DATABASE_URL": url},
        check=True,
        timeout=50,
    )
    return url


@pytest.fixture
def start(start_service, database_url):
    return lambda **env: start_service(
        DATABASE_URL=database_url, SIBLING_SLOTS=1, SIBLING_LEASE_S=LEASE_S, **env
    )


def wait_for(condition, *, seconds=50):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited for {seconds} s"
        time.sleep(0.05)
    return value


def test_the_main_job_end_to_end(start):
    service = start()
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(12, 5)) for name in ("süd", "north")}
    labels = {name: np.array(["a", "b"] * 6) for name in rows}
    with Client(service.url) as client:
        dataset = client.upload(rows, labels, name="pair")
        assert client.upload(rows, labels, name="pair").id == dataset.id
        model = client.train(dataset, "rmt-pca", model="m", k=2).wait()
        assert model.transform(rows["süd"], task="süd").shape == (12, 2)
        classifier = client.train(dataset, "mtda", model="c", d=1).wait()
        assert set(classifier.predict(rows["north"], task="north")) <= {"a", "b"}
        with pytest.raises(ServiceError, match="needed by"):
            client.delete_dataset(dataset.id)
        for trained in (model, classifier):
            trained.delete()
        client.delete_dataset(dataset.id)
        assert client.datasets() == client.models() == []
        assert [job["state"] for job in client.jobs()] == ["succeeded"] * 2


def test_many_submits_with_one_key_make_one_job(start, rows):
    service = start()
    with Client(service.url) as client:
        spec = {"dataset_id": client.upload(rows).id, "algorithm": "pca", "model": "one"}

        def submit(_):
            headers = {"Idempotency-Key": "once"}
            return httpx.post(f"{service.url}/v1/jobs", json=spec, headers=headers, timeout=30)

        with ThreadPoolExecutor(25) as pool:
            answers = list(pool.map(submit, range(50)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert len(client.jobs()) == 1


def test_many_twins_at_once_make_one_dataset_and_models_in_a_row(start):
    service = start()
    table = "task,x,y\n" + "".join(f"t{i % 2},{i},{i * i % 7}\n" for i in range(12))

    def upload(_):
        headers = {"Content-Type": "text/csv"}
        url = f"{service.url}/v1/datasets?name=twins"
        return httpx.post(url, content=table, headers=headers, timeout=50)

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(upload, range(10)))
    assert {answer.status_code for answer in answers} <= {200, 201, 202}
    (dataset,) = {answer.json()["id"] for answer in answers}
    with Client(service.url) as client:
        jobs = [client.train(dataset, "pca", model="same", k=1) for _ in range(6)]
        assert sorted(job.wait().version for job in jobs) == [1, 2, 3, 4, 5, 6]


def test_a_kill_of_the_service_loses_and_doubles_nothing(start, rows):
    first = start()
    with Client(first.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
    first.process.kill()
    first.process.wait()
    second = start()
    with Client(second.url) as client:
        handle = client.job(job.id)
        handle.wait()
        assert handle.info["attempt"] == 2
        assert [m["version"] for m in client.models()] == [1]


def test_of_two_replicas_one_dispatches_and_the_other_takes_over(start, rows):
    leader, replica = start(), start()
    with Client(replica.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        assert _trains(leader)
        assert not _trains(replica)
        leader.process.kill()
        leader.process.wait()
        job.wait()
        assert job.info["attempt"] == 2
        assert [m["version"] for m in client.models()] == [1]


def test_a_running_job_is_cancelled(start, rows):
    service = start()
    with Client(service.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        job.cancel()
        with pytest.raises(JobFailed, match="cancelled"):
            job.wait()
        assert client.models() == []


def test_it_refuses_a_database_without_its_schema(new_postgres):
    done = subprocess.run(
        [sys.executable, "-m", "service", "serve", "--port", "0"],
        cwd=Path(__file__).parents[2],
        env={"PATH": "", "DATABASE_URL": new_postgres()},
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 1
    assert "sibling migrate" in done.stderr


def _trains(service):
    family = psutil.Process(service.process.pid).children(recursive=True)
    return any("service.jobs.child" in process.cmdline() for process in family)
