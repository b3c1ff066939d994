"""Quotas of an owner: datasets, model versions and stored bytes."""

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from service.access import quotas, stored_bytes
from service.datasets import store as dataset_store
from service.errors.problems import Problem
from service.settings import Settings
from service.storage.blobs import BlobStore
from service.storage.job_states import JobState
from service.storage.tables import BlobRow, DatasetRow, ModelRow, UploadRow
from sibling import Client, JobFailed, ServiceError
from tests.service.stored import job_row, version_row

CSV = b"task,a,b\ns,1,2\ns,3,5\nt,5,6\nt,8,8\n"
NONE = {"max_datasets": 0, "max_models": 0, "max_stored_bytes": 0}


def settings(**limits):
    return Settings(**(NONE | limits))


@pytest.fixture
def upload(database, tmp_path):
    """Return a function that uploads some bytes as the route does."""
    blobs = BlobStore(database, tmp_path, cache_bytes=1)

    def run(content: bytes, limits: Settings, owner="ada"):
        writer = blobs.writer()
        writer.write(content)
        writer.flush()
        with database.write() as session:
            quotas.check_upload(session, owner, limits, size_bytes=len(content))
            new = dataset_store.NewDataset(owner, "d", "text/csv", {}, content.hex())
            return dataset_store.create(session, new, writer.finish(session)).id

    return run


@pytest.mark.sql
def test_without_limits_nothing_is_counted(database):
    def statements(limits):
        found = []
        with database.write() as session:
            event.listen(session.connection(), "before_cursor_execute", lambda *a: found.append(a))
            quotas.check_upload(session, "ada", limits, size_bytes=5)
        return [statement for _, _, statement, *_ in found if "count(" in statement.lower()]

    assert statements(settings()) == []
    assert len(statements(settings(max_datasets=2))) == 3


@pytest.mark.sql
def test_an_upload_beyond_the_number_of_datasets_is_refused(upload):
    limits = settings(max_datasets=2)
    upload(b"one", limits)
    upload(b"two", limits)
    with pytest.raises(Problem, match="you have 2 datasets; the maximum is 2: delete") as caught:
        upload(b"three", limits)
    assert (caught.value.code, caught.value.status_code) == ("quota-exceeded", 429)
    upload(b"three", limits, owner="bob")


@pytest.mark.sql
def test_an_upload_beyond_the_stored_bytes_is_refused(upload):
    limits = settings(max_stored_bytes=10)
    upload(b"12345", limits)
    upload(b"67890", limits)
    with pytest.raises(
        Problem, match="you have 10 stored bytes, and this needs 3 more; the maximum"
    ):
        upload(b"abc", limits)
    with pytest.raises(Problem, match="you have 10 stored bytes; the maximum is 10"):
        upload(b"a", limits)


@pytest.mark.sql
def test_a_deleted_dataset_makes_room(upload, database):
    limits = settings(max_datasets=1, max_stored_bytes=5)
    dataset_id = upload(b"12345", limits)
    with database.write() as session:
        dataset_store.delete(session, session.get_one(DatasetRow, dataset_id))
    upload(b"67890", limits)


@pytest.mark.sql
def test_uploads_at_the_same_time_do_not_exceed_a_quota(upload, database):
    limits = settings(max_datasets=3)
    ready = threading.Barrier(8)

    def run(number):
        ready.wait()
        try:
            return upload(b"content %d" % number, limits)
        except Problem as problem:
            return problem.code

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(run, range(8)))
    assert found.count("quota-exceeded") == 5
    with database.read() as session:
        assert quotas.count_datasets(session, "ada") == 3


@pytest.mark.sql
def test_models_and_unfinished_jobs_that_train_one_count_together(database, upload):
    dataset_id = upload(b"x", settings())
    infer = {"kind": "infer", "makes_dataset": True}
    plans = [None, {"kind": "search"}, {"kind": "adapt"}, infer, None, None]
    states = [JobState.QUEUED, JobState.WAITING, JobState.RUNNING, JobState.QUEUED]
    states += [JobState.SUCCEEDED, JobState.QUEUED]  # the last one is a child job
    with database.write() as session:
        blob_id = session.scalar(sa.select(BlobRow.id))
        for number, (plan, state) in enumerate(zip(plans, states, strict=True)):
            session.add(
                job_row(
                    f"job_{number}",
                    dataset_id=dataset_id,
                    state=state,
                    plan=plan,
                    base_version_id="mdl_0" if number in (2, 3) else None,
                    parent_id="job_1" if number == 5 else None,
                )
            )
        session.flush()
        session.add(ModelRow(id="mod_1", owner="ada", name="m", latest_version=1))
        session.flush()
        session.add(version_row(job_id="job_4", dataset_id=dataset_id, artifact_blob_id=blob_id))
    with database.write() as session:
        assert quotas.count_models(session, "ada") == 1
        assert quotas.count_unfinished_trainings(session, "ada") == 3
        assert stored_bytes.stored_bytes(session, "ada") == 1  # both refer to the same blob
        assert stored_bytes.stored_bytes(session, "bob") == 0
        quotas.check_training(session, "ada", settings(max_models=5))
        with pytest.raises(Problem, match="1 model versions and 3 unfinished jobs"):
            quotas.check_training(session, "ada", settings(max_models=4))
        with pytest.raises(Problem, match="you have 1 stored bytes; the maximum is 1"):
            quotas.check_training(session, "ada", settings(max_stored_bytes=1))
        quotas.check_upload(session, "ada", settings(max_datasets=3), size_bytes=1)
        with pytest.raises(Problem, match="1 datasets and 1 unfinished jobs that make further"):
            quotas.check_upload(session, "ada", settings(max_datasets=2), size_bytes=1)


