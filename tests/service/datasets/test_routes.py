import gzip
import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sa

from service.storage.tables import BlobRow, DatasetRow, ModelRow
from tests.service.stored import job_row, version_row

TABLE = b"task,x,y\na,1,2\nb,3,4\n"
URL = "/v1/datasets"


def ready(app, body=TABLE, **query):
    response = app.upload(body, **query)
    assert response.status_code == 201, response.text
    return response.json()


def add_job(app, dataset_id, state="succeeded", job_id="job_1"):
    with app.services.database.write() as session:
        session.add(job_row(job_id, owner="local", dataset_id=dataset_id, state=state))


def add_version(app, dataset_id):
    with app.services.database.write() as session:
        session.add(ModelRow(id="mod_1", owner="local", name="m"))
        session.add(BlobRow(id="blob_1", sha256="1", size_bytes=0))
        session.flush()
        where = {"dataset_id": dataset_id, "artifact_blob_id": "blob_1"}
        session.add(version_row(version=3, job_id="job_1", **where))


def test_uploading_twice_returns_one_dataset(app):
    first = app.upload(TABLE)
    again = app.upload(TABLE)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["etag"] == f'"{hashlib.sha256(TABLE).hexdigest()}"'
    assert app.left_behind()["datasets"] == 1
    assert app.left_behind()["blobs"] == 1


def test_the_same_bytes_with_another_name_are_another_dataset_that_shares_the_blob(app):
    first = ready(app, name="first")
    second = ready(app, name="second")
    assert (first["name"], second["name"]) == ("first", "second")
    assert first["id"] != second["id"]
    assert app.upload(TABLE, name="first").json()["id"] == first["id"]
    assert (app.left_behind()["datasets"], app.left_behind()["blobs"]) == (2, 1)
    assert app.send("DELETE", f"{URL}/{first['id']}").status_code == 204
    assert app.tasks(second["id"]).names == ("a", "b")
    assert app.send("DELETE", f"{URL}/{second['id']}").status_code == 204
    assert {*app.left_behind()} == {"cache"}


@contextmanager
def commits(database):
    """Yield the list of transactions that write, until the end of the block."""
    found = []

    def note(connection):
        found.append(connection)

    sa.event.listen(database.engine, "commit", note)
    yield found
    sa.event.remove(database.engine, "commit", note)


@pytest.mark.parametrize(
    ("body", "status", "n_commits"), [(TABLE, 201, 1), (b"task,x\na,1\nb\n", 422, 0)]
)
@pytest.mark.sql
def test_a_small_upload_is_stored_in_one_transaction_and_a_bad_one_in_none(
    app, body, status, n_commits
):
    with commits(app.services.database) as found:
        assert app.upload(body, headers={"idempotency-key": "k"}).status_code == status
    assert len(found) == n_commits
    left = app.left_behind()
    assert {name: left.get(name, 0) for name in ("datasets", "blobs", "idempotency_keys")} == {
        "datasets": n_commits,
        "blobs": n_commits,
        "idempotency_keys": n_commits,
    }


def test_a_small_upload_that_is_read_slowly_is_stored_before(make_app):
    app = make_app(ingest_wait_s=0)
    response = app.upload(TABLE)
    assert (response.status_code, response.json()["state"]) == (202, "ingesting")
    dataset = app.send("GET", response.headers["location"], params={"wait": 30}).json()
    assert (dataset["state"], dataset["n_samples"]) == ("ready", 2)
    assert app.left_behind()["blobs"] == 1  # of the tasks; that of the upload is deleted


@pytest.mark.slow
@pytest.mark.sql
def test_equal_uploads_at_once_are_one_dataset_however_each_is_stored(make_app):
    apps = [make_app(ingest_wait_s=wait_s) for wait_s in (0, 30, 0, 30)]
    with ThreadPoolExecutor(len(apps)) as pool:
        found = list(pool.map(lambda app: app.upload(TABLE), apps))
    assert {response.status_code for response in found} <= {200, 201, 202}
    assert len({response.json()["id"] for response in found}) == 1
    location = found[0].headers["location"]
    assert apps[0].send("GET", location, params={"wait": 30}).json()["state"] == "ready"
    assert apps[0].left_behind()["datasets"] == 1


