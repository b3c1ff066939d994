"""Answers come before a proxy in front would answer in their place."""

import numpy as np
import pytest


@pytest.fixture
def patient(start_replica):
    """A service whose requests wait for half a second at most."""
    return start_replica(SIBLING_MAX_WAIT_S=0.5, SIBLING_INGEST_WAIT_S=0)


def test_a_long_wait_for_a_job_is_answered_with_its_id(patient, client, uploads_to, stopwatch):
    http = uploads_to(patient).http
    rng = np.random.default_rng(0)
    tasks = {name: rng.standard_normal((400, 6)) for name in ("a", "b")}
    params = {"L": 5, "r": 400, "max_iter": 100_000, "tolerance": 1e-12}
    spec = {"dataset_id": client.upload(tasks).id, "algorithm": "tlvm", "params": params}
    elapsed_s = stopwatch()
    submitted = http.post("/v1/jobs?wait=60", json={**spec, "model": "long-wait"})
    path = f"/v1/jobs/{submitted.json()['id']}"
    try:
        for answer, status in ((submitted, 202), (http.get(f"{path}?wait=60"), 200)):
            assert answer.status_code == status
            assert not answer.json()["is_final"]
        repeated = http.post(f"{path}:repeat?wait=60", json={})
        assert repeated.status_code == 202
        http.post(f"/v1/jobs/{repeated.json()['id']}:cancel")
    finally:
        http.post(f"{path}:cancel")
    assert elapsed_s() < 30


def test_a_long_wait_for_a_dataset_is_answered(patient, uploads_to, stopwatch):
    uploads = uploads_to(patient)
    rows = "task,x\n" + "a,1\n" * 3_000_000
    elapsed_s = stopwatch()
    made = uploads.post(rows.encode())
    assert made.status_code == 202
    answer = uploads.get(made.json()["id"], wait=60)
    assert answer.status_code == 200
    assert elapsed_s() < 30
