"""Every layout is stored as uploaded, bit for bit."""

import csv
import io

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from service.datasets.canonical import read_tasks
from service.datasets.formats.npz_arrays import MISSING_TEXTS
from service.storage.blobs import BlobStore
from service.storage.tables import DatasetRow
from tests.written import written

pytestmark = pytest.mark.sql

NPZ = "application/x-npz"
EXAMPLES = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
names = st.text(
    st.characters(categories=("Lu", "Ll", "Lo", "Nd"), max_codepoint=0x2FF), min_size=1, max_size=8
).filter(lambda text: text.isprintable() and text not in MISSING_TEXTS)
floats = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def read(reader):
    """Return a function that parses an upload here and returns manifest and tasks."""

    def read_and_store(body, media_type, **options):
        result = reader.read(body, media_type, **options)
        tasks = reader.tasks(result)
        return result["manifest"], tasks

    return read_and_store


@pytest.fixture(scope="module")
def stored(uploads, tmp_path_factory):
    """Return a function that uploads and returns manifest and tasks as stored."""
    database = uploads.database
    blobs = BlobStore(database, tmp_path_factory.mktemp("cache"), cache_bytes=2**30)

    def store(body, media_type, **query):
        response = uploads.post(body, media_type, **query)
        assert response.status_code in (200, 201), response.text
        dataset_id = response.json()["id"]
        manifest = uploads.http.get(f"/v1/datasets/{dataset_id}/manifest").json()
        with database.read() as session:
            row = session.get_one(DatasetRow, dataset_id)
        path = blobs.path(row.content_blob_id, row.content_sha256)
        return manifest, read_tasks(path, row.manifest)

    return store


def npz(arrays) -> bytes:
    return written(np.savez, **arrays)


def same_bits(a, b) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


dtypes = st.sampled_from(["<f8", ">f8", "<f4", ">f4", "<f2", "<i4", ">i2", "u1", "?"])


@st.composite
def rows(draw, n_columns=None):
    d = draw(st.integers(1, 4)) if n_columns is None else n_columns
    return draw(hnp.arrays(draw(dtypes), (draw(st.integers(1, 6)), d), elements=_elements()))


def _elements():
    return {"allow_nan": False, "allow_infinity": False}


@st.composite
def targets(draw, n):
    kind = draw(st.sampled_from(["none", "floats", "integers", "text"]))
    if kind == "none":
        return None
    if kind == "text":
        return np.array(draw(st.lists(names, min_size=n, max_size=n)))
    if kind == "integers":
        return draw(hnp.arrays("<i4", n))
    return draw(hnp.arrays("<f8", n, elements=_elements()))


def expected_targets(y):
    """Return targets as stored: numbers become floats, text stays text."""
    return y if y is None or y.dtype.kind == "U" else y.astype(np.float64)


def check(manifest, tasks, sent) -> None:
    """Compare with the data that was sent: ``[(name, X, y)]``."""
    assert list(tasks.names) == [name for name, _, _ in sent]
    for task, entry, (_, X, y) in zip(tasks, manifest["tasks"], sent, strict=True):
        assert same_bits(task.X, np.ascontiguousarray(X, dtype=np.float64))
        expected = expected_targets(y)
        if expected is None:
            assert task.y is None
        elif expected.dtype.kind == "U":
            assert task.y.tolist() == expected.tolist()
            assert entry["classes"] == sorted(set(expected.tolist()))
        else:
            assert same_bits(task.y, expected)
        assert (entry["n_samples"], entry["n_features"]) == (X.shape[0], X.shape[-1])
        assert entry["target"] == task.target


@EXAMPLES
@given(data=st.data())
def test_arrays_by_task_are_restored(read, data):
    task_names = data.draw(st.lists(names, min_size=1, max_size=4, unique=True))
    sent, arrays = [], {}
    for name in task_names:
        X = data.draw(rows())
        X = np.asfortranarray(X) if data.draw(st.booleans()) else X
        y = data.draw(targets(len(X)))
        arrays |= {f"{name}/X": X} | ({} if y is None else {f"{name}/y": y})
        sent.append((name, X, y))
    check(*read(npz(arrays), NPZ), sent)


@EXAMPLES
@given(data=st.data())
def test_a_table_of_arrays_is_restored_in_the_order_of_first_rows(read, data):
    X = data.draw(rows())
    labels = np.array(data.draw(st.lists(names, min_size=len(X), max_size=len(X))))
    y = data.draw(targets(len(X)))
    arrays = {"X": X, "task": labels} | ({} if y is None else {"y": y})
    sent = [
        (name, X[labels == name], None if y is None else y[labels == name])
        for name in dict.fromkeys(labels.tolist())
    ]
    check(*read(npz(arrays), NPZ), sent)


