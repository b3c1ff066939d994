import contextlib
import io
import struct
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from algorithms.interface.errors import InvalidArtifact
from service.datasets.canonical import read_all_rows, read_tasks, write_tasks
from service.datasets.formats.npz_arrays import MISSING_TEXTS
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.registry import find_format
from service.datasets.issues import Rejected
from service.datasets.manifest import summaries
from tests.written import written

parse = find_format("application/x-npz").parse

NPZ = "application/x-npz"
LIMITS = Limits(
    decompressed_bytes=10**8, decompression_ratio=200, tasks=50, features=50, name_length=30
)
X = np.arange(6.0).reshape(3, 2)


def npy(array) -> bytes:
    return written(np.lib.format.write_array, np.asanyarray(array))


def archive(members, *, method=zipfile.ZIP_STORED) -> bytes:
    """Return an archive of (name, bytes), also with compressions that NumPy does not write."""
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


def test_tasks_with_different_columns_are_read(reader):
    y = np.array([0.5, 1.5, 2.5])
    result = reader.read_npz({"a/X": X, "a/y": y, "b c/X": X[:2, :1]})
    tasks = reader.tasks(result)
    assert tasks.names == ("a", "b c")
    assert tasks["a"].y.tolist() == y.tolist()
    assert tasks["b c"].X.tolist() == [[0], [2]]


def test_tasks_of_a_table_are_in_the_order_of_their_first_rows(reader):
    task = np.array(["z", "a", "z"])
    y = np.array(["cat", "dog", "dog"])
    result = reader.read_npz({"X": X, "task": task, "y": y, "feature_names": np.array(["p", "q"])})
    tasks = reader.tasks(result)
    assert tasks.names == ("z", "a")
    assert tasks["z"].X.tolist() == [[0, 1], [4, 5]]
    assert tasks["z"].y.tolist() == ["cat", "dog"]
    assert tasks["a"].feature_names == ("p", "q")


def test_tasks_with_the_same_column_names_get_the_same_order(reader):
    names = {"a": ["p", "q"], "b": ["q", "p"], "c": ["q", "r"]}
    result = reader.read_npz(
        {f"{task}/X": X for task in names}
        | {f"{task}/feature_names": np.array(own) for task, own in names.items()}
    )
    tasks = reader.tasks(result)
    assert [task.feature_names for task in tasks] == [("p", "q"), ("p", "q"), ("q", "r")]
    assert tasks["b"].X.tolist() == X[:, ::-1].tolist()
    assert tasks["c"].X.tolist() == X.tolist()
    manifest = result["manifest"]
    assert manifest["feature_names"] is None
    assert [task["feature_names"] for task in manifest["tasks"]] == [["p", "q"]] * 2 + [["q", "r"]]
    assert [task.feature_names for task in summaries(manifest)] == [
        task.feature_names for task in tasks
    ]


def test_column_names_of_a_task_override_those_of_the_file(reader):
    arrays = {"a/X": X, "b/X": X, "feature_names": np.array(["p", "q"])}
    result = reader.read_npz(arrays | {"b/feature_names": np.array(["q", "p"])})
    tasks = reader.tasks(result)
    assert tasks["b"].X.tolist() == X[:, ::-1].tolist()
    assert result["manifest"]["feature_names"] == ["p", "q"]
    assert not any("feature_names" in task for task in result["manifest"]["tasks"])


def test_covariances_in_another_order_are_reordered_by_rows_and_columns(reader):
    C = np.array([[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]])
    turn = [2, 0, 1]
    names = np.array(["p", "q", "r"])
    result = reader.read_npz({
        "a/C": C, "a/feature_names": names,
        "b/C": C[np.ix_(turn, turn)], "b/feature_names": names[turn],
    })  # fmt: skip
    tasks = reader.tasks(result)
    assert tasks["b"].feature_names == ("p", "q", "r")
    assert tasks["b"].X.tolist() == tasks["a"].X.tolist() == [C.tolist()]


def test_a_manifest_without_names_by_task_is_still_read(reader):
    result = reader.read_npz({"a/X": X, "feature_names": np.array(["p", "q"])})
    assert result["manifest"].keys() >= {"format", "tasks", "feature_names"}
    assert reader.tasks(result)["a"].feature_names == ("p", "q")
    result["manifest"]["feature_names"] = None
    assert reader.tasks(result)["a"].feature_names is None


