"""Resumable uploads (tus protocol)."""

import base64
import hashlib
import threading
from datetime import timedelta

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.retention import store as retention
from service.storage import blobs
from service.storage.database import now
from service.storage.tables import BlobChunkRow, BlobRow, UploadRow
from tests.written import written

URL = "/v1/uploads"
PART = {"Content-Type": "application/offset+octet-stream"}
TABLE = ("task,x,y\n" + "".join(f"{'ab'[i % 2]},{i},{i * i}\n" for i in range(60))).encode()


LENGTH = len(TABLE)


def begin(
    app, length=LENGTH, *, media_type="text/csv", name="parts", tag=None, sha256=None, **headers
):
    values = {"filetype": media_type} | ({} if tag is None else {"tag": tag})
    values |= {} if sha256 is None else {"sha256": sha256}
    pairs = [f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in values.items()]
    sent = {"Upload-Length": str(length), "Upload-Metadata": ",".join(pairs), **headers}
    return app.send("POST", f"{URL}?name={name}", headers=sent)


def patch(app, location, offset, data, **headers):
    sent = {**PART, "Upload-Offset": str(offset), **headers}
    return app.send("PATCH", location, content=data, headers=sent)


def finished(app, location):
    """Return the dataset of an upload once it has been read."""
    dataset_id = app.send("GET", location).json()["dataset_id"]
    assert dataset_id
    return app.send("GET", f"/v1/datasets/{dataset_id}?wait=60").json()


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [17, 64, 10_000])
def test_parts_of_any_size_are_the_whole_file(app, monkeypatch, chunk):
    monkeypatch.setattr(blobs, "CHUNK_BYTES", chunk)

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(1, len(TABLE) - 1), max_size=6), st.integers(0, 10**9))
    def check(cuts, salt):
        body = TABLE.replace(b"x,y", b"x,c%d" % salt)
        location = begin(app, len(body)).headers["location"]
        ends = [*sorted({*cuts}), len(body)]
        for start, end in zip([0, *ends], ends, strict=False):
            response = patch(app, location, start, body[start:end])
            assert response.status_code == 204, response.text
            assert response.headers["upload-offset"] == str(end)
        dataset = finished(app, location)
        whole = app.upload(body, name="parts")
        assert (whole.status_code, whole.json()["id"]) == (200, dataset["id"])
        assert dataset["state"] == "ready"

    check()


def test_the_protocol_is_described_and_its_headers_are_sent(app):
    described = app.send("OPTIONS", URL)
    assert described.status_code == 204
    assert described.headers["tus-version"] == "1.0.0"
    assert described.headers["tus-extension"] == "creation,expiration,termination"
    begun = begin(app, tag="my file")
    assert begun.status_code == 201
    location = begun.headers["location"]
    patch(app, location, 0, TABLE[:100])
    found = app.send("GET", location)
    assert found.headers["upload-offset"] == "100"
    assert found.headers["upload-length"] == str(len(TABLE))
    assert found.headers["tus-resumable"] == "1.0.0"
    assert found.headers["cache-control"] == "no-store"
    assert "upload-expires" in found.headers
    upload = app.send("GET", location).json()
    assert (upload["offset"], upload["tag"], upload["dataset_id"]) == (100, "my file", None)
    assert [one["id"] for one in app.send("GET", URL).json()["items"]] == [upload["id"]]


@pytest.mark.sql
def test_a_part_that_does_not_begin_where_the_last_ended_changes_nothing(app):
    location = begin(app).headers["location"]
    patch(app, location, 0, TABLE[:100])
    for offset in (0, 99, 101):
        response = patch(app, location, offset, b"x")
        assert (response.status_code, response.json()["code"]) == (409, "offset-mismatch")
    assert patch(app, location, 100, TABLE[100:]).status_code == 204
    assert patch(app, location, len(TABLE), b"x").status_code == 409
    assert finished(app, location)["n_samples"] == 60


@pytest.mark.parametrize("n_writers", [2, 3, 6, 8])
@pytest.mark.sql
def test_of_writers_at_the_same_offset_one_wins(app, monkeypatch, n_writers):
    monkeypatch.setattr(blobs, "CHUNK_BYTES", 64)
    location = begin(app).headers["location"]
    barrier = threading.Barrier(n_writers)
    codes = []

    def write(i):
        barrier.wait()
        codes.append(patch(app, location, 0, bytes([i]) * 300).status_code)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(n_writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(codes)) in ([204], [204, 409])
    assert codes.count(204) == 1
    with app.services.database.read() as session:
        chunks = session.scalars(sa.select(BlobChunkRow.data).order_by(BlobChunkRow.position)).all()
    assert len(set(b"".join(map(bytes, chunks)))) == 1  # not mixed