def test_a_bad_upload_with_the_key_of_another_is_refused_for_its_key(app):
    key = {"idempotency-key": "k"}
    assert app.upload(TABLE, headers=key).status_code == 201
    refused = app.upload(b"task,x\na,1\nb\n", headers=key)
    assert (refused.status_code, refused.json()["code"]) == (422, "key-reused")


def test_the_same_bytes_with_other_options_are_another_dataset(app):
    assert ready(app)["id"] != ready(app, target_column="y")["id"]


def test_the_end_waits_for_uploads_that_are_being_parsed(make_app):
    app = make_app(ingest_wait_s=0)
    started = app.upload(TABLE)
    app.services.ingester.close(60)
    assert started.status_code == 202
    assert app.send("GET", f"{URL}/{started.json()['id']}").json()["state"] == "ready"


@pytest.mark.sql
def test_concurrent_equal_uploads_create_one_dataset(app):
    with ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(lambda _: app.upload(TABLE), range(4)))
    assert {r.status_code for r in responses} <= {200, 201, 202}
    assert len({r.json()["id"] for r in responses}) == 1
    assert app.left_behind()["datasets"] == 1


@pytest.mark.sql
def test_an_idempotency_key_returns_the_same_dataset_and_rejects_another_upload(app):
    key = {"idempotency-key": "k1"}
    first = app.upload(TABLE, headers=key)
    assert app.upload(TABLE, headers=key).json()["id"] == first.json()["id"]
    other = app.upload(TABLE + b"c,5,6\n", headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "key-reused")
    assert app.left_behind()["datasets"] == 1


@pytest.mark.sql
def test_a_rejected_upload_releases_its_idempotency_key(app):
    key = {"idempotency-key": "k1"}
    app.assert_rejected(app.upload(b"task,x\na,no\na,1\n", headers=key), "not-a-number")
    assert app.upload(TABLE, headers=key).status_code == 201


def test_the_manifest_lists_every_task(app):
    dataset = ready(app, b"task,x,y\na,1,cat\na,3,dog\n", target_column="y")
    manifest = app.send("GET", f"{URL}/{dataset['id']}/manifest").json()
    (task,) = manifest["tasks"]
    assert (task["name"], task["n_samples"], task["target"]) == ("a", 2, "classes")
    assert task["classes"] == ["cat", "dog"]
    distribution = {"n_counted": 2, "distinct": [2], "counts": [[1, *[0] * 8, 1]]}
    statistics = {"min": [1], "max": [3], "mean": [2], "std": [1], "missing": [0]}
    assert task["features"] == statistics | distribution
    assert task["target_summary"]["counts"] == {"cat": 1, "dog": 1}
    assert manifest["feature_names"] == ["x"]


@pytest.mark.sql
def test_a_statistic_that_overflows_is_null(app):
    dataset = ready(app, b"task,x\na,1e308\na,1.7e308\n")
    manifest = app.send("GET", f"{URL}/{dataset['id']}/manifest").json()
    assert manifest["tasks"][0]["features"]["mean"] == [None]


@pytest.mark.sql
def test_pages_cover_every_dataset_once_newest_first(app):
    ids = [ready(app, TABLE + f"c,{i},0\n".encode())["id"] for i in range(5)]
    seen, token = [], None
    for _ in range(3):
        page = app.send(
            "GET", URL, params={"page_size": 2, **({"page_token": token} if token else {})}
        )
        seen += [item["id"] for item in page.json()["items"]]
        token = page.json()["next_page_token"]
    assert seen == ids[::-1]
    assert token is None


