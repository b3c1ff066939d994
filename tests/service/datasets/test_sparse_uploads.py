"""Sparse matrices in uploads: read to the bit, stored sparse, refused where they are broken."""

import io

import h5py
import numpy as np
import pytest
import scipy.io
from safetensors.numpy import save
from scipy.sparse import coo_array, csc_array, csr_array, random_array, save_npz

from service.datasets.blocks import DatasetReader
from service.datasets.canonical import read_all_rows
from tests.written import cells, written

MATLAB = "application/x-matlab-data"
PARTS = ("data", "indices", "indptr", "shape")


def matrix(seed=0, n=7, d=40, density=0.1):
    rng = np.random.default_rng(seed)
    sampler = rng.standard_normal
    return random_array((n, d), density=density, rng=rng, format="csr", data_sampler=sampler)


def parts(matrix, name="a/X", **changed):
    """Return the arrays of a matrix in .npz, with some parts changed or left out (None)."""
    arrays = {part: getattr(matrix, part) for part in PARTS[:3]}
    arrays |= {"shape": np.array(matrix.shape)} | changed
    return {f"{name}.{part}": value for part, value in arrays.items() if value is not None}


def assert_same(task, expected):
    """Check that rows are stored sparse, with the very same values."""
    assert isinstance(task.X, csr_array)
    assert task.X.dtype == np.float64
    assert task.X.has_canonical_format
    for part in PARTS:
        np.testing.assert_array_equal(getattr(task.X, part), getattr(expected, part))


def test_sparse_tasks_of_npz_are_stored_sparse(reader):
    A, B, y = matrix(0), matrix(1, n=3), np.arange(7.0)
    arrays = parts(A) | {"a/y": y} | parts(B, "b c/X") | {"b c/y": y[:3]}
    result = reader.read_npz(arrays)
    tasks = reader.tasks(result)
    assert_same(tasks["a"], A)
    assert_same(tasks["b c"], B)
    entry = result["manifest"]["tasks"][0]
    assert (entry["n_samples"], entry["n_features"], entry["n_stored"]) == (7, 40, A.nnz)
    np.testing.assert_allclose(entry["features"]["mean"], A.toarray().mean(0), atol=1e-15)
    assert entry["features"]["max"] == A.toarray().max(0).tolist()
    assert result["manifest"].get("columns") is None
    dense = reader.read_npz({"a/X": A.toarray(), "a/y": y})["manifest"]["tasks"][0]
    same = ("rows_hash", "n_divisible", "n_units")
    assert [entry[name] for name in same] == [dense[name] for name in same]


def test_a_sparse_table_is_divided_by_task(reader):
    A = matrix(2, n=6)
    task, y = np.array(["u", "v", "u", "v", "u", "v"]), np.array([1.0, 2, np.nan, 4, 5, 6])
    groups = np.array([1, 2, 3, 4, 5, 6])
    arrays = parts(A, "X") | {"task": task, "y": y, "groups": groups}
    result = reader.read_npz(arrays)
    tasks = reader.tasks(result)
    assert_same(tasks["u"], A[[0, 4]])
    assert_same(tasks["v"], A[[1, 3, 5]])
    assert tasks["u"].groups.tolist() == [1, 5]
    every = read_all_rows(reader.folder / "content", result["manifest"])
    np.testing.assert_array_equal(every["u"].X.toarray(), A[[0, 4, 2]].toarray())


def test_columns_of_sparse_tasks_are_matched_by_name(reader):
    A = matrix(3, d=4, density=0.5)
    names = np.array(["p", "q", "r", "s"])
    order = [2, 0, 3, 1]
    arrays = parts(A) | {"a/feature_names": names}
    arrays |= parts(A[:, order].tocsr(), "b/X") | {"b/feature_names": names[order]}
    tasks = reader.tasks(reader.read_npz(arrays))
    assert tasks["b"].feature_names == tuple(names)
    assert_same(tasks["b"], A)


def test_all_arrays_of_save_npz_are_read(reader):
    A, file = matrix(5), io.BytesIO()
    save_npz(file, A)
    arrays = {f"a/X.{name}": array for name, array in np.load(io.BytesIO(file.getvalue())).items()}
    assert "a/X.format" in arrays
    assert_same(reader.tasks(reader.read_npz(arrays))["a"], A)
    others = arrays | {"a/X.format": np.array(b"coo")}
    words = "'a/X.format' is neither"
    reader.assert_rejected(reader.read_npz(others), "unexpected-array", words, task="a")
    reader.assert_rejected(reader.read_npz({"a/X": np.array([[b"u"]])}), "unsupported-dtype")


