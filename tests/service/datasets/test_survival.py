"""Uploads after a kill of the server, and uploads that exceed their limits."""

import signal

import numpy as np
import pytest

from tests.written import big_csv, written

pytestmark = pytest.mark.slow  # kills processes

CSV = b"task,a,b\ns,1,2\ns,3,5\nt,5,6\nt,8,8\n"
NPZ = "application/x-npz"


def test_an_upload_survives_a_kill_of_the_server(start_service, uploads_to, wait_until):
    slow = {"SIBLING_INGEST_WAIT_S": 0}
    killed = start_service(**slow)
    uploads = uploads_to(killed)
    dataset_id = uploads.post(big_csv()).json()["id"]
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait(120)
    [(_, state)] = uploads.traces()["datasets"]
    assert state in ("uploaded", "ingesting")
    uploads = uploads_to(start_service(data_dir=killed.data_dir, **slow))
    assert uploads.get(dataset_id, wait=50).json()["state"] == "ready"
    scratch = killed.data_dir / "ingest"
    wait_until(lambda: not any(path.is_file() for path in scratch.rglob("*")))
    tasks = uploads.http.get(f"/v1/datasets/{dataset_id}/manifest").json()["tasks"]
    assert sum(task["n_samples"] for task in tasks) == 60_000


def test_exceeding_the_memory_limit_names_the_limit(start_service, uploads_to):
    uploads = uploads_to(start_service(SIBLING_INGEST_WAIT_S=40, SIBLING_INGEST_MEMORY_MB=256))
    assert uploads.post(CSV).status_code == 201
    before = uploads.traces()
    large = uploads.post(written(np.savez, **{"t/X": np.ones((2**18, 200), "float16")}), NPZ)
    assert (large.status_code, large.json()["code"]) == (422, "invalid-dataset")
    assert "256 MiB" in large.json()["detail"]
    assert uploads.traces() == before


def test_exceeding_the_time_limit_names_the_limit(start_service, uploads_to):
    # no machine reads this file in that time, and a busy one needs to read none in time
    uploads = uploads_to(start_service(SIBLING_INGEST_WAIT_S=40, SIBLING_INGEST_TIMEOUT_S=0.02))
    before = uploads.traces()
    slow = uploads.post(b"task,a\n" + b"s,1\n" * 4_000_000)
    assert (slow.status_code, slow.json()["code"]) == (422, "invalid-dataset")
    assert "0.02 s" in slow.json()["detail"]
    assert uploads.traces() == before
