"""Every bad upload is refused with a sentence and its place, and leaves nothing behind."""

import io
import pickle
import socket
import struct
import warnings
import zipfile

import joblib
import numpy as np
import pytest

NPZ = "application/x-npz"
MAX_UPLOAD = 2 * 2**20
X = np.arange(6.0).reshape(3, 2)


@pytest.fixture(scope="module")
def uploads(launch_service, uploads_to):
    limits = {
        "SIBLING_INGEST_WAIT_S": 40,
        "SIBLING_MAX_UPLOAD_BYTES": MAX_UPLOAD,
        "SIBLING_MAX_EXPANDED_BYTES": 32 * 2**20,
        "SIBLING_MAX_TASKS": 5,
        "SIBLING_MAX_FEATURES": 300,
        "SIBLING_MAX_NAME_LENGTH": 50,
    }
    with launch_service(SIBLING_SLOTS=1, **limits) as service:
        yield uploads_to(service)


@pytest.fixture
def refuse(uploads):
    """Give a function that uploads, and checks that the upload is refused without a trace."""

    def upload(body, media_type="text/csv", *, status=422, code="invalid-dataset", **query):
        before = uploads.traces()
        response = uploads.post(body, media_type, **query)
        assert (response.status_code, response.json()["code"]) == (status, code), response.text
        assert uploads.traces() == before
        return response.json()

    return upload


def npz(**arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **{name.replace("__", "/"): array for name, array in arrays.items()})
    return file.getvalue()


def archive(members, compression=zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as target:
        for name, data in members:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that a name comes twice is meant
                target.writestr(name, data)
    return file.getvalue()


def npy(array, **kwargs) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **kwargs)
    return file.getvalue()


def npy_header(text: str, data: bytes = b"") -> bytes:
    """Give a .npy file with a header of our own making."""
    head = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def pickled() -> bytes:
    return pickle.dumps({"X": [1.0, 2.0]})


def with_joblib() -> bytes:
    file = io.BytesIO()
    joblib.dump({"X": X}, file)
    return file.getvalue()