@pytest.mark.slow  # many examples
@EXAMPLES
@given(data=st.data())
def test_a_csv_with_interleaved_tasks_is_restored(read, data):
    n, d = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    X = data.draw(hnp.arrays("<f8", (n, d), elements=_elements()))
    pool = data.draw(st.lists(names, min_size=1, max_size=3, unique=True))
    labels = np.array(data.draw(st.lists(st.sampled_from(pool), min_size=n, max_size=n)))
    # starts with a letter, so that it is not a number
    text = np.array(["k" + t for t in data.draw(st.lists(names, min_size=n, max_size=n))])
    y = data.draw(st.sampled_from([None, X[:, 0], text]))
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["task", *(f"x{j}" for j in range(d)), *([] if y is None else ["y"])])
    for i in range(n):
        own = [] if y is None else [str(y[i]) if y.dtype.kind == "U" else repr(float(y[i]))]
        writer.writerow([labels[i], *(repr(float(v)) for v in X[i]), *own])
    options = {} if y is None else {"target_column": "y"}
    manifest, tasks = read(file.getvalue().encode(), "text/csv", **options)
    sent = [
        (name, X[labels == name], None if y is None else y[labels == name])
        for name in dict.fromkeys(labels.tolist())
    ]
    check(manifest, tasks, sent)
    assert manifest["feature_names"] == [f"x{j}" for j in range(d)]


@EXAMPLES
@given(data=st.data())
def test_one_covariance_or_a_stack_is_restored(read, data):
    d, m = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([None, 1, 3]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    factors = np.random.default_rng(seed).normal(size=(m or 1, d, d + 1))
    C = factors @ factors.transpose(0, 2, 1)
    C = (C + C.transpose(0, 2, 1)) / 2
    sent = C[0] if m is None else C
    manifest, tasks = read(npz({"t/C": sent, "u/X": factors[0]}), NPZ)
    assert same_bits(tasks["t"].X, C)
    assert tasks["t"].input == manifest["tasks"][0]["input"] == "covariances"
    assert manifest["tasks"][0]["n_samples"] == (m or 1)
    assert same_bits(tasks["u"].X, factors[0])


@pytest.mark.parametrize("layout", ["arrays by task", "a table of arrays", "csv", "covariances"])
def test_the_service_stores_what_was_sent(stored, layout):
    X = np.random.default_rng(0).normal(size=(6, 3))
    labels = np.array(["süd", "b", "süd", "b", "b", "süd"])
    y = np.array(["cat", "dog", "ü", "cat", "dog", "ü"])
    sent = [(name, X[labels == name], y[labels == name]) for name in ("süd", "b")]
    if layout == "arrays by task":
        arrays = {f"{name}/X": X for name, X, _ in sent} | {f"{n}/y": y for n, _, y in sent}
        check(*stored(npz(arrays), NPZ), sent)
    elif layout == "a table of arrays":
        check(*stored(npz({"X": X, "task": labels, "y": y}), NPZ), sent)
    elif layout == "csv":
        cells = zip(labels, *X.T.tolist(), y, strict=True)
        rows_of_text = [",".join(map(str, row)) for row in cells]
        body = "\n".join(["task,x0,x1,x2,y", *rows_of_text]).encode()
        check(*stored(body, "text/csv", target_column="y"), sent)
    else:
        manifest, tasks = stored(npz({"t/C": X.T @ X}), NPZ)
        assert same_bits(tasks["t"].X, (X.T @ X)[np.newaxis])
        assert tasks["t"].input == manifest["tasks"][0]["input"] == "covariances"


def test_several_targets_without_a_task_column_become_tasks(stored):
    body = b"u,a,v,b\n1,2,x,4\n5,6,z,8\n"
    query = {"target_column": ["u", "v"]}
    manifest, tasks = stored(body, "text/csv", **query)
    assert tasks.names == ("u", "v")
    assert manifest["feature_names"] == ["a", "b"]
    assert tasks["u"].y.tolist() == [1, 5]
    assert tasks["v"].y.tolist() == ["x", "z"]
    assert all(same_bits(task.X, np.array([[2.0, 4], [6, 8]])) for task in tasks)


@pytest.mark.parametrize("y", [[0, 1, 1], [0.0, 1.0, 1.0]])
def test_integers_are_classes_if_requested(stored, y):
    arrays = {"t/X": np.eye(3), "t/y": np.array(y)}
    manifest, tasks = stored(npz(arrays), NPZ, target_kind="classes")
    assert tasks["t"].y.tolist() == [0, 1, 1]
    assert manifest["tasks"][0]["classes"] == [0, 1]


def test_numbers_of_any_size_are_restored(stored):
    X = np.array([[1e308, -1.7e308, 5e-324], [1.7e308, 1.7e308, 0]])
    _, tasks = stored(npz({"t/X": X}), NPZ)
    assert same_bits(tasks["t"].X, X)


def test_a_byte_order_mark_blank_lines_and_quotes_are_read(stored):
    body = '\ufefftask,"a,b",c\r\n"s, one",1,2\r\n\r\n"s, one",3,4\r\n\r\n'
    manifest, tasks = stored(body.encode(), "text/csv; charset=utf-8")
    assert manifest["feature_names"] == ["a,b", "c"]
    assert tasks["s, one"].X.tolist() == [[1, 2], [3, 4]]


def test_a_name_is_found_in_any_unicode_form(stored):
    body = "task,e\u0301\ns,1\n".encode()
    manifest, _ = stored(body, "text/csv", task_column="task")
    assert manifest["feature_names"] == ["\u00e9"]
