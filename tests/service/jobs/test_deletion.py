"""Deletion of jobs: what goes with them, and what keeps them."""

import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from service.datasets import store as dataset_store
from service.http.idempotency import find_created, remember_created
from service.jobs.queue import child_store, deletion, store
from service.jobs.studies.child_jobs import ChildJob
from service.storage.blobs import BlobStore
from service.storage.job_states import FINAL, JobState
from service.storage.tables import (
    AttemptRow,
    BlobChunkRow,
    BlobRow,
    DatasetRow,
    EventRow,
    IdempotencyRow,
    JobRow,
    ModelRow,
    VersionRow,
)
from sibling import ServiceError
from sibling.commands.exit_codes import ExitCode
from tests.service.stored import count, version_row

pytestmark = pytest.mark.sql

ROOT = Path(__file__).parents[3]
URL = "/v1/jobs"


def delete(database, job_id):
    """Delete a job as the route does; return why it cannot be deleted."""
    with database.write() as session:
        job = deletion.lock_job(session, job_id)
        found = deletion.unfinished_reason(session, job) or deletion.needed_by(session, job)
        if found is None:
            deletion.delete(session, job)
        return found


@pytest.fixture
def run(database):
    """Return a function that has a worker run a queued job until a state."""

    def until(job_id, state=JobState.SUCCEEDED):
        with database.write() as session:
            assert store.submit(session, [store.get(session, job_id)])
            assert store.claim(session, job_id, 1, "w")
            if state in FINAL:
                assert store.move(session, job_id, 1, JobState.RUNNING, state)

    return until


@pytest.fixture
def with_output(database, run, tmp_path):
    """Return a function that ends a queued job with a file as its outputs."""
    blobs = BlobStore(database, tmp_path / "cache", cache_bytes=1)

    def end(job_id, content: bytes):
        run(job_id)
        (tmp_path / "output").write_bytes(content)
        with database.write() as session:
            blob = blobs.put_file(session, tmp_path / "output")
            store.set_output(session, job_id, blob.id, {})

    return end


@pytest.fixture
def add_version(database):
    """Return a function that makes a job the origin of a model version."""

    def add(job_id, blob_id):
        with database.write() as session:
            job = session.get_one(JobRow, job_id)
            session.add(ModelRow(id="mod_1", owner=job.owner, name="m", latest_version=1))
            session.flush()
            session.add(version_row(job_id=job_id, artifact_blob_id=blob_id))

    return add


# --- rows ----------------------------------------------------------------------------------------


def test_a_deleted_job_leaves_nothing_behind(database, new_job, with_output):
    kept = new_job()
    job_id = new_job("ada")
    with_output(job_id, b"outputs")
    with database.write() as session:
        remember_created(session, "ada", "key", "f", job_id)
    before = count(database, EventRow)
    assert delete(database, job_id) is None
    assert before > count(database, EventRow) == 1  # that of the other job
    for row in (AttemptRow, IdempotencyRow, BlobRow, BlobChunkRow):
        assert count(database, row) == 0
    with database.read() as session:
        assert session.scalars(sa.select(JobRow.id)).all() == [kept]


def test_a_blob_that_another_row_references_stays(database, new_job, with_output):
    first, second = new_job(), new_job()
    for job_id in (first, second):
        with_output(job_id, b"the same")
    assert delete(database, first) is None
    assert count(database, BlobRow) == 1
    assert delete(database, second) is None
    assert count(database, BlobRow) == 0


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
def test_a_job_that_has_not_ended_is_not_deleted(database, new_job, run, state):
    job_id = new_job()
    if state != JobState.QUEUED:
        run(job_id, state)
    assert f"is {state}; cancel it first" in delete(database, job_id)
    assert count(database, JobRow) == 1


