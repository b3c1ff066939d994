"""Retention in a running service."""

import json
from datetime import timedelta

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from service.storage.database import now
from service.storage.tables import BlobRow, EventRow, JobRow
from sibling import Client

pytestmark = [pytest.mark.slow, pytest.mark.sql]  # servers of its own

#: Everything has expired.
AT_ONCE = {
    "SIBLING_RETENTION_EVENTS_DAYS": 1e-6,
    "SIBLING_RETENTION_ATTEMPTS_DAYS": 1e-6,
    "SIBLING_RETENTION_JOBS_DAYS": 1e-6,
    "SIBLING_RETENTION_IDEMPOTENCY_KEYS_DAYS": 1e-6,
    "SIBLING_RETENTION_INTERVAL_S": 0.1,
}


def test_models_work_as_before_once_everything_else_has_expired(start_service, wait_until):
    rng = np.random.default_rng(3)
    rows = {name: rng.standard_normal((12, 4)) for name in ("a", "b")}
    numbers = {name: X @ np.arange(4.0) for name, X in rows.items()}
    before = start_service()
    with Client(before.url) as client:
        dataset = client.upload(rows, numbers, name="kept")
        unused = client.upload({"a": rows["a"]}, name="unused")
        plain = client.train(dataset, "pca", model="plain", k=2)
        search = {"space": {"k": [1, 2]}, "n_folds": 2}
        searched = client.train(dataset, "rmt-pca", model="searched", search=search)
        inferred = client.infer(plain.wait(), "transform", dataset)
        outputs = inferred.wait()
        gone = client.train(unused, "pca", model="gone", k=1)
        gone.wait().delete()
        client.delete_dataset(unused.id)  # its row stays for the job
        derived = client.train(outputs.dataset_id, "pca", model="derived", k=1)
        kept = [job.wait() for job in (plain, searched, derived)]
        seen = [answers(model, rows) for model in kept]
    before.process.terminate()
    before.process.wait()
    with before.open_database() as database, database.write() as session:
        lone = BlobRow(id="blob_0", sha256=None, created_at=now() - timedelta(days=2))
        session.add(lone)

    after = start_service(data_dir=before.data_dir, **AT_ONCE)

    with after.open_database() as database, httpx.Client(base_url=after.url, timeout=240) as http:

        def has_swept():
            with database.read() as session:
                left = set(session.scalars(sa.select(JobRow.id).where(JobRow.parent_id.is_(None))))
                n_events = session.scalar(sa.select(sa.func.count()).select_from(EventRow))
                has_blob = session.get(BlobRow, "blob_0") is not None
            return (left, n_events, has_blob) == ({plain.id, searched.id, derived.id}, 0, False)

        wait_until(has_swept, seconds=120)
        for job in (inferred, gone):
            assert http.get(f"/v1/jobs/{job.id}").status_code == 404
        with Client(after.url) as client:
            for model, expected in zip(kept, seen, strict=True):
                found = client.model(model.name, model.version)
                assert answers(found, rows) == expected
                job = client.job(found.info["lineage"]["job_id"])
                assert (job.state, job.info["attempts"]) == ("succeeded", [])
                assert list(job.events()) == []
            assert client.dataset(outputs.dataset_id).info["origin"]["job_id"] == inferred.id
            # and the service works on
            assert client.train(dataset, "pca", model="plain", k=1).wait().version == 2
        metrics = http.get("/metrics").text
    events = [json.loads(line) for line in after.log().splitlines() if "retention." in line]
    assert {event["event"] for event in events} == {"retention.deleted"}
    for kind in ("events", "attempts", "jobs", "idempotency_keys", "blobs"):
        assert f'sibling_retention_deleted_total{{kind="{kind}"}}' in metrics
        assert sum(event["n_deleted"] for event in events if event["kind"] == kind) > 0


def answers(model, rows):
    """Return what a model computes, and all it shows of its making."""
    method = "predict" if "predict" in model.info["methods"] else "transform"
    n_features = 2 if model.name == "derived" else 4
    outputs = [
        getattr(model, method)(X[:, :n_features], task=name).tolist() for name, X in rows.items()
    ]
    report = model.report() if model.name == "searched" else None
    return [outputs, model.history(), model.info, report]