@pytest.mark.parametrize(
    ("data", "headers", "status", "code", "word"),
    [
        (TABLE + b"x", {}, 413, "body-too-large", "are left"),
        (TABLE, {"Content-Type": "text/csv"}, 415, "unsupported-media-type", "offset+octet"),
        (b"PK\x03\x04" + TABLE[4:], {}, 415, "unsupported-media-type", "NumPy"),
        (TABLE, {"Upload-Offset": "-1"}, 422, "invalid-request", "greater"),
        (TABLE, {"Tus-Resumable": "0.2.2"}, 412, "unsupported-version", "1.0.0"),
    ],
)
@pytest.mark.quick(2)
def test_a_part_that_cannot_be_used_is_told(app, data, headers, status, code, word):
    location = begin(app).headers["location"]
    response = patch(app, location, 0, data, **headers)
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    assert word in response.json()["detail"]
    assert app.send("GET", location).json()["offset"] == 0
    assert patch(app, location, 0, TABLE).status_code == 204
    assert finished(app, location)["state"] == "ready"


def test_a_method_without_a_route_names_the_version_of_the_protocol(app):
    location = begin(app).headers["location"]
    for method, path in (("PUT", "/v1/uploads"), ("POST", location)):
        response = app.send(method, path)
        assert response.status_code == 405
        assert response.headers["tus-resumable"] == "1.0.0"
        assert "GET" in response.headers["allow"]


@pytest.mark.parametrize(
    ("headers", "status", "word"),
    [
        ({"Upload-Length": "0"}, 422, "greater"),
        ({"Upload-Length": "x"}, 422, "integer"),
        ({"Upload-Length": "99999999999999"}, 413, "limit"),
        ({"Upload-Metadata": "name eA=="}, 422, "filetype"),
        ({"Upload-Metadata": "filetype not base64!"}, 422, "base64"),
        ({"Upload-Metadata": "filetype eA==,filetype eA=="}, 422, "another pair"),
        ({"Upload-Metadata": "filetype eA=="}, 415, "not supported"),
        ({"Upload-Metadata": "filetype dGV4dC9jc3Y=,sha256 eA=="}, 422, "64 hexadecimal"),
        ({"Tus-Resumable": "2.0.0"}, 412, "1.0.0"),
        ({"Upload-Concat": "partial"}, 422, "cannot be concatenated"),
        ({"Upload-Concat": "final;/v1/uploads/a /v1/uploads/b"}, 422, "cannot be concatenated"),
        ({"Upload-Defer-Length": "1"}, 422, "Upload-Length"),
    ],
)
def test_an_upload_that_cannot_begin_is_told(app, headers, status, word):
    response = begin(app, **headers)
    assert response.status_code == status, response.text
    assert word in response.json()["detail"]
    assert app.left_behind() == {}


def test_a_client_that_can_only_post_names_the_method(app):
    location = begin(app).headers["location"]
    override = {"X-HTTP-Method-Override": "patch", "Upload-Offset": "0", **PART}
    sent = app.send("POST", location, content=TABLE, headers=override)
    assert (sent.status_code, sent.headers["upload-offset"]) == (204, str(LENGTH))
    assert finished(app, location)["state"] == "ready"
    deleted = app.send("POST", location, headers={"X-HTTP-Method-Override": "DELETE"})
    assert deleted.status_code == 204
    assert app.send("GET", location).status_code == 404
    for method in ("PUT", "GET", ""):  # others are those of POST
        answer = app.send("POST", location, headers={"X-HTTP-Method-Override": method})
        assert answer.status_code == 405
    elsewhere = app.send("POST", "/v1/datasets/x", headers={"X-HTTP-Method-Override": "DELETE"})
    assert elsewhere.status_code == 405