@pytest.mark.sql
def test_what_is_stored_may_reach_the_limit_but_not_exceed_it(upload, database):
    upload(b"12345", settings())
    with database.write() as session:
        stored_bytes.check_after_storing(session, "ada", 5)
        with pytest.raises(stored_bytes.StoredBytesExceeded):
            stored_bytes.check_after_storing(session, "ada", 4)


@pytest.mark.sql
def test_uploads_count_until_they_are_datasets(upload, database):
    dataset_id = upload(b"12345", settings())
    common = {"owner": "ada", "name": "d", "media_type": "text/csv", "options": {}, "length": 7}
    with database.write() as session:
        for upload_id in ("up_1", "up_2"):
            session.add(UploadRow(id=upload_id, **common))
        session.add(UploadRow(id="up_3", dataset_id=dataset_id, **common))
    with database.read() as session:
        assert quotas.count_uploads(session, "ada") == 2
        assert stored_bytes.stored_bytes(session, "ada") == 5 + 2 * 7


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(launch_service):
    with launch_service(SIBLING_MAX_DATASETS=2, SIBLING_MAX_MODELS=1) as running:
        yield running


@pytest.mark.slow
@pytest.mark.sql
def test_an_exceeded_quota_is_429_with_the_remedy(small):
    rows = {"a": np.arange(20.0).reshape(5, 4) ** 1.5}
    with Client(small.url) as client, httpx.Client(base_url=small.url, timeout=60) as http:
        first = client.upload(rows, name="first")
        client.upload({"b": rows["a"]}, name="second")
        headers = {"Content-Type": "text/csv", "Idempotency-Key": "k"}
        refused = http.post("/v1/datasets?name=third", content=CSV, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota-exceeded")
        assert "you have 2 datasets; the maximum is 2" in refused.json()["detail"]
        assert "retry-after" not in refused.headers
        assert client.upload(rows, name="first").id == first.id  # which is there already
        model = client.train(first, "pca", k=1).wait()
        with pytest.raises(ServiceError, match="you have 1 model versions; the maximum is 1"):
            client.train(first, "pca", k=1)
        with pytest.raises(ServiceError, match="you have 2 datasets; the maximum is 2"):
            client.infer(model, "transform", first)
        client.infer(model, "transform", first, makes_dataset=False).wait().delete()
        model.delete()
        assert client.train(first, "pca", k=1).wait().version == 2
        for dataset in client.datasets:
            if dataset["name"] == "second":
                client.delete_dataset(dataset["id"])
        accepted = http.post("/v1/datasets?name=third", content=CSV, headers=headers)
        assert accepted.status_code in (201, 202)
    with small.open_database() as database, database.read() as session:
        incomplete = sa.select(sa.func.count()).where(BlobRow.sha256.is_(None))
        assert session.scalar(incomplete) == 0  # a refused upload leaves nothing


@pytest.fixture(scope="module")
def tight(launch_service):
    with launch_service(SIBLING_MAX_STORED_BYTES=3_000_000, SIBLING_INGEST_WAIT_S=40) as running:
        yield running


def used(service):
    with service.open_database() as database, database.read() as session:
        return stored_bytes.stored_bytes(session, "local")


@pytest.mark.slow
def test_uploads_that_grow_when_parsed_stay_within_the_quota_together(tight):
    """Small files at once, each more than a tenth of the quota when parsed."""

    def upload(number):
        values = np.random.default_rng(number).integers(2, size=50_000)
        content = gzip.compress(b"task,x\n" + b"".join(b"a,%d\n" % one for one in values))
        assert len(content) < 20_000
        return httpx.post(
            f"{tight.url}/v1/datasets?name=d{number}",
            content=content,
            headers={"Content-Type": "text/csv"},
            timeout=240,
        )

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(upload, range(12)))
    refused = [response for response in found if response.status_code == 429]
    assert {response.status_code for response in found} == {201, 429}
    assert {response.json()["code"] for response in refused} == {"quota-exceeded"}
    assert 0 < used(tight) <= 3_000_000
    with tight.open_database() as database, database.read() as session:
        incomplete = sa.select(sa.func.count()).where(BlobRow.sha256.is_(None))
        assert session.scalar(incomplete) == 0


@pytest.mark.slow
def test_outputs_that_exceed_the_quota_fail_their_job_and_are_not_stored(launch_service):
    rows = {"a": np.random.default_rng(0).normal(size=(4000, 3))}
    with (
        launch_service(SIBLING_MAX_STORED_BYTES=150_000, SIBLING_WORKER_SLOTS=1) as running,
        Client(running.url) as client,
    ):
        dataset = client.upload(rows)
        model = client.train(dataset, "pca", k=2).wait()
        before = used(running)
        with pytest.raises(JobFailed) as caught:
            client.infer(model, "transform", dataset).wait()
        assert caught.value.code == "quota-exceeded"
        assert used(running) == before <= 150_000
