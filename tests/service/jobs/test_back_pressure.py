import httpx
import numpy as np
import pytest

from sibling import Client

pytestmark = [pytest.mark.slow, pytest.mark.sql]  # many jobs

LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}


def test_an_owner_with_a_full_queue_gets_429_and_loses_no_job(start_service):
    service = start_service(SIBLING_WORKER_SLOTS=1, SIBLING_MAX_QUEUED_JOBS=2)
    rng = np.random.default_rng(0)
    with Client(service.url) as client:
        dataset = client.upload({f"t{i}": rng.normal(size=(40, 24)) for i in range(120)})
        running = client.train(dataset, "rmt-pca", **LONG)
        while running.refresh().state == "queued":
            pass
        waiting = [client.train(dataset, "rmt-pca", **LONG) for _ in range(2)]
        spec = {"dataset_id": dataset.id, "algorithm": "rmt-pca", "model": "m"}
        rejected = httpx.post(f"{service.url}/v1/jobs", json=spec, timeout=240)
        assert (rejected.status_code, rejected.json()["code"]) == (429, "queue-full")
        assert int(rejected.headers["retry-after"]) > 0
        assert len(list(client.jobs)) == 3
        waiting[0].cancel()
        assert httpx.post(f"{service.url}/v1/jobs", json=spec, timeout=240).status_code == 202
        for job in (running, *waiting):
            if not job.refresh().info["is_final"]:
                job.cancel()