CELLS = {
    "text": ("oops", "'oops'"),
    "NaN": ("nan", "finite"),
    "infinity": ("-inf", "finite"),
    "an empty cell": ("", "empty"),
    "a blank cell": ("  ", "empty"),
    "a grouped number": ("1_000", "'1_000'"),
    "digits of another script": ("١٢", "number"),
    "a NUL": ("1\0", "number"),
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_bad_cell_is_named_by_task_row_and_column(refuse, kind):
    cell, word = CELLS[kind]
    problem = refuse(f"task,a,b\ns,1,2\nt,3,{cell}\n".encode())
    [place] = problem["errors"]
    assert word in problem["detail"]
    assert (place["task"], place["row"], place["column"]) == ("t", 1, "b")
    assert all(part in problem["detail"] for part in ("'t'", "line 3", "'b'"))


def test_every_bad_cell_is_told_at_once_also_beside_a_row_of_wrong_width(refuse):
    problem = refuse(b"task,a,b\ns,1\nt,x,y\nt,1,2\nu,1,\n")
    places = [(e.get("task"), e["row"], e.get("column")) for e in problem["errors"]]
    assert places == [(None, 0, None), ("t", 1, "a"), ("t", 1, "b"), ("u", 3, "b")]


def test_a_thousand_complaints_are_bounded(refuse):
    body = "task,a,b\n" + "s,1,2\n" * 50 + "s,x,y\n" * 1000
    errors = refuse(body.encode())["errors"]
    assert len(errors) == 100


TABLES = {
    "one row too narrow": (b"task,a,b\ns,1,2\ns,1\n", {}, "line 3"),
    "one row too wide": (b"task,a\ns,1\ns,1,2\n", {}, "3 cells"),
    "duplicate header": (b"task,a,a\ns,1,2\n", {}, "'a'"),
    "unnamed column": (b",task,a\n0,s,1\n", {}, "column 0"),
    "no task column": (b"a,b\n1,2\n", {}, "task_column"),
    "absent task column": (b"task,a\ns,1\n", {"task_column": "school"}, "'school'"),
    "absent target column": (b"task,a\ns,1\n", {"target_column": "score"}, "'score'"),
    "one column twice": (b"task,a,y\ns,1,2\n", {"target_column": ["y", "y"]}, "'y'"),
    "task as target": (b"task,a\ns,1\n", {"target_column": "task"}, "'task'"),
    "no features": (b"task,y\ns,1\n", {"target_column": "y"}, "none is left as a feature"),
    "header only": (b"task,a,b\n", {}, "no rows"),
    "blank lines only": (b"\n\n", {}, "first line"),
    "not UTF-8": (b"task,a\n" + b"s,1\n" * 9000 + b"\xff,1\n", {}, "line 9002"),
    "UTF-16": ("task,a\ns,1\n".encode("utf-16"), {}, "UTF-8"),
    "unclosed quote": (b'task,a\ns,1\n"s,1\ns,1\n', {}, "quote"),
    "a quote in a cell": (b'task,a\n"s"x,1\n', {}, "line 2"),
    "a huge cell": (b"task,a\ns," + b"1" * 200_000 + b"\n", {}, "131072"),
    "an empty task name": (b"task,a\ns,1\n ,1\n", {}, "line 3"),
    "a long task name": (b"task,a\n" + b"s" * 51 + b",1\n", {}, "51 characters"),
    "a control character": (b"task,a\ns\x07,1\n", {}, "control character"),
    "one column in two forms": ("task,\u00e9,e\u0301\ns,1,2\n".encode(), {}, "2 columns"),
    "too many tasks": (b"task,a\n1,1\n2,1\n3,1\n4,1\n5,1\n6,1\n", {}, "limit"),
    "too many columns": (
        b"task," + b",".join(b"c%d" % i for i in range(301)) + b"\n",
        {},
        "301 columns",
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_wrong_table_is_told_in_a_sentence(refuse, kind):
    body, options, word = TABLES[kind]
    assert word in refuse(body, **options)["detail"]


@pytest.mark.parametrize(
    ("cells", "kind", "row", "word"),
    [
        (["1", "", "2"], "auto", 1, "empty"),
        (["1", "2", "x"], "auto", 2, "target_kind=classes"),
        (["1", "2", "x"], "numbers", 2, "'x'"),
        (["1", "nan", "2"], "auto", 1, "nan"),
    ],
)
def test_a_bad_target_in_a_table_is_named_by_row_and_column(refuse, cells, kind, row, word):
    body = "task,a,y\nu,1,1\n" + "".join(f"t,1,{cell}\n" for cell in cells)
    problem = refuse(body.encode(), target_column="y", target_kind=kind)
    assert word in problem["detail"]
    place = problem["errors"][0]
    assert (place["task"], place["row"], place["column"]) == ("t", row + 1, "y")


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [(b"", "invalid-dataset", 422), (b"\n", "invalid-dataset", 422)],
)
def test_an_empty_body_is_refused(refuse, body, code, status):
    refuse(body, status=status, code=code)


@pytest.mark.parametrize("media_type", ["text/csv", NPZ])
@pytest.mark.parametrize(
    "body",
    {
        "pickle": pickled(),
        "joblib": with_joblib(),
        "parquet": b"PAR1" + bytes(60) + b"PAR1",
        "npy": npy(X),
        "gzip": b"\x1f\x8b" + bytes(60),
    }.values(),
)
def test_another_format_under_a_false_name_is_refused(refuse, body, media_type):
    refuse(body, media_type, status=415, code="unsupported-media-type")


@pytest.mark.parametrize("media_type", ["", "multipart/form-data", "application/octet-stream"])
def test_a_content_type_that_is_not_read_names_those_that_are(refuse, media_type):
    problem = refuse(b"task,a\ns,1\n", media_type, status=415, code="unsupported-media-type")
    assert "text/csv" in problem["detail"]


def test_an_npz_under_the_name_of_csv_is_refused(refuse):
    refuse(npz(t__X=X), status=415, code="unsupported-media-type")


def flipped(body: bytes) -> bytes:
    middle = len(body) // 3
    return body[:middle] + bytes(b ^ 0xFF for b in body[middle : middle + 40]) + body[middle + 40 :]


def encrypted() -> bytes:
    body = bytearray(npz(t__X=X))
    body[6] |= 1
    directory = body.index(b"PK\x01\x02")
    body[directory + 8] |= 1
    return bytes(body)


DENSE = np.random.default_rng(0).normal(size=(200, 20))


ARCHIVES = {
    "truncated": (npz(t__X=DENSE)[:-100], "archive"),
    "cut in half": (npz(t__X=DENSE)[:2000], "archive"),
    "damaged, stored": (flipped(npz(t__X=DENSE)), "t/X"),
    "damaged, deflated": (
        flipped(archive([("t/X.npy", npy(DENSE))], zipfile.ZIP_DEFLATED)),
        "t/X",
    ),
    "encrypted": (encrypted(), "encrypted"),
    "another compression": (archive([("t/X.npy", npy(X))], zipfile.ZIP_LZMA), "compress"),
    "only the magic": (b"PK\x03\x04", "archive"),
    "empty": (archive([]), "no arrays"),
    "not arrays": (archive([("readme.txt", b"hello")]), "'readme.txt'"),
    "not an array": (archive([("t/X.npy", b"hello, I am long enough")]), "'t/X.npy'"),
    "same name twice": (
        archive([("t/X.npy", npy(X)), ("t/y.npy", npy(X[:, 0])), ("t/y.npy", npy(X[:, 0]))]),
        "'t/y.npy'",
    ),
    "same name in two forms": (
        archive([("e\u0301/X.npy", npy(X)), ("\u00e9/X.npy", npy(X + 1))]),
        "Unicode",
    ),
    "objects": (npz(t__X=X, t__y=np.array([1, "a", None], dtype=object)), "'t/y'"),
    "mixed labels": (npz(t__X=X, t__y=np.array([1, "a", 2.5], dtype=object)), "objects"),
    "objects in a field": (npz(t__X=np.zeros(3, [("a", "O"), ("b", "f8")])), "dtype"),
    "fields": (npz(t__X=np.zeros((3, 2), [("a", "f8"), ("b", "f8")])), "'t/X'"),
    "complex": (npz(t__X=X + 1j), "'<c16'"),
    "times": (npz(t__X=np.zeros((3, 2), "datetime64[s]")), "'<M8[s]'"),
    "text": (npz(t__X=np.full((3, 2), "a")), "'t/X'"),
    "bytes": (npz(t__X=X, t__y=np.array([b"a", b"b", b"c"])), "'t/y'"),
    "NaN": (npz(t__X=np.array([[1.0, 2.0], [3.0, np.nan]])), "row 1, column 1"),
    "infinity": (npz(t__X=np.array([[1.0, -np.inf], [3.0, 4.0]])), "row 0, column 1"),
    "inexact integers": (npz(t__X=np.full((3, 2), 2**53 + 1)), "2**53"),
    "one dimension": (npz(t__X=np.arange(3.0)), "got (3,)"),
    "no dimension": (npz(t__X=np.float64(3)), "got ()"),
    "three dimensions": (npz(t__X=np.zeros((2, 2, 2))), "got (2, 2, 2)"),
    "no rows": (npz(t__X=np.zeros((0, 2))), "row at least"),
    "no columns": (npz(t__X=np.zeros((2, 0))), "column at least"),
    "y too short": (npz(t__X=X, t__y=X[:2, 0]), "'t/y'"),
    "y of two dimensions": (npz(t__X=X, t__y=X), "got (3, 2)"),
    "y NaN": (npz(t__X=X, t__y=np.array([1, np.nan, 2])), "row 1"),
    "empty label": (npz(t__X=X, t__y=np.array(["a", "", "b"])), "empty"),
    "label with a control character": (npz(t__X=X, t__y=np.array(["a", "\x07", "b"])), "label"),
    "lone surrogate": (npz(t__X=X, t__y=np.array(["a", "\ud800", "b"])), "'t/y'"),
    "no character": (
        npz(t__X=X, t__y=np.array([1, 0x7FFFFFFF, 2], "<u4").view("<U1")),
        "'t/y'",
    ),
    "y without X": (npz(t__y=X[:, 0]), "'t'"),
    "C and X": (npz(t__X=X, t__C=np.eye(2)), "C alone"),
    "C not square": (npz(t__C=X), "square"),
    "C not symmetric": (npz(t__C=np.array([[1.0, 2.0], [0.0, 1.0]])), "not symmetric"),
    "C indefinite": (npz(t__C=-np.eye(2)), "eigenvalue"),
    "no task": (npz(X=X, y=X[:, 0]), "'X'"),
    "unknown part": (npz(t__Z=X), "'t/Z'"),
    "unknown array in a table": (npz(X=X, task=np.array([1, 1, 2]), z=X), "'z'"),
    "table of other length": (npz(X=X, task=np.array([1, 2])), "'task'"),
    "task of fractions": (npz(X=X, task=np.array([1.5, 1, 2])), "'task'"),
    "y of other length in a table": (npz(X=X, task=np.array([1, 1, 2]), y=X[:2, 0]), "'y'"),
    "names of other number": (npz(t__X=X, feature_names=np.array(["a"])), "feature_names"),
    "the same name for two columns": (
        npz(t__X=X, feature_names=np.array(["a", "a"])),
        "two columns",
    ),
    "a path": (archive([("../x/X.npy", npy(X))]), "'../x/X.npy'"),
    "an absolute path": (archive([("/x/X.npy", npy(X))]), "'/x/X.npy'"),
    "a control character": (archive([("a\nb/X.npy", npy(X))]), "control character"),
    "a long name": (archive([("t" * 51 + "/X.npy", npy(X))]), "51 characters"),
    "too many tasks": (archive([(f"{i}/X.npy", npy(X)) for i in range(6)]), "limit"),
    "too many columns": (npz(t__X=np.zeros((1, 301))), "301 columns"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_wrong_npz_is_told_in_a_sentence(refuse, kind):
    body, word = ARCHIVES[kind]
    detail = refuse(body, NPZ)["detail"]
    assert word in detail
    assert "failed; the service's log" not in detail


HEADERS = {
    "absurd shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 9)}",
    "absurd and empty": "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 10**30)}",
    "huge and empty": f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {10**30})}}",
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -2)}",
    "negative one": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2)}",
    "not a header": "{'descr': '<f8', 'fortran_order'",
    "deep": "(" * 3000,
    "code": "__import__('os').getpid()",
    "unknown dtype": "{'descr': 'q9', 'fortran_order': False, 'shape': (3, 2)}",
    "too long": "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2)}" + " " * 20_000,
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_damaged_header_names_the_array(refuse, kind):
    header = HEADERS[kind]
    member = npy_header(header, b"" if "empty" in kind else X.tobytes())
    detail = refuse(archive([("t/X.npy", member)]), NPZ)["detail"]
    assert "'t/X'" in detail
    assert "failed; the service's log" not in detail