@pytest.mark.parametrize("dtype", [">f8", "<f4", ">f4", "f2", "i1", "u1", ">i4", "i8", "u8", "?"])
def test_every_numeric_dtype_is_read(reader, dtype):
    result = reader.read_npz({"a/X": X.astype(dtype)})
    assert reader.tasks(result)["a"].X.tolist() == X.astype(dtype).tolist()


def test_a_truncated_archive_is_rejected(reader):
    result = reader.read(written(np.savez, **{"a/X": X})[:-40], NPZ)
    reader.assert_rejected(result, "corrupt-archive", "not a complete .npz")


def test_a_flipped_bit_is_detected_by_the_checksum(reader):
    good = archive([("a/X.npy", npy(X))])
    position = good.index(X.tobytes())
    result = reader.read(good[:position] + b"\xff" + good[position + 1 :], NPZ)
    reader.assert_rejected(result, "corrupt-archive", "CRC")


def test_a_corrupt_compressed_stream_is_rejected(reader):
    good = archive(
        [("a/X.npy", npy(np.arange(4000.0).reshape(-1, 2)))], method=zipfile.ZIP_DEFLATED
    )
    result = reader.read(good[:200] + b"\xff" * 50 + good[250:], NPZ)
    reader.assert_rejected(result, "corrupt-archive")


def test_an_array_of_objects_is_rejected_by_name(reader):
    result = reader.read_npz({"a/X": X, "b/X": np.array([[object()]], dtype=object)[:, :0]})
    reader.assert_rejected(result, "object-array", "'b/X'", "not read")


def test_a_decompression_bomb_is_rejected_by_its_ratio(reader):
    bomb = archive([("a/X.npy", header_of("(4194304, 1)") + bytes(2**25))], method=8)
    result = reader.read(bomb, NPZ)
    reader.assert_rejected(result, "decompression-limit", "times as large")


def test_a_decompression_bomb_is_rejected_by_its_size(make_reader):
    reader = make_reader(decompressed_bytes=10_000)
    result = reader.read(archive([("a/X.npy", bytes(20_000))]), NPZ)
    reader.assert_rejected(result, "decompression-limit", "limit of 10000")


def test_wrong_sizes_in_the_directory_are_detected(reader):
    zipped = archive([("a/X.npy", npy(np.zeros((1000, 2))))], method=zipfile.ZIP_DEFLATED)
    true_size = struct.pack("<I", len(npy(np.zeros((1000, 2)))))
    lie = zipped.replace(true_size, struct.pack("<I", len(npy(np.zeros((10, 2))))))
    reader.assert_rejected(reader.read(lie, NPZ), "corrupt-archive", "'a/X.npy'")


@pytest.mark.parametrize("shape", ["(1000000000000, 1000)", "(2**70, 1)", "(-1, 2)", "5", "(3, 3)"])
def test_a_shape_that_does_not_match_the_size_is_rejected(reader, shape):
    result = reader.read(archive([("a/X.npy", header_of(shape) + X.tobytes())]), NPZ)
    reader.assert_rejected(result, "corrupt-array", "'a/X'")


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
def test_a_corrupt_header_is_rejected(reader, header):
    result = reader.read(archive([("a/X.npy", header)]), NPZ)
    reader.assert_rejected(result, "corrupt-array", "a/X")


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "S3", "f16", "V8"])
def test_other_dtypes_are_rejected(reader, dtype):
    array = np.zeros((2, 2), dtype)
    result = reader.read_npz({"a/X": array})
    reader.assert_rejected(result, "unsupported-dtype", "'a/X'")


def test_strings_instead_of_numbers_are_rejected(reader):
    result = reader.read_npz({"a/X": np.array([["one", "two"]])})
    reader.assert_rejected(result, "not-a-number", "'a/X'", task="a")


def test_invalid_code_points_are_rejected(reader):
    bad = np.array([0x110000, 0xD800, 65], "<u4").view("<U1")
    labels = header_of("(3,)", "'<U1'") + bad.tobytes()
    members = [("X.npy", npy(X)), ("task.npy", labels)]
    reader.assert_rejected(reader.read(archive(members), NPZ), "corrupt-array", "'task'")


def test_a_non_finite_value_is_located(reader):
    bad = X.copy()
    bad[2, 1] = np.inf
    result = reader.read_npz({"a/X": X, "b/X": bad})
    reader.assert_rejected(result, "not-finite", "'b/X'", task="b", row=2, column=1)


