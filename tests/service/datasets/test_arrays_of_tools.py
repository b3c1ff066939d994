"""Files of arrays as other tools write them: structs, targets in columns, further variables."""

import io

import h5py
import numpy as np
import pytest
import scipy.io
from scipy.sparse import coo_array, csc_array, csr_array, issparse, save_npz

from service.inference.formats.array_files import READERS
from service.inference.task_column import TaskSource
from tests.written import written

MATLAB = "application/x-matlab-data"
NPZ = "application/x-npz"
SAFETENSORS = "application/vnd.safetensors"
XS = {"north": np.arange(6.0).reshape(3, 2), "south": 10 + np.arange(8.0).reshape(4, 2)}
YS = {"north": np.array([1.0, 2, 4]), "south": np.array([5.0, 6, 8, 9])}
X, Y = np.arange(8.0).reshape(4, 2), np.arange(12.0).reshape(4, 3)
SPARSE = csr_array(np.array([[0, 1.5, 0], [2, 0, 0], [0, 0, 3]]))


def matlab(**variables):
    return written(scipy.io.savemat, variables)


def struct_array(**names):
    fields = ["X", "Y", *names]
    array = np.empty((1, len(XS)), [(field, object) for field in fields])
    for t, (task, rows) in enumerate(XS.items()):
        array[0, t] = (rows, YS[task][:, None], *(values[t] for values in names.values()))
    return array


def cells(values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def hdf5(write):
    """Return a file of version 7.3, whose matrices are transposed."""
    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=512) as book:
        write(book)
    return file.getvalue()


def write_scalar_struct(book):
    group = book.create_group("s")
    for task, rows in XS.items():
        own = group.create_group(task)
        own["X"], own["Y"] = rows.T, YS[task][None]


def write_struct_array(book):
    group = book.create_group("tasks")
    parts = {
        "X": [rows.T for rows in XS.values()],
        "Y": [targets[None] for targets in YS.values()],
        "name": [np.array([[*map(ord, task)]], np.uint16).T for task in XS],
    }
    for field, values in parts.items():
        references = group.create_dataset(field, (len(values), 1), h5py.ref_dtype)
        for t, value in enumerate(values):
            stored = book.create_dataset(f"#refs#/{field}{t}", data=value)
            if field == "name":
                stored.attrs["MATLAB_class"] = np.bytes_("char")
            references[t, 0] = stored.ref


NAMED = {
    "struct array": matlab(tasks=struct_array(name=[*XS])),
    "struct array and names": matlab(s=struct_array(), tasks=cells([*XS]), seed=3),
    "struct of structs": matlab(s={t: {"X": XS[t], "Y": YS[t]} for t in XS}),
    "a struct for each task": matlab(**{t: {"X": XS[t], "labels": YS[t]} for t in XS}),
    "struct of cells": matlab(
        s={"X": cells([*XS.values()]), "Y": cells([*YS.values()]), "names": cells([*XS])}
    ),
    "7.3, struct of structs": hdf5(write_scalar_struct),
    "7.3, struct array": hdf5(write_struct_array),
}


@pytest.mark.parametrize("kind", NAMED)
def test_structs_of_matlab_are_tasks(reader, kind):
    tasks = reader.tasks(reader.read(NAMED[kind], MATLAB))
    assert tasks.names == ("north", "south")
    for task in tasks:
        np.testing.assert_array_equal(task.X, XS[task.name])
        np.testing.assert_array_equal(task.y, YS[task.name])


def test_a_struct_array_without_names_has_numbered_tasks(reader):
    tasks = reader.tasks(reader.read(matlab(data=struct_array()), MATLAB))
    assert tasks.names == ("1", "2")


def npz(**arrays):
    return written(np.savez, **arrays)