def test_an_archive_without_a_task_is_refused(refuse):
    refuse(npz(feature_names=np.array(["a"])), NPZ)


def test_a_bomb_by_ratio_is_refused(refuse):
    body = archive([("t/X.npy", npy(np.zeros((12_000, 250))))], zipfile.ZIP_DEFLATED)
    assert "times as large" in refuse(body, NPZ)["detail"]


def test_a_bomb_by_size_is_refused(refuse):
    body = archive([("t/X.npy", npy(np.zeros((20_000, 250))))], zipfile.ZIP_DEFLATED)
    assert str(32 * 2**20) in refuse(body, NPZ)["detail"]


def test_a_member_that_lies_about_its_size_is_refused(refuse):
    body = bytearray(archive([("t/X.npy", npy(DENSE))], zipfile.ZIP_DEFLATED))
    directory = body.index(b"PK\x01\x02")
    body[directory + 24 : directory + 28] = struct.pack("<I", 200)
    refuse(bytes(body), NPZ)


@pytest.mark.parametrize("y", [[0.5, 1, 2], [np.inf, 1, 2], [1e300, 1, 2]])
def test_classes_that_are_not_whole_numbers_are_refused(refuse, y):
    problem = refuse(npz(t__X=X, t__y=np.array(y)), NPZ, target_kind="classes")
    assert (problem["errors"][0]["task"], problem["errors"][0]["row"]) == ("t", 0)