def test_a_missing_entry_of_a_covariance_is_located(reader):
    C = np.eye(3)
    C[2, 1] = np.nan
    result = reader.read_npz({"a/C": C})
    reader.assert_rejected(result, "not-finite", "'a/C'", task="a", row=2, column=1)


@pytest.mark.parametrize("names", [None, ["one", "two"]])
def test_missing_values_are_kept_and_the_columns_are_to_be_prepared(reader, names):
    gaps = X.copy()
    gaps[2, 1] = np.nan
    own = {} if names is None else {"feature_names": np.array(names)}
    result = reader.read_npz({"a/X": X, "b/X": gaps, **own})
    np.testing.assert_array_equal(reader.tasks(result)["b"].X, gaps)
    kinds = [{"name": name, "kind": "number"} for name in names or ()]
    assert result["manifest"]["columns"] == kinds
    assert result["manifest"]["tasks"][1]["features"]["missing"] == [0, 1]


def test_complete_arrays_need_no_preparation(reader):
    assert "columns" not in reader.read_npz({"a/X": X})["manifest"]


@pytest.mark.parametrize("text", ["nan", "None", "<NA>"])
def test_text_that_numpy_writes_for_a_missing_label_is_no_class(reader, text):
    result = reader.read_npz({"a/X": X, "a/y": np.array(["north", text, "south"])})
    (task,) = reader.tasks(result)
    assert task.y.tolist() == ["north", "south"]
    assert any(repr(text) in note for note in result["manifest"]["warnings"])


def test_a_column_without_any_value_has_a_note(reader):
    empty = np.array([[1.0, np.nan], [2.0, np.nan]])
    full = np.array([[1.0, np.nan], [2.0, 3.0]])
    notes = reader.read_npz({"a/X": empty, "b/X": empty})["manifest"]["warnings"]
    assert notes == ["column 1 has no values and is the same in all rows of a fit; remove it"]
    named = reader.read_npz({"a/X": empty, "feature_names": np.array(["age", "sex"])})
    assert "column 'sex' has no values" in named["manifest"]["warnings"][0]
    assert reader.read_npz({"a/X": empty, "b/X": full})["manifest"]["warnings"] == []


@pytest.mark.parametrize("layout", ["tasks", "table"])
def test_rows_without_a_target_are_apart_from_the_others(reader, layout):
    y = np.array([2.5, np.nan, 7.0])
    none = np.full(3, np.nan)
    groups = np.array(["p", "q", "r"])
    arrays = {"a/X": X, "a/y": y, "a/groups": groups, "b/X": X, "b/y": none, "b/groups": groups}
    if layout == "table":
        arrays = {
            "X": np.concatenate([X, X]),
            "y": np.concatenate([y, none]),
            "task": np.repeat(["a", "b"], 3),
            "groups": np.concatenate([groups, groups]),
        }
    result = reader.read_npz(arrays)
    (task,) = reader.tasks(result)
    np.testing.assert_array_equal(task.X, X[[0, 2]])
    np.testing.assert_array_equal(task.y, [2.5, 7.0])
    np.testing.assert_array_equal(task.groups, ["p", "r"])
    notes = result["manifest"]["warnings"]
    assert any("no value in '" in note and "y' (NaN)" in note for note in notes)
    (task,) = read_all_rows(reader.folder / "content", result["manifest"])
    np.testing.assert_array_equal(task.X, X[[0, 2, 1]])
    np.testing.assert_array_equal(task.groups, ["p", "r", "q"])
    assert task.y is None
    assert "task 'b' has no targets and is left out" in notes


def test_arrays_without_any_target_are_rejected(reader):
    result = reader.read_npz({"a/X": X, "a/y": np.full(3, np.nan)})
    reader.assert_rejected(result, "no-rows", "all of them are NaN")


def test_a_non_finite_target_is_located_by_its_row(reader):
    result = reader.read_npz({"a/X": X, "a/y": np.array([1.0, np.inf, 2.0])})
    reader.assert_rejected(result, "not-finite", "'a/y'", task="a", row=1)


def test_integers_that_are_inexact_as_float64_are_rejected(reader):
    result = reader.read_npz({"a/X": np.array([[2**53 + 1]])})
    reader.assert_rejected(result, "inexact-integer", "2**53", task="a")