@pytest.mark.sql
def test_another_owner_sees_nothing(app):
    dataset = ready(app)
    with app.services.database.write() as session:
        session.get_one(DatasetRow, dataset["id"]).owner = "ada"
    for method, path in (("GET", ""), ("GET", "/manifest"), ("DELETE", "")):
        assert app.send(method, f"{URL}/{dataset['id']}{path}").status_code == 404
    assert app.send("GET", URL).json()["items"] == []


@pytest.mark.sql
def test_a_deletion_leaves_nothing(app):
    dataset = ready(app, headers={"idempotency-key": "k"})
    assert app.send("DELETE", f"{URL}/{dataset['id']}").status_code == 204
    assert app.left_behind() == {}
    assert app.send("GET", f"{URL}/{dataset['id']}").status_code == 404


@pytest.mark.slow
@pytest.mark.sql
def test_deleting_one_of_two_datasets_with_the_same_bytes_keeps_the_other(app):
    kept = ready(app)
    deleted = ready(app, target_kind="numbers")
    assert app.send("DELETE", f"{URL}/{deleted['id']}").status_code == 204
    assert app.tasks(kept["id"]).names == ("a", "b")


@pytest.mark.parametrize("state", ["queued", "submitted", "running"])
@pytest.mark.sql
@pytest.mark.quick(1)
def test_a_dataset_of_an_active_job_cannot_be_deleted(app, state):
    dataset = ready(app)
    add_job(app, dataset["id"], state)
    response = app.send("DELETE", f"{URL}/{dataset['id']}")
    assert (response.status_code, response.json()["code"]) == (409, "in-use")
    assert "job_1" in response.json()["detail"]


@pytest.mark.sql
def test_a_dataset_of_a_model_cannot_be_deleted(app):
    dataset = ready(app)
    add_job(app, dataset["id"])
    add_version(app, dataset["id"])
    response = app.send("DELETE", f"{URL}/{dataset['id']}")
    assert (response.status_code, response.json()["code"]) == (409, "in-use")
    assert "model m, version 3" in response.json()["detail"]


@pytest.mark.slow
@pytest.mark.sql
def test_a_dataset_of_ended_jobs_can_be_deleted_and_the_jobs_remain(app):
    dataset = ready(app)
    add_job(app, dataset["id"], "failed")
    assert app.send("DELETE", f"{URL}/{dataset['id']}").status_code == 204
    assert app.send("GET", f"{URL}/{dataset['id']}").status_code == 404
    assert app.send("GET", URL).json()["items"] == []
    assert "blobs" not in app.left_behind()
    assert ready(app)["id"] != dataset["id"]


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("", TABLE),
        ("application/octet-stream", TABLE),
        ("application/xml", b"<rows/>"),
        ("application/x-npy", b"\x93NUMPY"),
        ("text/csv; charset=latin-1", TABLE),
        ("text/csv", b"PK\x03\x04" + bytes(40)),
        ("text/csv", b"\x93NUMPY" + bytes(40)),
        ("text/csv", b"\x80\x04\x95" + bytes(40)),
        ("application/x-npz", b"\x1f\x8b" + bytes(40)),
        ("application/x-npz", TABLE),
        ("application/x-npz", b"\x93NUMPY" + bytes(40)),
        ("application/x-npz", b"P"),
        ("application/zip", b"%PDF-1.4"),
        ("multipart/form-data; boundary=x", b"--x--"),
    ],
    ids=lambda value: value if isinstance(value, str) else ascii(value[:8]),
)
def test_other_formats_are_rejected_with_the_supported_ones(app, media_type, body):
    response = app.upload(body, media_type)
    assert (response.status_code, response.json()["code"]) == (415, "unsupported-media-type")
    assert "UTF-8" in response.json()["detail"] or "text/csv" in response.json()["detail"]
    assert app.left_behind() == {}