def test_child_jobs_go_with_their_parent_only_and_once_all_have_ended(
    database, new_job, run, read_job
):
    parent_id = new_job()
    with database.write() as session:
        session.execute(sa.update(JobRow).values(state=JobState.WAITING))
        parent = session.get_one(JobRow, parent_id)
        plans = [{"kind": "score", "position": position} for position in range(3)]
        children = [ChildJob("pca", {}, plan) for plan in plans]
        child_store.add_child_jobs(session, parent, children)
        ids = [child.id for child in child_store.child_jobs_of(session, parent_id)]
    run(ids[0])
    run(ids[1], JobState.FAILED)
    with database.write() as session:
        child_store.update_parent(
            session,
            session.get_one(JobRow, parent_id),
            child_store.child_jobs_of(session, parent_id),
        )
    assert read_job(parent_id).state == JobState.FAILED
    assert read_job(ids[2]).state == JobState.CANCELLED
    assert parent_id in delete(database, ids[0])
    with database.write() as session:  # a worker has not yet seen that it should stop
        session.execute(sa.update(JobRow).where(JobRow.id == ids[2]).values(state=JobState.RUNNING))
    assert ids[2] in delete(database, parent_id)
    with database.write() as session:
        session.execute(sa.update(JobRow).where(JobRow.id == ids[2]).values(state="cancelled"))
    assert delete(database, parent_id) is None
    for row in (JobRow, AttemptRow, EventRow):
        assert count(database, row) == 0


def test_the_job_of_a_model_version_is_kept_for_its_lineage(
    database, new_job, with_output, add_version
):
    job_id = new_job()
    with_output(job_id, b"artifact")
    with database.read() as session:
        blob_id = session.scalar(sa.select(BlobRow.id))
    add_version(job_id, blob_id)
    assert "model 'm', version 1; delete that first" in delete(database, job_id)
    with database.write() as session:
        session.execute(sa.delete(VersionRow))
    assert delete(database, job_id) is None


def test_the_last_job_of_a_deleted_dataset_takes_its_hidden_row_along(database, new_job, run):
    jobs = [new_job(), new_job()]
    for job_id in jobs:
        run(job_id)
    with database.write() as session:
        dataset_store.delete(session, session.get_one(DatasetRow, "ds_1"))
    for job_id in jobs:
        assert count(database, DatasetRow) == 1
        assert delete(database, job_id) is None
    assert count(database, DatasetRow) == 0


def test_a_dataset_deleted_at_the_same_time_as_its_last_job_leaves_no_hidden_row(
    database, new_job, run
):
    job_id = new_job()
    run(job_id)
    has_deleted = threading.Event()

    def delete_job():
        has_deleted.wait()
        delete(database, job_id)

    thread = threading.Thread(target=delete_job)
    thread.start()
    with database.write() as session:
        dataset_store.delete(session, session.get_one(DatasetRow, "ds_1"))
        session.flush()
        has_deleted.set()
        if not database.is_sqlite:  # where writers take turns
            _wait_for_lock(database)
    thread.join()
    assert (count(database, JobRow), count(database, DatasetRow)) == (0, 0)


def _wait_for_lock(database):
    query = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    while True:
        with database.read() as session:
            if session.scalar(query):
                return


def test_a_frozen_worker_of_a_deleted_job_learns_that_it_is_fenced_out(database, new_job, run):
    job_id = new_job()
    run(job_id)
    assert delete(database, job_id) is None
    with database.write() as session:
        assert store.record_heartbeat(session, job_id, 1, "w", {"iteration": 1}) is None
    with database.write() as session:
        assert not store.move(session, job_id, 1, JobState.RUNNING, JobState.SUCCEEDED)
        assert not store.claim(session, job_id, 1, "w")


def test_a_request_repeated_during_a_deletion_returns_the_job_or_creates_another(
    database, new_job, run
):
    job_id = new_job()
    run(job_id)
    with database.write() as session:
        remember_created(session, "ada", "key", "f", job_id)
    found = []

    def repeat():
        with database.write() as session:
            existing = find_created(session, "ada", "key", "f")
            found.append(None if existing is None else session.get(JobRow, existing))

    with database.write() as session:
        deletion.delete(session, deletion.lock_job(session, job_id))
        thread = threading.Thread(target=repeat)
        thread.start()
        if not database.is_sqlite:
            _wait_for_lock(database)
    thread.join()
    assert found == [None]


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ended(client, dataset):
    """Return a function that makes jobs whose model has been deleted."""

    def job():
        made = client.train(dataset, "pca", model="gone", k=1)
        made.wait().delete()
        return made

    return job