@pytest.mark.parametrize("task", ["..", "/x", "", "a/../b"])
def test_a_task_that_is_a_path_is_named(reader, task):
    result = reader.read_npz({f"{task}/X": np.ones((2, 1))})
    reader.assert_rejected(result, "unexpected-array", f"rename the task '{task}'")


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, np.uint64(2**63 + 1)])
def test_integer_targets_that_are_inexact_as_float64_are_rejected_unless_labels(reader, number):
    arrays = {"a/X": np.ones((2, 1)), "a/y": np.array([number - number, number])}
    result = reader.read_npz(arrays)
    words = (f"row 1: the integer {number}", "target_kind=classes")
    reader.assert_rejected(result, "inexact-integer", *words, task="a", row=1)
    if abs(int(number)) < 2**62:
        labels = reader.tasks(reader.read_npz(arrays, target_kind="classes"))["a"].y
        assert labels.tolist() == [0, number]


def test_fractions_are_rejected_as_labels(reader):
    result = reader.read_npz({"a/X": X, "a/y": np.array([1, 1.5, 2])}, target_kind="classes")
    reader.assert_rejected(result, "invalid-label", "row 1: 1.5", task="a", row=1)


@pytest.mark.parametrize("name", ["../a/X.npy", "/a/X.npy", "a//X.npy", "a\\X.npy", "./a/X.npy"])
def test_names_that_are_paths_are_rejected(reader, name):
    result = reader.read(archive([(name, npy(X))]), NPZ)
    reader.assert_rejected(result, "unexpected-array")


def test_duplicate_member_names_are_rejected(reader):
    result = reader.read(archive([("a/X.npy", npy(X)), ("a/X.npy", npy(X))]), NPZ)
    reader.assert_rejected(result, "duplicate-array", "'a/X.npy'")


def test_tasks_that_differ_only_in_unicode_form_are_rejected(reader):
    result = reader.read_npz({"é/X": X, "e\u0301/X": X})
    reader.assert_rejected(result, "duplicate-task", task="é")


def test_a_member_that_is_not_an_array_is_rejected(reader):
    result = reader.read(archive([("a/X.npy", npy(X)), ("readme.txt", b"hi")]), NPZ)
    reader.assert_rejected(result, "unexpected-array", "'readme.txt'")


def test_an_empty_archive_is_rejected(reader):
    reader.assert_rejected(reader.read(archive([]), NPZ), "empty-file", "expected '<task>/X'")


def test_an_unsupported_compression_is_rejected(reader):
    result = reader.read(archive([("a/X.npy", npy(X))], method=zipfile.ZIP_LZMA), NPZ)
    reader.assert_rejected(result, "corrupt-archive", "savez")


@pytest.mark.parametrize(
    ("arrays", "code"),
    [
        ({"task": np.array(["a"])}, "missing-array"),
        ({"X": X, "task": np.array(["a"])}, "wrong-shape"),
        ({"X": X[0], "task": np.array(["a", "b"])}, "wrong-shape"),
        ({"X": X, "task": np.zeros(3)}, "unsupported-dtype"),
        ({"X": X[:0], "task": np.array([], str)}, "no-rows"),
        ({"a/X": X[:0]}, "no-rows"),
        ({"a/X": X[:, :0]}, "no-features"),
        ({"a/X": X[0]}, "wrong-shape"),
        ({"a/y": X[:, 0]}, "missing-array"),
        ({"a/X": X, "a/y": X}, "wrong-shape"),
        ({"a/X": X, "a/C": np.eye(2)}, "unexpected-array"),
        ({"a/C": np.array([[1.0, 2.0], [0.0, 1.0]])}, "invalid-task"),
        ({"a/C": -np.eye(2)}, "invalid-task"),
        ({"a/C": X}, "invalid-task"),
        ({"a/Z": X}, "unexpected-array"),
        ({"feature_names": np.array(["p"])}, "missing-array"),
        ({"a/X": X, "feature_names": np.array(["p"])}, "wrong-shape"),
        ({"a/X": X, "feature_names": np.array(["p", "p"])}, "duplicate-column"),
        ({"a/feature_names": np.array(["p"])}, "missing-array"),
        ({"a/X": X, "a/feature_names": np.array(["p"])}, "wrong-shape"),
        ({"a/X": X, "a/feature_names": np.array([1, 2])}, "wrong-shape"),
        ({"a/X": X, "a/feature_names": np.array(["p", " p"])}, "duplicate-column"),
        ({"a/X": X, "b/X": X, "a/feature_names": np.array(["p", "q"])}, "missing-names"),
        ({"a/C": np.eye(2), "feature_names": np.array(["p"])}, "wrong-shape"),
    ],
)
def test_arrays_that_match_no_layout_are_rejected(reader, arrays, code):
    reader.assert_rejected(reader.read_npz(arrays), code)