def test_another_charset_of_csv_is_an_option(app):
    refused = app.upload(TABLE.decode().encode("utf-16"), "text/csv; charset=utf-16")
    assert refused.status_code == 415
    assert "?encoding=utf-16" in refused.json()["detail"]
    assert "?encoding" not in app.upload(b"[]", "application/json; charset=utf-16").text
    assert app.upload(TABLE.decode().encode("utf-16"), encoding="utf-16").status_code == 201


def test_an_unsupported_content_encoding_is_refused(app):
    response = app.upload(TABLE, headers={"content-encoding": "br"})
    assert (response.status_code, response.json()["code"]) == (415, "unsupported-media-type")
    assert "'br'" in response.json()["detail"]
    assert "gzip or zstd" in response.json()["detail"]
    assert app.left_behind() == {}
    packed = gzip.compress(TABLE)
    assert app.upload(packed, headers={"content-encoding": "gzip"}).status_code == 201


@pytest.mark.parametrize(
    "media_type", ["TEXT/CSV", "text/csv; charset=UTF-8", "text/csv;header=present"]
)
def test_media_types_are_parsed_by_the_standard(app, media_type):
    assert app.upload(TABLE, media_type).status_code == 201


def set_state(app, dataset_id, state):
    with app.services.database.write() as session:
        session.get_one(DatasetRow, dataset_id).state = state


def test_at_the_limit_of_waiting_requests_a_dataset_is_returned_at_once(make_app, wait_until):
    app = make_app(max_waiting_requests=1)
    dataset_id = ready(app)["id"]
    set_state(app, dataset_id, "ingesting")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(app.send, "GET", f"{URL}/{dataset_id}", params={"wait": 60})
        wait_until(lambda: not app.services.waiting.has_room("local"))
        second = app.send("GET", f"{URL}/{dataset_id}", params={"wait": 60})
        assert not first.done()
        set_state(app, dataset_id, "ready")
        assert first.result().json()["state"] == "ready"
    assert (second.json()["state"], second.headers["retry-after"]) == ("ingesting", "1")
    assert app.services.waiting.has_room("local")


@pytest.mark.sql
def test_a_rejected_slow_upload_remains_with_its_issues(make_app):
    app = make_app(ingest_wait_s=0)
    url = app.upload(b"task,x\na,no\na,1\n").headers["location"]
    issue = app.send("GET", url, params={"wait": 60}).json()["issues"][0]
    assert (issue["code"], issue["task"], issue["row"]) == ("not-a-number", "a", 0)
    assert app.send("GET", f"{url}/manifest").status_code == 409
    assert set(app.left_behind()) == {"datasets"}
    assert app.send("DELETE", url).status_code == 204
    assert app.left_behind() == {}


def test_a_rejected_upload_is_parsed_again_when_sent_again(make_app):
    body = b"task,x\na,1\nb,2\n"
    strict = make_app(ingest_wait_s=0, max_tasks=1)
    rejected = strict.send("GET", strict.upload(body).headers["location"], params={"wait": 60})
    assert rejected.json()["state"] == "rejected"
    assert make_app().upload(body).status_code == 201


def test_numbers_in_a_manifest_are_finite_for_any_data(app):
    response = app.upload_npz({"a/X": np.array([[1e308], [-1e308]])})
    manifest = app.send("GET", f"{URL}/{response.json()['id']}/manifest").json()
    assert manifest["tasks"][0]["features"]["std"] == [None]


def test_names_are_found_in_lower_or_upper_case_of_any_letters(app):
    dataset = app.upload(b"task,x\na,1\na,2\n", "text/csv", name="ÄRZTE in Łódź").json()
    for text in ("ärzte", "Ärzte IN", "ŁÓDŹ", "łó"):
        found = app.send("GET", "/v1/datasets", params={"text": text}).json()["items"]
        assert [item["id"] for item in found] == [dataset["id"]], text
    assert app.send("GET", "/v1/datasets", params={"text": "arzte"}).json()["items"] == []
