"""A dataset from upload to deletion."""

import time

import numpy as np
import pytest

from sibling import Client
from tests.written import big_csv, written

CSV = b"task,a,b\ns,1,2\ns,3,5\nt,5,6\nt,8,8\n"
NPZ = "application/x-npz"


def test_an_upload_returns_location_and_summary(uploads):
    response = uploads.post(CSV, name="two")
    body = response.json()
    assert response.status_code == 201
    assert response.headers["Location"] == f"/v1/datasets/{body['id']}"
    assert response.headers["ETag"] == f'"{body["upload_sha256"]}"'
    assert (body["name"], body["state"], body["n_tasks"], body["n_samples"]) == (
        "two",
        "ready",
        2,
        4,
    )
    manifest = uploads.http.get(f"{response.headers['Location']}/manifest").json()
    assert [task["name"] for task in manifest["tasks"]] == ["s", "t"]
    assert manifest["feature_names"] == ["a", "b"]
    assert manifest["tasks"][0]["features"]["mean"] == [2.0, 3.5]


def test_a_request_repeated_with_its_idempotency_key_has_one_effect(uploads):
    headers = {"Idempotency-Key": "once"}
    first = uploads.post(CSV + b"u,0,2\nu,2,0\n", headers=headers)
    again = uploads.post(CSV + b"u,0,2\nu,2,0\n", headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    before = uploads.traces()
    for body, query in ((CSV + b"u,9,9\n", {}), (CSV + b"u,0,2\nu,2,0\n", {"name": "e"})):
        other = uploads.post(body, headers=headers, **query)
        assert (other.status_code, other.json()["code"]) == (422, "key-reused")
    assert uploads.traces() == before


@pytest.mark.sql
def test_the_idempotency_key_of_a_deleted_dataset_creates_a_new_one(uploads):
    headers = {"Idempotency-Key": "gone"}
    first = uploads.post(CSV + b"u,0,3\nu,3,0\n", headers=headers).json()["id"]
    assert uploads.http.delete(f"/v1/datasets/{first}").status_code == 204
    again = uploads.post(CSV + b"u,0,3\nu,3,0\n", headers=headers)
    assert again.status_code == 201
    assert again.json()["id"] != first


@pytest.mark.sql
def test_a_deleted_dataset_is_404_and_can_be_uploaded_again(uploads):
    before = uploads.traces()
    body = CSV + b"u,7,7\nu,0,7\n"
    first = uploads.post(body).json()
    path = f"/v1/datasets/{first['id']}"
    wrong = uploads.http.delete(path, headers={"If-Match": '"old"'})
    assert (wrong.status_code, wrong.json()["code"]) == (412, "precondition-failed")
    tag = uploads.http.get(path).headers["ETag"]
    assert uploads.http.delete(path, headers={"If-Match": tag}).status_code == 204
    for request in (
        uploads.http.get(path),
        uploads.http.get(f"{path}/manifest"),
        uploads.http.delete(path),
    ):
        assert (request.status_code, request.json()["code"]) == (404, "not-found")
    listed = uploads.http.get("/v1/datasets", params={"page_size": 200}).json()["items"]
    assert first["id"] not in [item["id"] for item in listed]
    after = uploads.traces()
    assert (after["blobs"], after["chunks"]) == (before["blobs"], before["chunks"])
    again = uploads.post(body)
    assert again.status_code == 201
    assert again.json()["id"] != first["id"]


def test_a_dataset_of_a_model_cannot_be_deleted(uploads):
    rng = np.random.default_rng(3)
    dataset_id = uploads.post(
        written(np.savez, **{f"{t}/X": rng.normal(size=(20, 4)) for t in "ab"}), NPZ
    ).json()["id"]
    spec = {"dataset_id": dataset_id, "algorithm": "pca", "model": "kept"}
    job = uploads.http.post("/v1/jobs", json=spec).json()
    path = f"/v1/datasets/{dataset_id}"
    while not job["is_final"]:
        rejected = uploads.http.delete(path)
        assert (rejected.status_code, rejected.json()["code"]) == (409, "in-use")
        assert job["id"] in rejected.json()["detail"] or "kept" in rejected.json()["detail"]
        job = uploads.http.get(f"/v1/jobs/{job['id']}", params={"wait": 1}).json()
    assert job["state"] == "succeeded"
    rejected = uploads.http.delete(path)
    assert rejected.status_code == 409
    assert "kept, version 1" in rejected.json()["detail"]
    assert uploads.http.delete("/v1/models/kept/versions/1").status_code == 204
    assert uploads.http.delete(path).status_code == 204


def test_an_unknown_dataset_is_404_without_waiting(uploads, stopwatch):
    elapsed_s = stopwatch()
    response = uploads.get("ds_none", wait=30)
    assert response.status_code == 404
    assert elapsed_s() < 15


@pytest.fixture(scope="module")
def slow(launch_service, uploads_to):
    with launch_service(SIBLING_INGEST_WAIT_S=0, SIBLING_MAX_WAITING_REQUESTS=1) as service:
        yield uploads_to(service)


def test_a_slow_upload_is_accepted_and_then_ready(slow):
    response = slow.post(CSV)
    dataset_id = response.json()["id"]
    assert response.status_code == 202
    assert response.headers["Retry-After"] == "1"
    assert response.headers["Location"] == f"/v1/datasets/{dataset_id}"
    early = slow.http.get(f"/v1/datasets/{dataset_id}/manifest")
    assert early.status_code in (200, 409)
    ready = slow.get(dataset_id, wait=30)
    assert ready.json()["state"] == "ready"
    assert ready.headers["ETag"] != response.headers["ETag"]


@pytest.mark.slow
def test_a_client_pauses_between_requests_that_found_no_room_to_wait(slow, tmp_path):
    path = tmp_path / "many.csv"
    path.write_bytes(big_csv(120_000))
    sent_at = []
    with (
        Client(str(slow.http.base_url)) as client,
        slow.http.stream(
            "GET", "/v1/jobs:changes", headers={"Accept": "text/event-stream"}
        ) as room,
    ):
        lines = room.iter_lines()
        next(lines)
        client._http._transport._client.event_hooks = {
            "request": [lambda _: sent_at.append(time.monotonic())]
        }
        assert len(client.upload(path).tasks) == 7
    assert len(sent_at) < 6 + 4 * (sent_at[-1] - sent_at[0])


@pytest.mark.sql
def test_a_dataset_being_ingested_can_be_neither_deleted_nor_used(slow):
    dataset_id = slow.post(big_csv(100_000)).json()["id"]
    deleted = slow.http.delete(f"/v1/datasets/{dataset_id}")
    assert (deleted.status_code, deleted.json()["code"]) == (409, "wrong-state")
    spec = {"dataset_id": dataset_id, "algorithm": "pca", "model": "early"}
    assert slow.http.post("/v1/jobs", json=spec).json()["code"] == "wrong-state"
    assert slow.get(dataset_id, wait=40).json()["state"] == "ready"


@pytest.mark.slow
def test_many_slow_uploads_do_not_block_other_requests(slow):
    bodies = [big_csv(12_000) + f"x{i},1,2,3,4,5,6,7,8\n".encode() for i in range(12)]
    began = time.monotonic()
    made = [slow.post(body).json()["id"] for body in bodies]
    asked = time.monotonic()
    assert slow.http.get("/v1/datasets").status_code == 200
    answered = time.monotonic()
    states = [slow.get(dataset_id, wait=50).json()["state"] for dataset_id in made]
    assert states == ["ready"] * len(made)
    assert answered - asked < (time.monotonic() - began) / 4