def test_columns_of_zeros_have_positive_zeros_in_the_manifest(reader):
    entry = reader.read_npz(parts(csr_array(np.zeros((2, 3)))))["manifest"]["tasks"][0]
    for name in ("min", "max", "mean", "std"):
        assert str(entry["features"][name]) == "[0.0, 0.0, 0.0]"


def test_safetensors_have_the_same_arrays(reader):
    A = matrix(4)
    arrays = {name: np.ascontiguousarray(array) for name, array in parts(A).items()}
    result = reader.read(save(arrays), "application/vnd.safetensors")
    assert_same(reader.tasks(result)["a"], A)


def test_repeated_entries_are_summed_and_zeros_are_not_stored(reader):
    A = coo_array(([1.0, 2, 0, 4], ([1, 1, 0, 0], [2, 2, 1, 0])), shape=(2, 3))
    rows = {"data": np.array([4.0, 0, 1, 2]), "indices": np.array([2, 1, 0, 0])}
    rows |= {"indptr": np.array([0, 2, 4]), "shape": np.array([2, 3])}
    tasks = reader.tasks(reader.read_npz({f"a/X.{part}": value for part, value in rows.items()}))
    assert tasks["a"].X.toarray().tolist() == [[0, 0, 4], [3, 0, 0]]
    assert tasks["a"].n_stored == 2
    assert A.nnz == 4


def test_rows_times_columns_may_be_far_beyond_the_memory(make_reader):
    large = 100_000
    reader = make_reader(features=large)
    n = 50_000  # 40 GB as a dense array, 1 GB is the limit of the child
    A = csr_array((np.ones(n), (np.arange(n), np.arange(n) * 2)), shape=(n, large))
    result = reader.read_npz(parts(A))
    assert_same(reader.tasks(result)["a"], A)
    assert "features" not in result["manifest"]["tasks"][0]


def matlab_5(Xs, ys):
    return written(scipy.io.savemat, {"X": cells([csc_array(X) for X in Xs]), "Y": cells(ys)})


def matlab_73(Xs, ys, *, changed=None):
    """Return a file as MATLAB writes it: a sparse matrix is a group, without values if it is 0."""
    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=512) as out:
        stored = out.create_group("#refs#")
        references = {"X": [], "Y": []}
        for i, (X, y) in enumerate(zip(Xs, ys, strict=True)):
            columns = csc_array(X)
            group = stored.create_group(f"x{i}")
            group.attrs["MATLAB_class"] = np.bytes_("double")
            group.attrs["MATLAB_sparse"] = np.uint64(columns.shape[0])
            group["jc"] = columns.indptr.astype(np.uint64)
            if columns.nnz:
                group["data"] = columns.data
                group["ir"] = (columns.indices if changed is None else changed).astype(np.uint64)
            stored[f"y{i}"] = np.atleast_2d(y)
            references["X"].append(group.ref)
            references["Y"].append(stored[f"y{i}"].ref)
        for name, found in references.items():
            out.create_dataset(name, data=np.array([found], dtype=h5py.ref_dtype))
            out[name].attrs["MATLAB_class"] = np.bytes_("cell")
    return b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512) + file.getvalue()[512:]


@pytest.mark.parametrize("write", [matlab_5, matlab_73])
def test_sparse_matrices_of_matlab_stay_sparse(reader, write):
    Xs = [matrix(5), csr_array((3, 40)), matrix(6, n=2)]
    ys = [np.arange(7.0), np.arange(3.0), np.arange(2.0)]
    tasks = reader.tasks(reader.read(write(Xs, ys), MATLAB))
    for task, X, y in zip(tasks, Xs, ys, strict=True):
        assert_same(task, X)
        assert task.y.tolist() == y.tolist()


def test_rows_of_matlab_out_of_range_are_refused(reader):
    X = matrix(7)
    body = matlab_73([X], [np.arange(7.0)], changed=np.full(X.nnz, 7))
    reader.assert_rejected(reader.read(body, MATLAB), "corrupt-array", "row 7", "there are 7 rows")