def test_a_job_is_deleted_with_its_events(client, http, ended):
    job = ended()
    wrong = http.delete(f"{URL}/{job.id}", headers={"If-Match": '"old"'})
    assert (wrong.status_code, wrong.json()["code"]) == (412, "precondition-failed")
    tag = http.get(f"{URL}/{job.id}").headers["etag"]
    assert http.delete(f"{URL}/{job.id}", headers={"If-Match": tag}).status_code == 204
    for request in (
        http.get(f"{URL}/{job.id}"),
        http.get(f"{URL}/{job.id}/events"),
        http.delete(f"{URL}/{job.id}"),
    ):
        assert (request.status_code, request.json()["code"]) == (404, "not-found")
    assert job.id not in [listed["id"] for listed in client.jobs]


def test_the_job_of_a_model_is_deleted_after_the_model(client, dataset):
    job = client.train(dataset, "pca", model="short-lived", k=1)
    model = job.wait()
    with pytest.raises(ServiceError, match="model 'short-lived', version 1") as caught:
        job.delete()
    assert (caught.value.status, caught.value.code) == (409, "in-use")
    assert client.model("short-lived").history() == model.history()
    model.delete()
    job.delete()
    with pytest.raises(ServiceError) as caught:
        client.job(job.id)
    assert caught.value.status == 404


def test_the_outputs_of_a_deleted_job_are_gone_but_not_the_dataset_made_of_them(
    client, http, model
):
    rows = {name: np.eye(5)[:3] for name in model.tasks}
    source = client.upload(rows, name="rows of a deleted job")
    job = client.infer(model, "transform", source)
    outputs = job.wait()
    client.delete_job(job.id)
    assert http.get(f"{URL}/{job.id}/output").status_code == 404
    made = client.dataset(outputs.dataset_id)
    assert made.info["origin"]["job_id"] == job.id
    assert made.tasks == model.tasks


def test_a_search_is_deleted_with_its_child_jobs(client, http, dataset):
    search = {"space": {"k": [1, 2]}, "n_folds": 2}
    job = client.train(dataset, "pca", model="searched-once", search=search)
    model = job.wait()
    children = http.get(URL, params={"parent_id": job.id}).json()["items"]
    assert children
    refused = http.delete(f"{URL}/{children[0]['id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in-use")
    assert job.id in refused.json()["detail"]
    model.delete()
    job.delete()
    assert http.get(URL, params={"parent_id": job.id}).json()["items"] == []
    assert http.get(f"{URL}/{children[0]['id']}").status_code == 404


def test_an_unfinished_job_is_cancelled_first(client, http):
    rng = np.random.default_rng(0)
    rows = {f"t{i}": rng.normal(size=(40, 24)) for i in range(40)}
    long = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}
    job = client.train(client.upload(rows, name="of a cancelled job"), "rmt-pca", **long)
    refused = http.delete(f"{URL}/{job.id}")
    assert (refused.status_code, refused.json()["code"]) == (409, "wrong-state")
    assert "cancel it first" in refused.json()["detail"]
    job.cancel()
    while not job.refresh(wait_s=60).info["is_final"]:
        pass
    assert job.state == "cancelled"
    job.delete()


def test_a_key_of_a_deleted_job_creates_a_new_one(http, dataset):
    spec = {"dataset_id": dataset.id, "algorithm": "pca", "model": "keyed", "params": {"k": 1}}
    headers = {"Idempotency-Key": "of a deleted job"}
    first = http.post(f"{URL}?wait=60", json=spec, headers=headers).json()
    assert http.delete("/v1/models/keyed/versions/1").status_code == 204
    assert http.delete(f"{URL}/{first['id']}").status_code == 204
    again = http.post(f"{URL}?wait=60", json=spec, headers=headers)
    assert again.status_code == 202
    assert again.json()["id"] != first["id"]


def test_a_stream_of_a_deleted_job_ends(service, client, ended):
    job = ended()
    with httpx.Client(base_url=service.url, timeout=60) as http:
        headers = {"Accept": "text/event-stream"}
        with http.stream("GET", f"{URL}/{job.id}/events", headers=headers) as response:
            client.delete_job(job.id)
            response.read()
    assert response.status_code == 200


def test_the_command_deletes_a_job(command, service, ended):
    job = ended()
    end = command("jobs", "delete", job.id, "--url", service.url)
    assert (end.returncode, end.stdout) == (0, f"job {job.id} is deleted\n")
    again = command("jobs", "delete", job.id, "--url", service.url)
    assert again.returncode == ExitCode.NOT_FOUND
    assert f"there is no job '{job.id}'" in again.stderr
    assert job.id not in command("jobs", "--url", service.url).stdout
