"""Every invalid upload is rejected with a message and a location, and leaves nothing."""

import io
import pickle
import struct
import zipfile

import joblib
import numpy as np
import pytest

from tests.service.raw import Raw, head
from tests.written import written

NPZ = "application/x-npz"
MAX_UPLOAD = 5 * 2**20
X = np.arange(6.0).reshape(3, 2)


@pytest.fixture(scope="module")
def uploads(launch_service, uploads_to):
    limits = {
        "SIBLING_INGEST_WAIT_S": 40,
        "SIBLING_MAX_UPLOAD_BYTES": MAX_UPLOAD,
        "SIBLING_MAX_TASKS": 5,
        "SIBLING_MAX_FEATURES": 300,
        "SIBLING_MAX_NAME_LENGTH": 50,
    }
    with launch_service(**limits) as service:
        yield uploads_to(service)


@pytest.fixture
def refuse(uploads):
    """Return a function that uploads, and checks that the upload is rejected and leaves nothing."""

    def upload(body, media_type="text/csv", *, status=422, code="invalid-dataset", **query):
        before = uploads.traces()
        response = uploads.post(body, media_type, **query)
        assert (response.status_code, response.json()["code"]) == (status, code), response.text
        assert uploads.traces() == before
        return response.json()

    return upload


def npz(**arrays) -> bytes:
    return written(np.savez, **{name.replace("__", "/"): array for name, array in arrays.items()})


def archive(members) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name, data in members:
            target.writestr(name, data)
    return file.getvalue()


def npy(array) -> bytes:
    return written(np.save, array)


def npy_header(text: str) -> bytes:
    """Return a .npy file with a custom header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text.encode() + b"\n"


def pickled() -> bytes:
    return pickle.dumps({"X": [1.0, 2.0]})


def with_joblib() -> bytes:
    file = io.BytesIO()
    joblib.dump({"X": X}, file)
    return file.getvalue()


def test_all_invalid_cells_are_reported_at_once_even_with_a_row_of_the_wrong_width(refuse):
    problem = refuse(b"task,a,b\ns,1\nt,x,y\nt,1,2\nu,1,\n")
    places = [(e.get("task"), e["row"], e.get("column")) for e in problem["errors"]]
    assert places == [(None, 0, None), ("t", 1, "a"), ("t", 1, "b")]


@pytest.mark.parametrize("body", [b"", b"\n"])
def test_an_empty_body_is_rejected(refuse, body):
    refuse(body)


@pytest.mark.parametrize("media_type", ["text/csv", NPZ])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pickled(), id="pickle"),
        pytest.param(with_joblib(), id="joblib"),
        pytest.param(b"PAR1" + bytes(60) + b"PAR1", id="parquet"),
        pytest.param(npy(X), id="npy"),
    ],
)
def test_a_body_that_contradicts_its_content_type_is_rejected(refuse, body, media_type):
    refuse(body, media_type, status=415, code="unsupported-media-type")


def test_only_csv_may_be_compressed(refuse):
    packed = b"\x1f\x8b" + bytes(60)
    problem = refuse(packed, NPZ, status=415, code="unsupported-media-type")
    assert "only CSV is unpacked" in problem["detail"]
    refuse(packed, "text/csv")


DENSE = npz(t__X=np.random.default_rng(0).normal(size=(200, 20)))
#: One example of each kind of issue; the tests of each format have all of them.
FILES = {
    "a cell": (b"task,a,b\ns,1,2\nt,3,oops\n", "text/csv", "'oops'"),
    "a header": (b"task,a,a\ns,1,2\n", "text/csv", "'a'"),
    "too many tasks": (b"task,a\n1,1\n2,1\n3,1\n4,1\n5,1\n6,1\n", "text/csv", "limit"),
    "an encoding": ("task,a\né,1\n".encode() + b"\xe9,1\n", "text/csv", "UTF-8"),
    "a truncated archive": (DENSE[:-100], NPZ, "archive"),
    "objects": (npz(t__X=X, t__y=np.array([1, "a", None], dtype=object)), NPZ, "'t/y'"),
    "a value": (npz(t__X=np.array([[1.0, 2.0], [3.0, np.inf]])), NPZ, "row 1, column 1"),
    "a header of pickles": (archive([("t/X.npy", npy_header("(" * 3000))]), NPZ, "'t/X'"),
    "no task": (npz(feature_names=np.array(["a"])), NPZ, "feature_names"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_wrong_file_is_reported_in_a_sentence(refuse, kind):
    body, media_type, word = FILES[kind]
    detail = refuse(body, media_type)["detail"]
    assert word in detail
    assert "failed; the service's log" not in detail


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"speed": "high"}, "query:speed"),
        ({"name": ""}, "query:name"),
        ({"name": "n" * 201}, "query:name"),
        ({"name": "a\0b"}, "query"),
        ({"target_kind": "vibes"}, "query:target_kind"),
    ],
)
def test_an_invalid_query_names_the_parameter(refuse, query, parameter):
    problem = refuse(b"task,a\ns,1\n", status=422, code="invalid-request", **query)
    assert [e["parameter"] for e in problem["errors"]] == [parameter]


def test_a_missing_name_is_reported(uploads):
    before = uploads.traces()
    response = uploads.http.post(
        "/v1/datasets", content=b"task,a\ns,1\n", headers={"Content-Type": "text/csv"}
    )
    assert response.status_code == 422
    assert response.json()["errors"][0]["parameter"] == "query:name"
    assert uploads.traces() == before


def test_an_option_of_another_format_is_rejected(refuse):
    assert "task_column" in refuse(npz(t__X=X), NPZ, task_column="school")["detail"]


def test_a_body_with_too_large_a_content_length_is_rejected(refuse):
    problem = refuse(b"x" * (MAX_UPLOAD + 1), status=413, code="body-too-large")
    assert str(MAX_UPLOAD) in problem["detail"]


def test_a_chunked_body_above_the_limit_is_rejected(refuse):
    chunks = (b"task,a\n" + b"s,1\n" * 20_000 for _ in range(80))
    refuse(chunks, status=413, code="body-too-large")


@pytest.mark.parametrize("framing", ["Content-Length: 4900000", "Transfer-Encoding: chunked"])
def test_an_aborted_upload_leaves_nothing(uploads, wait_until, framing):
    before = uploads.traces()
    with Raw(uploads.service.url) as connection:
        connection.send(
            head("POST", "/v1/datasets?name=d", "Content-Type: text/csv", framing)
            + (b"480000\r\n" if "chunked" in framing else b"")
            + b"task,a\n"
            + 1_100_000 * b"s,1\n"  # more than a part of a blob
        )
        wait_until(lambda: len(uploads.traces()["blobs"]) > len(before["blobs"]))
    wait_until(lambda: uploads.traces() == before)