COLUMNS = {
    "matlab": (MATLAB, matlab(X=X, Y=Y)),
    "matlab struct": (MATLAB, matlab(s={"X": X, "Y": Y})),
    "matlab, sparse": (MATLAB, matlab(X=csc_array(X), Y=csc_array(Y))),
    "npz": (NPZ, npz(X=X, Y=Y)),
    "npz of sklearn": (NPZ, npz(data=X, target=Y)),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_of_targets_are_tasks_of_the_same_rows(reader, kind):
    media_type, body = COLUMNS[kind]
    tasks = reader.tasks(reader.read(body, media_type))
    assert tasks.names == ("1", "2", "3")
    rows = tasks["2"].X.toarray() if issparse(tasks["2"].X) else tasks["2"].X
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(tasks["2"].y, Y[:, 1])


@pytest.mark.parametrize("kind", ["matlab", "npz"])
def test_columns_of_targets_may_have_names(reader, kind):
    names = ["u", "v", "w"]
    body, media_type = npz(X=X, Y=Y, tasks=np.array(names)), NPZ
    if kind == "matlab":
        body, media_type = matlab(X=X, Y=Y, tasks=cells(names)), MATLAB
    assert [*reader.tasks(reader.read(body, media_type)).names] == names
    wrong = npz(X=X, Y=Y, tasks=np.array(["u"]))
    reader.assert_rejected(reader.read(wrong, NPZ), "wrong-shape", "'tasks'")


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        (MATLAB, matlab(X=X, Y=Y[:, :1])),
        (MATLAB, matlab(X=X, Y=Y[:, 0])),
        (NPZ, npz(X=X, y=Y[:, 0])),
        (NPZ, npz(X=X, y=Y[:, :1])),
    ],
)
def test_rows_without_tasks_are_one_task_with_a_note(reader, media_type, body):
    result = reader.read(body, media_type)
    assert reader.tasks(result)["y"].y.tolist() == Y[:, 0].tolist()
    assert any("all rows are one task, 'y'" in n for n in result["manifest"]["warnings"])


@pytest.mark.parametrize("media_type", [MATLAB, NPZ])
def test_further_variables_are_left_out_with_a_note(reader, media_type):
    made = {MATLAB: matlab, NPZ: npz}[media_type]
    task = np.array([1, 1, 2, 2])
    result = reader.read(made(X=X, task=task, weights=Y, lambda_=np.array([0.1])), media_type)
    assert reader.tasks(result).names == ("1", "2")
    (note,) = result["manifest"]["warnings"]
    assert "'weights', 'lambda_' are left out" in note


@pytest.mark.parametrize("media_type", [MATLAB, NPZ])
def test_variables_are_chosen(reader, media_type):
    body = {MATLAB: matlab, NPZ: npz}[media_type](X=X, data=2 * X, grades=Y, Y=-Y)
    reader.assert_rejected(reader.read(body, media_type), "duplicate-array", "variables=")
    result = reader.read(body, media_type, variables=["data", "grades:y"])
    np.testing.assert_array_equal(reader.tasks(result)["3"].X, 2 * X)
    np.testing.assert_array_equal(reader.tasks(result)["3"].y, Y[:, 2])
    where = {"parameter": "query:variables"}
    unknown = reader.read(body, media_type, variables=["nothing:X"])
    reader.assert_rejected(unknown, "missing-array", "'nothing'", **where)
    unclear = reader.read(body, media_type, variables=["grades"])
    reader.assert_rejected(unclear, "unexpected-array", "grades:y", **where)


def test_arrays_that_are_not_chosen_are_not_read(reader):
    body = npz(X=X, y=Y[:, 0], meta=np.array([{"a": 1}], dtype=object))
    reader.assert_rejected(reader.read(body, NPZ), "object-array")
    assert reader.tasks(reader.read(body, NPZ, variables=["X", "y"])).names == ("y",)


def test_variables_do_not_apply_to_tables(reader):
    result = reader.read(b"task,x\na,1\n", variables=["x"])
    reader.assert_rejected(result, "unused-option", parameter="query:variables")


@pytest.mark.parametrize("kind", [csr_array, csc_array])
def test_a_file_of_save_npz_is_one_task(reader, kind):
    result = reader.read(written(save_npz, kind(SPARSE)), NPZ)
    np.testing.assert_array_equal(reader.tasks(result)["X"].X.toarray(), SPARSE.toarray())


@pytest.mark.parametrize("kind", [csr_array, csc_array])
def test_a_file_of_save_npz_has_rows_for_a_model(kind):
    call = READERS[NPZ](written(save_npz, kind(SPARSE)), TaskSource("a", "task", lambda _: False))
    np.testing.assert_array_equal(call.rows.matrix.toarray(), SPARSE.toarray())


def test_other_sparse_formats_are_refused_with_advice(reader):
    reader.assert_rejected(
        reader.read(written(save_npz, coo_array(SPARSE)), NPZ), "unexpected-array", "tocsr"
    )


def test_a_struct_without_rows_is_refused(reader):
    result = reader.read(matlab(s={"a": 1}), MATLAB)
    reader.assert_rejected(result, "unsupported-dtype", "'s' is a struct")