def test_bytes_that_differ_from_the_declared_sha256_make_no_dataset(app):
    declared = hashlib.sha256(TABLE).hexdigest()
    location = begin(app, sha256=declared).headers["location"]
    assert patch(app, location, 0, TABLE[:100]).status_code == 204
    response = patch(app, location, 100, TABLE[100:].replace(b"7", b"8"))
    assert (response.status_code, response.json()["code"]) == (422, "checksum-mismatch")
    assert declared in response.json()["detail"]
    assert app.send("GET", location).status_code == 404
    assert app.left_behind() == {}
    again = begin(app, sha256=declared).headers["location"]
    assert patch(app, again, 0, TABLE).status_code == 204
    assert finished(app, again)["state"] == "ready"


def test_errors_name_the_version_of_the_protocol(app):
    location = begin(app).headers["location"]
    errors = {
        404: app.send("GET", f"{URL}/up_1"),
        409: patch(app, location, 5, b"x"),
        412: patch(app, location, 0, b"x", **{"Tus-Resumable": "0.1"}),
        413: patch(app, location, 0, TABLE + b"x"),
        415: patch(app, location, 0, b"x", **{"Content-Type": "text/csv"}),
        422: app.send("PATCH", location, headers=PART),
    }
    for status, response in errors.items():
        assert response.status_code == status
        assert response.headers["tus-resumable"] == "1.0.0"


def test_a_rejected_file_is_a_rejected_dataset(app):
    body = b"task,x\na,1,2\n"
    location = begin(app, len(body)).headers["location"]
    assert patch(app, location, 0, body).status_code == 204
    dataset = finished(app, location)
    assert dataset["state"] == "rejected"
    assert dataset["issues"][0]["code"]


def test_the_same_bytes_as_before_are_the_dataset_of_before(app):
    first = app.upload(TABLE, name="parts").json()["id"]
    for name in ("parts", "other"):
        location = begin(app, name=name).headers["location"]
        patch(app, location, 0, TABLE)
        dataset = finished(app, location)
        assert (dataset["id"] == first, dataset["name"]) == (name == "parts", name)
    assert app.left_behind()["blobs"] == 1


@pytest.mark.sql
def test_an_upload_whose_process_died_after_the_last_byte_is_completed(app):
    location = begin(app).headers["location"]
    upload_id = location.rpartition("/")[2]
    with app.services.database.read() as session:
        blob_id = session.get_one(UploadRow, upload_id).blob_id
    appender = app.services.blobs.appender(blob_id)
    appender.write(TABLE)
    appender.flush()
    assert app.send("GET", location).headers["upload-offset"] == str(len(TABLE))
    assert finished(app, location)["state"] == "ready"


@pytest.mark.sql
def test_an_upload_is_deleted_with_its_bytes(app):
    location = begin(app).headers["location"]
    patch(app, location, 0, TABLE[:100])
    assert app.send("DELETE", location).status_code == 204
    assert app.left_behind() == {}
    for method in ("GET", "DELETE"):
        assert app.send(method, location).status_code == 404
    assert patch(app, location, 100, TABLE[100:]).status_code == 404


@pytest.mark.sql
def test_an_upload_expires_after_its_last_byte(app):
    location = begin(app).headers["location"]
    patch(app, location, 0, TABLE[:100])
    database = app.services.database
    assert sum(retention.expire_uploads(database, now() - timedelta(days=1))) == 0
    with database.write() as session:
        long_ago = {"id": "up_00000000000000000000000000", "updated_at": now() - timedelta(days=3)}
        session.execute(sa.update(UploadRow).values(long_ago))
    # its last byte is recent
    assert sum(retention.expire_uploads(database, now() - timedelta(days=1))) == 0
    with database.write() as session:
        session.execute(sa.update(BlobRow).values(created_at=now() - timedelta(days=3)))
    assert sum(retention.expire_uploads(database, now() - timedelta(days=1))) == 1
    assert sum(retention.expire_blobs(database, now() - timedelta(days=1))) >= 1
    assert app.left_behind() == {}


@pytest.mark.sql
def test_arrays_in_parts_over_chunks_of_the_store(app):
    X = np.random.default_rng(0).standard_normal((20_000, 40))
    body = written(np.savez, **{"a/X": X})
    location = begin(app, len(body), media_type="application/x-npz").headers["location"]
    step = 3_000_001
    for start in range(0, len(body), step):
        assert patch(app, location, start, body[start : start + step]).status_code == 204
    dataset = finished(app, location)
    np.testing.assert_array_equal(app.tasks(dataset["id"])["a"].X, X)