def test_text_is_no_number_also_in_arrays(refuse):
    body = npz(t__X=X, t__y=np.array(["1", "2", "3"]))
    assert "text" in refuse(body, NPZ, target_kind="numbers")["detail"]


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
def test_a_wrong_query_names_the_parameter(refuse, query, parameter):
    problem = refuse(b"task,a\ns,1\n", status=422, code="invalid-request", **query)
    assert [e["parameter"] for e in problem["errors"]] == [parameter]


def test_a_missing_name_is_named(uploads):
    before = uploads.traces()
    response = uploads.http.post(
        "/v1/datasets", content=b"task,a\ns,1\n", headers={"Content-Type": "text/csv"}
    )
    assert response.status_code == 422
    assert response.json()["errors"][0]["parameter"] == "query:name"
    assert uploads.traces() == before


def test_an_option_without_meaning_for_the_format_is_refused(refuse):
    assert "task_column" in refuse(npz(t__X=X), NPZ, task_column="school")["detail"]


def test_a_body_that_says_it_is_too_large_is_refused(refuse):
    problem = refuse(b"x" * (MAX_UPLOAD + 1), status=413, code="body-too-large")
    assert str(MAX_UPLOAD) in problem["detail"]


def test_a_chunked_body_that_turns_out_too_large_is_refused(refuse):
    chunks = (b"task,a\n" + b"s,1\n" * 20_000 for _ in range(80))
    refuse(chunks, status=413, code="body-too-large")


@pytest.mark.parametrize("framing", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
def test_a_sender_who_hangs_up_leaves_nothing(uploads, wait_until, framing):
    before = uploads.traces()
    host, _, port = uploads.service.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            b"POST /v1/datasets?name=d HTTP/1.1\r\nHost: s\r\nContent-Type: text/csv\r\n"
            + framing
            + b"\r\n\r\n"
            + (b"10000\r\n" if b"chunked" in framing else b"")
            + b"task,a\ns,1\n"
        )
        wait_until(lambda: len(uploads.traces()["blobs"]) > len(before["blobs"]))
    wait_until(lambda: uploads.traces() == before)
