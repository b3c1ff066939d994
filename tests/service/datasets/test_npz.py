import contextlib
import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from algorithms.interface.errors import InvalidArtifact
from service.datasets.canonical import read_tasks, summaries, write_tasks
from service.datasets.complaints import Rejected
from service.datasets.npz_arrays import parse
from service.datasets.options import Limits, ReadOptions

NPZ = "application/x-npz"
LIMITS = Limits(expanded_bytes=10**8, expansion=200, tasks=50, features=50, name_length=30)
X = np.arange(6.0).reshape(3, 2)


def npy(array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array))
    return file.getvalue()


def archive(members, *, method=zipfile.ZIP_STORED) -> bytes:
    """Give an archive of (name, bytes), also of kinds that NumPy does not write."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        for name, data in members:
            if name in zipped.namelist():
                with pytest.warns(UserWarning, match="Duplicate name"):
                    zipped.writestr(name, data)
            else:
                zipped.writestr(name, data)
    return file.getvalue()


def header_of(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def test_tasks_with_spaces_of_their_own_are_read(app):
    y = np.array([0.5, 1.5, 2.5])
    response = app.upload_npz({"a/X": X, "a/y": y, "b c/X": X[:2, :1]})
    assert response.status_code == 201, response.text
    tasks = app.tasks(response.json()["id"])
    assert tasks.names == ("a", "b c")
    assert tasks["a"].y.tolist() == y.tolist()
    assert tasks["b c"].X.tolist() == [[0], [2]]


def test_a_table_of_arrays_keeps_the_order_of_first_rows(app):
    task = np.array(["z", "a", "z"])
    y = np.array(["cat", "dog", "dog"])
    response = app.upload_npz({"X": X, "task": task, "y": y, "feature_names": np.array(["p", "q"])})
    tasks = app.tasks(response.json()["id"])
    assert tasks.names == ("z", "a")
    assert tasks["z"].X.tolist() == [[0, 1], [4, 5]]
    assert tasks["z"].y.tolist() == ["cat", "dog"]
    assert tasks["a"].feature_names == ("p", "q")


def test_covariance_matrices_are_read_one_or_a_stack(app):
    C = np.array([[2.0, 1.0], [1.0, 2.0]])
    response = app.upload_npz({"a/C": C, "b/C": np.stack([C, 2 * C])})
    tasks = app.tasks(response.json()["id"])
    assert tasks["a"].input == "covariances"
    assert tasks["a"].X.tolist() == [C.tolist()]
    assert tasks["b"].n_samples == 2


def test_integer_targets_are_classes_where_the_caller_says_so(app):
    arrays = {"a/X": X, "a/y": np.array([3, 1, 3])}
    response = app.upload_npz(arrays, target_kind="classes")
    task = app.tasks(response.json()["id"])["a"]
    assert (task.target, task.y.tolist()) == ("classes", [3, 1, 3])


@pytest.mark.parametrize("dtype", [">f8", "<f4", ">f4", "f2", "i1", "u1", ">i4", "i8", "u8", "?"])
def test_numbers_of_every_kind_are_read(app, dtype):
    response = app.upload_npz({"a/X": X.astype(dtype)})
    assert app.tasks(response.json()["id"])["a"].X.tolist() == X.astype(dtype).tolist()


def test_arrays_in_fortran_order_are_read(app):
    response = app.upload_npz({"a/X": np.asfortranarray(X)})
    assert app.tasks(response.json()["id"])["a"].X.tolist() == X.tolist()


def test_a_truncated_archive_is_refused(app):
    file = io.BytesIO()
    np.savez(file, **{"a/X": X})
    response = app.upload(file.getvalue()[:-40], NPZ)
    app.assert_rejected(response, "damaged-archive", "not a complete .npz")


def test_a_flipped_bit_is_noticed_by_the_checksum(app):
    good = archive([("a/X.npy", npy(X))])
    position = good.index(X.tobytes())
    response = app.upload(good[:position] + b"\xff" + good[position + 1 :], NPZ)
    app.assert_rejected(response, "damaged-archive", "CRC")


def test_a_damaged_compressed_stream_is_refused(app):
    good = archive(
        [("a/X.npy", npy(np.arange(4000.0).reshape(-1, 2)))], method=zipfile.ZIP_DEFLATED
    )
    response = app.upload(good[:200] + b"\xff" * 50 + good[250:], NPZ)
    app.assert_rejected(response, "damaged-archive")


def test_an_array_of_objects_is_refused_by_name(app):
    response = app.upload_npz({"a/X": X, "b/X": np.array([[object()]], dtype=object)[:, :0]})
    app.assert_rejected(response, "object-array", "'b/X'", "never read")


def test_a_pickle_by_the_name_of_npz_is_refused(app):
    response = app.upload(pickle.dumps({"a/X": [1]}), NPZ)
    assert response.status_code == 415
    assert response.json()["code"] == "unsupported-media-type"
    assert "text/csv" in response.json()["detail"]
    assert app.left_behind() == {}


def test_a_bomb_is_refused_by_its_ratio_before_it_expands(app):
    bomb = archive([("a/X.npy", header_of("(4194304, 1)") + bytes(2**25))], method=8)
    response = app.upload(bomb, NPZ)
    app.assert_rejected(response, "expands-too-far", "times as large")


def test_a_bomb_is_refused_by_its_size(make_app):
    app = make_app(max_expanded_bytes=10_000)
    response = app.upload(archive([("a/X.npy", bytes(20_000))]), NPZ)
    app.assert_rejected(response, "expands-too-far", "more than 10000")


def test_a_directory_that_lies_about_sizes_is_noticed(app):
    zipped = archive([("a/X.npy", npy(np.zeros((1000, 2))))], method=zipfile.ZIP_DEFLATED)
    true_size = struct.pack("<I", len(npy(np.zeros((1000, 2)))))
    lie = zipped.replace(true_size, struct.pack("<I", len(npy(np.zeros((10, 2))))))
    app.assert_rejected(app.upload(lie, NPZ), "damaged-archive", "'a/X.npy'")


@pytest.mark.parametrize("shape", ["(1000000000000, 1000)", "(2**70, 1)", "(-1, 2)", "5", "(3, 3)"])
def test_a_shape_that_the_bytes_do_not_hold_is_refused(app, shape):
    response = app.upload(archive([("a/X.npy", header_of(shape) + X.tobytes())]), NPZ)
    app.assert_rejected(response, "damaged-array", "'a/X'")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x00",
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x01\x00\x04\x00((((",
        b"PK\x03\x04",
    ],
)
def test_a_damaged_header_is_refused(app, header):
    response = app.upload(archive([("a/X.npy", header)]), NPZ)
    app.assert_rejected(response, "damaged-array", "a/X")


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "S3", "f16", "V8"])
def test_other_dtypes_are_refused(app, dtype):
    array = np.zeros((2, 2), dtype)
    response = app.upload_npz({"a/X": array})
    app.assert_rejected(response, "unsupported-dtype", "'a/X'")


def test_texts_in_the_place_of_numbers_are_refused(app):
    response = app.upload_npz({"a/X": np.array([["one", "two"]])})
    app.assert_rejected(response, "not-a-number", "'a/X'", task="a")


def test_code_points_that_are_no_text_are_refused(app):
    bad = np.array([0x110000, 0xD800, 65], "<u4").view("<U1")
    labels = header_of("(3,)", "'<U1'") + bad.tobytes()
    members = [("X.npy", npy(X)), ("task.npy", labels)]
    app.assert_rejected(app.upload(archive(members), NPZ), "damaged-array", "'task'")


def test_a_value_that_is_not_finite_is_named_by_its_place(app):
    bad = X.copy()
    bad[2, 1] = np.nan
    response = app.upload_npz({"a/X": X, "b/X": bad})
    app.assert_rejected(response, "not-finite", "'b/X'", task="b", row=2, column=1)


def test_a_target_that_is_not_finite_is_named_by_its_row(app):
    response = app.upload_npz({"a/X": X, "a/y": np.array([1.0, np.inf, 2.0])})
    app.assert_rejected(response, "not-finite", "'a/y'", task="a", row=1)


def test_integers_that_floats_cannot_keep_are_refused(app):
    response = app.upload_npz({"a/X": np.array([[2**53 + 1]])})
    app.assert_rejected(response, "inexact-integer", "2**53", task="a")


def test_fractions_are_no_labels(app):
    response = app.upload_npz({"a/X": X, "a/y": np.array([1, 1.5, 2])}, target_kind="classes")
    app.assert_rejected(response, "not-a-label", "1.5 in row 1", task="a", row=1)


@pytest.mark.parametrize("name", ["../a/X.npy", "/a/X.npy", "a//X.npy", "a\\X.npy", "./a/X.npy"])
def test_names_that_are_paths_are_refused(app, name):
    response = app.upload(archive([(name, npy(X))]), NPZ)
    app.assert_rejected(response, "bad-member")


def test_two_members_of_one_name_are_refused(app):
    response = app.upload(archive([("a/X.npy", npy(X)), ("a/X.npy", npy(X))]), NPZ)
    app.assert_rejected(response, "duplicate-array", "'a/X.npy'")


def test_tasks_that_differ_only_in_unicode_form_are_refused(app):
    response = app.upload_npz({"é/X": X, "e\u0301/X": X})
    app.assert_rejected(response, "duplicate-task", task="é")


def test_a_member_that_is_no_array_is_refused(app):
    response = app.upload(archive([("a/X.npy", npy(X)), ("readme.txt", b"hi")]), NPZ)
    app.assert_rejected(response, "bad-member", "'readme.txt'")


def test_an_archive_of_nothing_is_refused(app):
    app.assert_rejected(app.upload(archive([]), NPZ), "empty-file", "expected '<task>/X'")


def test_an_unusual_compression_is_refused(app):
    response = app.upload(archive([("a/X.npy", npy(X))], method=zipfile.ZIP_LZMA), NPZ)
    app.assert_rejected(response, "damaged-archive", "savez")


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"X": X}, "missing-array"),
        ({"task": np.array(["a"])}, "missing-array"),
        ({"X": X, "task": np.array(["a"])}, "wrong-shape"),
        ({"X": X[0], "task": np.array(["a", "b"])}, "wrong-shape"),
        ({"X": X, "task": np.zeros(3)}, "unsupported-dtype"),
        ({"X": X, "task": np.array(["a"] * 3), "z": X}, "bad-member"),
        ({"X": X[:0], "task": np.array([], str)}, "no-rows"),
        ({"a/X": X[:0]}, "no-rows"),
        ({"a/X": X[:, :0]}, "no-features"),
        ({"a/X": X[0]}, "wrong-shape"),
        ({"a/y": X[:, 0]}, "missing-array"),
        ({"a/X": X, "a/y": X}, "wrong-shape"),
        ({"a/X": X, "a/C": np.eye(2)}, "bad-member"),
        ({"a/C": np.array([[1.0, 2.0], [0.0, 1.0]])}, "invalid-task"),
        ({"a/C": -np.eye(2)}, "invalid-task"),
        ({"a/C": X}, "invalid-task"),
        ({"a/Z": X}, "bad-member"),
        ({"feature_names": np.array(["p"])}, "missing-array"),
        ({"a/X": X, "feature_names": np.array(["p"])}, "wrong-shape"),
        ({"a/X": X, "feature_names": np.array(["p", "p"])}, "duplicate-column"),
    ],
)
def test_arrays_that_fit_no_layout_are_refused(app, arrays, code):
    app.assert_rejected(app.upload_npz(arrays), code)


def test_options_of_tables_mean_nothing_here(app):
    response = app.upload_npz({"a/X": X}, task_column="task")
    app.assert_rejected(response, "option-unused", parameter="query:task_column")


def test_complaints_of_several_tasks_are_told_at_once(app):
    bad = np.full((1, 2), np.nan)
    response = app.upload_npz({"a/X": bad, "b/X": X[0], "c/X": X, "c/y": X})
    told = [(e["task"], e["code"]) for e in response.json()["errors"]]
    expected = {("a", "not-finite"), ("b", "wrong-shape"), ("c", "wrong-shape")}
    assert set(told) == expected


NUMBERS = arrays_of.arrays(
    st.sampled_from(["<f8", ">f8", "<f4", "f2", "<i4", "u1", "?"]),
    st.tuples(st.integers(1, 5), st.integers(1, 4)),
    elements={"allow_nan": False, "allow_infinity": False},
)
NAMES = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/\\."), min_size=1, max_size=5
)


@given(given_tasks=st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=4), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arrays_survive_upload_and_storage_bit_for_bit(tmp_path, given_tasks, data):
    import unicodedata

    given_tasks = {unicodedata.normalize("NFC", k): v for k, v in given_tasks.items()}
    targets = {}
    for name, rows in given_tasks.items():
        kind = data.draw(st.sampled_from(["none", "numbers", "text"]))
        values = st.floats(allow_nan=False, allow_infinity=False) if kind == "numbers" else NAMES
        if kind != "none":
            cells = st.lists(values, min_size=len(rows), max_size=len(rows))
            targets[name] = np.array(data.draw(cells))
    path = tmp_path / "upload.npz"
    arrays = {f"{k}/X": v for k, v in given_tasks.items()} | {
        f"{k}/y": v for k, v in targets.items()
    }
    np.savez(path, **arrays)
    content = tmp_path / "content"
    manifest = write_tasks(content, parse(path, ReadOptions(), LIMITS))
    tasks = read_tasks(content, manifest)
    assert set(tasks.names) == set(given_tasks)
    assert summaries(manifest) == tasks.summaries()
    for task in tasks:
        assert task.X.tobytes() == given_tasks[task.name].astype("<f8").tobytes()
        y = targets.get(task.name)
        assert (task.y is None) == (y is None)
        assert y is None or task.y.tolist() == y.tolist()


@given(data=st.data())
@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_damaged_archive_is_read_or_rejected(tmp_path, data):
    """No damage, wherever it strikes, ends in anything but tasks or a complaint."""
    file = io.BytesIO()
    np.savez_compressed(file, **{"a/X": X, "a/y": np.array(["p", "q", "r"]), "b/C": np.eye(2)})
    body = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.npz"
    path.write_bytes(body[: data.draw(st.integers(len(body) // 2, len(body)))])
    with contextlib.suppress(Rejected):
        assert parse(path, ReadOptions(), LIMITS)


def test_a_stored_file_is_what_others_read_and_is_mapped_read_only(tmp_path):
    from safetensors.numpy import load_file

    path = tmp_path / "upload.npz"
    np.savez(path, **{"a/X": X})
    manifest = write_tasks(tmp_path / "content", parse(path, ReadOptions(), LIMITS))
    assert load_file(tmp_path / "content")["a/X"].tolist() == X.tolist()
    rows = read_tasks(tmp_path / "content", manifest)["a"].X
    assert not rows.flags.writeable
    assert rows.flags.aligned


@pytest.mark.parametrize("size", [0, 5, 30, -8])
def test_a_truncated_stored_file_is_noticed(tmp_path, size):
    path = tmp_path / "upload.npz"
    np.savez(path, **{"a/X": X})
    content = tmp_path / "content"
    manifest = write_tasks(content, parse(path, ReadOptions(), LIMITS))
    content.write_bytes(content.read_bytes()[:size])
    with pytest.raises(InvalidArtifact):
        read_tasks(content, manifest)