def test_options_of_tables_are_rejected(reader):
    result = reader.read_npz({"a/X": X}, task_column="task")
    reader.assert_rejected(result, "unused-option", parameter="query:task_column")


def test_issues_of_several_tasks_are_reported_at_once(reader):
    bad = np.full((1, 2), np.inf)
    result = reader.read_npz({"a/X": bad, "b/X": X[0], "c/X": X, "c/y": X})
    found = [(e["task"], e["code"]) for e in result["issues"]]
    expected = {("a", "not-finite"), ("b", "wrong-shape"), ("c", "wrong-shape")}
    assert set(found) == expected


NUMBERS = arrays_of.arrays(
    st.sampled_from(["<f8", ">f8", "<f4", "f2", "<i4", "u1", "?"]),
    st.tuples(st.integers(1, 5), st.integers(1, 4)),
    elements={"allow_nan": False, "allow_infinity": False},
)
NAMES = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/\\."), min_size=1, max_size=5
)
LABELS = NAMES.filter(lambda text: text not in MISSING_TEXTS)


@given(given_tasks=st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=4), data=st.data())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arrays_survive_upload_and_storage_bit_for_bit(tmp_path, given_tasks, data):
    import unicodedata

    given_tasks = {unicodedata.normalize("NFC", k): v for k, v in given_tasks.items()}
    targets = {}
    for name, rows in given_tasks.items():
        kind = data.draw(st.sampled_from(["none", "numbers", "text"]))
        values = st.floats(allow_nan=False, allow_infinity=False) if kind == "numbers" else LABELS
        if kind != "none":
            cells = st.lists(values, min_size=len(rows), max_size=len(rows))
            targets[name] = np.array(data.draw(cells))
    path = tmp_path / "upload.npz"
    arrays = {f"{k}/X": v for k, v in given_tasks.items()} | {
        f"{k}/y": v for k, v in targets.items()
    }
    np.savez(path, **arrays)
    content = tmp_path / "content"
    manifest = write_tasks(content, parse(path, ReadOptions(), LIMITS).tasks)
    tasks = read_tasks(content, manifest)
    assert set(tasks.names) == set(given_tasks)
    found = dict.fromkeys(("rows_hash", "n_divisible", "n_units"))  # not in the tasks themselves
    shapes = [replace(shape, **found) for shape in summaries(manifest)]
    assert tuple(shapes) == tasks.summaries()
    for task in tasks:
        assert task.X.tobytes() == given_tasks[task.name].astype("<f8").tobytes()
        y = targets.get(task.name)
        assert (task.y is None) == (y is None)
        assert y is None or task.y.tolist() == y.tolist()


@given(data=st.data())
@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_corrupt_archive_is_read_or_rejected(tmp_path, data):
    """A corrupt archive has tasks or issues, whatever bytes are changed."""
    body = bytearray(
        written(
            np.savez_compressed, **{"a/X": X, "a/y": np.array(["p", "q", "r"]), "b/C": np.eye(2)}
        )
    )
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255))
    path = tmp_path / "damaged.npz"
    path.write_bytes(body[: data.draw(st.integers(len(body) // 2, len(body)))])
    with contextlib.suppress(Rejected):
        assert parse(path, ReadOptions(), LIMITS)


def test_a_stored_file_is_a_valid_npz_and_is_mapped_read_only(tmp_path):
    from safetensors.numpy import load_file

    path = tmp_path / "upload.npz"
    np.savez(path, **{"a/X": X})
    manifest = write_tasks(tmp_path / "content", parse(path, ReadOptions(), LIMITS).tasks)
    assert load_file(tmp_path / "content")["a/X"].tolist() == X.tolist()
    rows = read_tasks(tmp_path / "content", manifest)["a"].X
    assert not rows.flags.writeable
    assert rows.flags.aligned


@pytest.mark.parametrize("size", [0, 5, 30, -8])
def test_a_truncated_stored_file_is_detected(tmp_path, size):
    path = tmp_path / "upload.npz"
    np.savez(path, **{"a/X": X})
    content = tmp_path / "content"
    manifest = write_tasks(content, parse(path, ReadOptions(), LIMITS).tasks)
    content.write_bytes(content.read_bytes()[:size])
    with pytest.raises(InvalidArtifact):
        read_tasks(content, manifest)