A = csr_array(([1.0, 2.0, 3.0], ([0, 1, 1], [0, 1, 3])), shape=(2, 4))


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"indptr": None}, "missing-array", ("lacks the array 'a/X.indptr'",)),
        ({"indices": np.array([0, 1, 4])}, "corrupt-array", ("row 1", "column 4", "4 columns")),
        ({"indices": np.array([0, -1, 2])}, "corrupt-array", ("row 1", "column -1")),
        ({"indices": np.array([0, 1])}, "wrong-shape", ("2 entries", "3")),
        ({"indices": np.array([0, 1.0, 3])}, "unsupported-dtype", ("integers are required",)),
        ({"indptr": np.array([0, 3])}, "wrong-shape", ("2 entries; expected 3",)),
        ({"indptr": np.array([0, 4, 3])}, "corrupt-array", ("must increase from 0",)),
        ({"indptr": np.array([1, 1, 3])}, "corrupt-array", ("must increase from 0",)),
        ({"indptr": np.array([0, 1, 9])}, "corrupt-array", ("number of values, 3",)),
        (
            {"indptr": np.array([0, 2**64 - 1, 3], dtype=np.uint64)},
            "corrupt-array",
            ("must increase",),
        ),
        ({"shape": np.array([2, 4, 1])}, "wrong-shape", ("two integers",)),
        ({"shape": np.array([0, 4])}, "no-rows", ("at least one row",)),
        ({"shape": np.array([2**40, 4])}, "wrong-shape", ("3 entries; expected",)),
        ({"data": np.array([[1.0, 2, 3]])}, "wrong-shape", ("one dimension",)),
        ({"data": np.array(["x", "y", "z"])}, "not-a-number", ("numbers are required",)),
        ({"data": np.array([1, 2, 2**60])}, "inexact-integer", ("above 2**53",)),
        ({"data": np.array([1.0, np.nan, 3])}, "invalid-task", ("row 1, column 1 is nan",)),
    ],
)
def test_broken_matrices_are_refused_with_their_place(reader, changed, code, words):
    result = reader.read_npz(parts(A, **changed))
    reader.assert_rejected(result, code, *words, task="a")


def test_the_number_of_columns_is_limited(reader):
    result = reader.read_npz(parts(A, shape=np.array([2, 10**7])))
    reader.assert_rejected(result, "too-many-features", "10000000 columns exceed the limit")


def test_a_matrix_is_either_sparse_or_dense(reader):
    result = reader.read_npz(parts(A) | {"a/X": A.toarray()})
    reader.assert_rejected(result, "unexpected-array", "beside the sparse matrix", task="a")


def test_stored_rows_are_read_in_blocks(reader):
    X = matrix(8, n=11)
    result = reader.read_npz(parts(X))
    blocks = list(DatasetReader(reader.folder / "content", result["manifest"]).rows("a", 4))
    assert [block.shape for block in blocks] == [(4, 40), (4, 40), (3, 40)]
    for i, block in enumerate(blocks):
        np.testing.assert_array_equal(block.toarray(), X[4 * i : 4 * i + 4].toarray())


def uploaded(app, arrays):
    response = app.upload_npz(arrays)
    assert response.json()["state"] == "ready", response.text
    return response.json()


def combined(app, *sources):
    body = {"name": "grown", "sources": list(sources)}
    response = app.send("POST", "/v1/datasets:combine", json=body)
    if response.status_code == 422:
        return response.json()
    return app.send("GET", f"/v1/datasets/{response.json()['id']}?wait=30").json()


def test_sparse_datasets_grow_and_are_selected_from(app):
    X, y = matrix(9), np.arange(7.0)
    first = uploaded(app, parts(X[:4]) | {"a/y": y[:4]})
    second = uploaded(app, parts(X[4:]) | {"a/y": y[4:]})
    ids = [{"dataset_id": one["id"]} for one in (first, second)]
    grown = combined(app, *ids)
    assert_same(app.tasks(grown["id"])["a"], X)
    assert app.tasks(grown["id"])["a"].y.tolist() == y.tolist()
    rows, columns = {"start": 1, "stop": 3}, [30, 2, 17]
    part = combined(app, {"dataset_id": grown["id"], "rows": rows, "columns": columns})
    np.testing.assert_array_equal(
        app.tasks(part["id"])["a"].X.toarray(), X[1:3].toarray()[:, columns]
    )
    dense = uploaded(app, {"a/X": X.toarray(), "a/y": y})
    mixed = combined(app, ids[0], {"dataset_id": dense["id"]})
    assert "dense rows in one dataset and sparse ones" in mixed["errors"][0]["detail"]


def test_a_preview_shows_the_share_of_stored_values_and_what_can_be_trained(app):
    X = matrix(10, n=20, d=150)
    dataset = uploaded(app, parts(X) | {"a/y": np.arange(20.0)})
    found = app.send("GET", f"/v1/datasets/{dataset['id']}/preview").json()
    (task,) = found["tasks"]
    assert task["stored"] == pytest.approx(X.nnz / 3000)
    assert len(task["columns"]) == 100
    assert task["rows"][3]["7"] == X[3, 7]
    algorithms = {one["algorithm"]: one for one in found["algorithms"]}
    assert algorithms["ridge"]["can_train"]
    assert "needs a dense copy, which takes 24 kB" in algorithms["rmt-pca"]["reason"]
