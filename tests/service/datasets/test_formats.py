"""Every format is read to the bit as the library wrote it that people use to write it."""

import io
import json
import pickle
import zipfile
from datetime import UTC, datetime, time, timedelta

import h5py
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
import scipy.io
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.written import cells, written

PARQUET = "application/vnd.apache.parquet"
FILE = "application/vnd.apache.arrow.file"
STREAM = "application/vnd.apache.arrow.stream"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MATLAB = "application/x-matlab-data"
SAFETENSORS = "application/vnd.safetensors"
JSON = "application/json"
SAME_READER = [HealthCheck.function_scoped_fixture]
LINES = "application/x-ndjson"


def table(seed=0, n=40):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "task": rng.choice(["north", "söuth"], n),
            "x": rng.normal(size=n) * 10.0 ** rng.integers(-200, 200, n),
            "n": rng.integers(-5, 5, n),
            "y": rng.normal(size=n),
        }
    )


def to_bytes(write):
    """Return what a function writes to a file-like object."""
    return written(write)


def stream(frame):
    arrow = pa.Table.from_pandas(frame, preserve_index=False)

    def write(file):
        with pa.ipc.new_stream(file, arrow.schema) as writer:
            writer.write_table(arrow, max_chunksize=7)

    return to_bytes(write)


def as_lines(frame):
    return frame.to_json(orient="records", lines=True, date_format="iso").encode()


def records(frame):
    return frame.to_dict("records")


WRITERS = {
    "pandas parquet": (PARQUET, lambda f: f.to_parquet(index=False)),
    "polars parquet": (PARQUET, lambda f: to_bytes(pl.from_pandas(f).write_parquet)),
    "feather": (FILE, lambda f: to_bytes(f.to_feather)),
    "feather, compressed": (
        FILE,
        lambda f: to_bytes(lambda b: f.to_feather(b, compression="zstd")),
    ),
    "polars ipc": (FILE, lambda f: to_bytes(pl.from_pandas(f).write_ipc)),
    "arrow stream": (STREAM, stream),
    "excel": (XLSX, lambda f: to_bytes(lambda b: f.to_excel(b, index=False))),
    "json": (JSON, lambda f: json.dumps(records(f)).encode()),
    "json by task": (
        JSON,
        lambda f: json.dumps(
            {t: records(p.drop(columns="task")) for t, p in f.groupby("task", sort=False)}
        ).encode(),
    ),
    "json lines": (LINES, lambda f: b"\n".join(json.dumps(r).encode() for r in records(f))),
    "polars json lines": (LINES, lambda f: to_bytes(pl.from_pandas(f).write_ndjson)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_read_to_the_bit(reader, name):
    frame = table()
    media_type, write = WRITERS[name]
    body = write(frame)
    if media_type == XLSX:  # openpyxl writes 16 digits
        frame = pd.read_excel(io.BytesIO(body), engine="openpyxl")
    result = reader.read(body, media_type, target_column="y")
    tasks = reader.tasks(result)
    assert [task.name for task in tasks] == list(dict.fromkeys(frame["task"]))
    for task in tasks:
        own = frame[frame["task"] == task.name]
        assert task.X.tobytes() == own[["x", "n"]].to_numpy(np.float64).tobytes()
        assert task.y.tobytes() == own["y"].to_numpy().tobytes()
        assert task.feature_names == ("x", "n")
    assert "columns" not in result["manifest"]


KINDS = {
    "parquet": (PARQUET, lambda f: f.to_parquet(index=False)),
    "arrow stream": (STREAM, stream),
    "excel": (XLSX, lambda f: to_bytes(lambda b: f.to_excel(b, index=False))),
    "json lines": (LINES, as_lines),
}


@pytest.mark.parametrize("name", KINDS)
def test_columns_have_kinds_and_missing_values(reader, name):
    n = 12
    frame = pd.DataFrame(
        {
            "task": ["a", "b"] * 6,
            "age": [None, *np.arange(n - 1.0)],
            "sex": ["F", "M", None] * 4,
            "smokes": np.arange(n) % 2 == 0,
            "seen": pd.date_range("1969-12-30T12:30", periods=n, freq="36h"),
        }
    )
    media_type, write = KINDS[name]
    result = reader.read(write(frame), media_type)
    columns = {column["name"]: column for column in result["manifest"]["columns"]}
    assert {name: column["kind"] for name, column in columns.items()} == {
        "age": "number",
        "sex": "category",
        "smokes": "boolean",
        "seen": "date",
    }
    assert columns["sex"]["levels"] == ["F", "M"]
    first = reader.tasks(result)["a"].X
    own = frame[::2]
    np.testing.assert_array_equal(first[:, 0], own["age"])
    np.testing.assert_array_equal(first[:, 1], own["sex"].map({"F": 0, "M": 1}))
    np.testing.assert_array_equal(first[:, 2], own["smokes"])
    epoch = [moment.replace(tzinfo=UTC).timestamp() for moment in own["seen"].dt.to_pydatetime()]
    np.testing.assert_allclose(first[:, 3], epoch, rtol=0, atol=1e-3)


def test_declared_kinds_replace_those_that_were_found(reader):
    frame = pd.DataFrame(
        {
            "task": ["a"] * 4,
            "zip": [1010, 1010, 8020, 1010],
            "day": ["2026-01-02"] * 4,
            "on": [0, 1] * 2,
        }
    )
    kinds = ["zip:category", "day:date", "on:boolean"]
    result = reader.read(frame.to_parquet(index=False), PARQUET, column_kind=kinds)
    assert [c["kind"] for c in result["manifest"]["columns"]] == ["category", "date", "boolean"]
    assert result["manifest"]["columns"][0]["levels"] == ["1010", "8020"]
    day = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    np.testing.assert_array_equal(reader.tasks(result)["a"].X[2], [1, day, 0])


def as_feather(frame):
    """Return a frame as Arrow IPC with its index, as Parquet files of pandas have it."""
    return to_bytes(lambda b: pyarrow.feather.write_feather(pa.Table.from_pandas(frame), b))


@pytest.mark.parametrize(
    ("media_type", "write"), [(PARQUET, pd.DataFrame.to_parquet), (FILE, as_feather)]
)
def test_an_index_of_pandas_without_a_name_is_no_feature(reader, media_type, write):
    frame = pd.DataFrame({"task": ["n"] * 4, "a": [1, 2, 3, 4], "person": [5, 6, 7, 8]})
    result = reader.read(write(frame[frame["a"] != 2]), media_type)
    assert reader.tasks(result)["n"].feature_names == ("a", "person")
    assert result["manifest"]["ignored"] == ["__index_level_0__"]
    (note,) = result["manifest"]["warnings"]
    assert note == "column '__index_level_0__' is an index without a name and is left out"
    named = reader.read(write(frame[frame["a"] != 2].set_index("person")), media_type)
    assert reader.tasks(named)["n"].feature_names == ("a", "person")
    chosen = reader.read(
        write(frame[frame["a"] != 2]), media_type, group_column="__index_level_0__"
    )
    assert reader.tasks(chosen)["n"].groups.tolist() == ["0", "2", "3"]


def views(frame):
    """Return a frame as an Arrow table with texts in views."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    types = [pa.string_view() if pa.types.is_string(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


def categories(frame):
    return pl.from_pandas(frame).with_columns(pl.col(pl.String).cast(pl.Categorical))


VIEWS = {
    "polars ipc": (FILE, lambda f: to_bytes(pl.from_pandas(f).write_ipc)),
    "polars ipc of categories": (FILE, lambda f: to_bytes(categories(f).write_ipc)),
    "parquet": (PARQUET, lambda f: to_bytes(lambda file: pq.write_table(views(f), file))),
    "feather": (
        FILE,
        lambda f: to_bytes(lambda file: pyarrow.feather.write_feather(views(f), file)),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_texts_in_views_are_texts(reader, name):
    frame = pd.DataFrame(
        {
            "task": ["a", "a", "b", "b"],
            "sex": ["F", None, "M", "F"],
            "person": ["p", "p", "q", "r"],
            "y": ["no", "yes", "yes", "no"],
        }
    )
    media_type, write = VIEWS[name]
    options = {"target_column": "y", "group_column": "person"}
    plain = reader.tasks(reader.read(frame.to_parquet(index=False), PARQUET, **options))
    tasks = reader.tasks(reader.read(write(frame), media_type, **options))
    assert tasks.names == plain.names
    for task, other in zip(tasks, plain, strict=True):
        np.testing.assert_array_equal(task.X, other.X)
        assert task.y.tolist() == other.y.tolist()
        assert task.groups.tolist() == other.groups.tolist()


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=SAME_READER)
@given(
    X=arrays(np.float64, (5, 2), elements=st.floats(allow_infinity=False)),
    texts=st.lists(st.sampled_from(["u", "v", "é", None]), min_size=5, max_size=5),
)
def test_any_table_survives_parquet(reader, X, texts):
    frame = pa.table(
        {"task": ["t"] * 5, "a": X[:, 0], "b": X[:, 1], "c": pa.array(texts, pa.string())}
    )
    result = reader.read(to_bytes(lambda file: pq.write_table(frame, file)), PARQUET)
    rows = reader.tasks(result)["t"].X
    np.testing.assert_array_equal(rows[:, :2], X)
    columns = result["manifest"]["columns"]
    if len(columns) == 3:
        read = [None if np.isnan(i) else columns[2]["levels"][int(i)] for i in rows[:, 2]]
        assert read == texts
    else:
        assert set(texts) == {None}


def tasks_of_matlab():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(5, 3)), rng.normal(size=(4, 3))], [
        rng.normal(size=5),
        rng.normal(size=4),
    ]


def matlab_5(**variables):
    return to_bytes(lambda file: scipy.io.savemat(file, variables))


def store_73(group, name, value):
    """Store a matrix, a text or a struct of matrices."""
    if isinstance(value, dict):
        for field, part in value.items():
            store_73(group.require_group(name), field, part)
        return
    array = np.atleast_2d(np.asarray(value))
    kind = "double"
    if isinstance(value, str):
        array, kind = np.array([[ord(character) for character in value]], np.uint16), "char"
    if array.dtype.kind == "c":
        array = array.view([("real", "f8"), ("imag", "f8")])
    group[name] = array.T
    group[name].attrs["MATLAB_class"] = np.bytes_(kind)


def matlab_73(**variables):
    """Return a file as MATLAB writes it: matrices transposed, cells as references."""
    file = io.BytesIO()
    with h5py.File(file, "w", userblock_size=512) as out:
        stored = out.create_group("#refs#")
        for name, values in variables.items():
            if isinstance(values, np.ndarray) and values.dtype.hasobject:
                references = []
                for i, value in enumerate(values):
                    key = f"{name}{i}"
                    store_73(stored, key, value)
                    references.append(stored[key].ref)
                out.create_dataset(name, data=np.array([references], dtype=h5py.ref_dtype))
                out[name].attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                store_73(out, name, values)
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512)
    return head + file.getvalue()[512:]


def with_external_storage(file, other):
    file.create_dataset("X", shape=(2, 3), dtype="f8", external=[(other, 2048, 48)])


def with_external_link(file, other):
    file["X"] = h5py.ExternalLink(other, "/secret")


def with_soft_link(file, other):
    file["link"] = h5py.ExternalLink(other, "/secret")
    file["X"] = h5py.SoftLink("/link")


def with_virtual_dataset(file, other):
    layout = h5py.VirtualLayout(shape=(2, 3), dtype="f8")
    layout[:] = h5py.VirtualSource(other, "secret", shape=(2, 3))
    file.create_virtual_dataset("X", layout)


def with_cell(file, other):
    with_virtual_dataset(file.create_group("#refs#"), other)
    file.create_dataset("X", data=np.array([[file["#refs#/X"].ref]], dtype=h5py.ref_dtype))


def with_sparse_values(file, other):
    group = file.create_group("X")
    group.attrs["MATLAB_sparse"] = np.uint64(2)
    group["jc"] = np.array([0, 2, 4, 6], dtype=np.uint64)
    group["ir"] = np.array([0, 1] * 3, dtype=np.uint64)
    group.create_dataset("data", shape=(6,), dtype="f8", external=[(other, 2048, 48)])


@pytest.mark.parametrize(
    "refer",
    [
        with_external_storage,
        with_external_link,
        with_soft_link,
        with_virtual_dataset,
        with_cell,
        with_sparse_values,
    ],
)
def test_a_matlab_file_cannot_read_other_files(reader, tmp_path, refer):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["secret"] = np.arange(6.0).reshape(2, 3)
    path = tmp_path / "upload.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["task"] = np.ones((1, 2))
        refer(file, str(other))
    (issue,) = reader.read(path.read_bytes(), MATLAB)["issues"]
    assert issue["code"] == "unexpected-array"
    assert "are not in the file itself" in issue["detail"]


def test_cells_in_cells_of_matlab_are_rejected(reader, tmp_path):
    path = tmp_path / "upload.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        inner = file.create_dataset("#refs#/a", shape=(1, 1), dtype=h5py.ref_dtype)
        inner[0, 0] = inner.ref
        file.create_dataset("X", data=np.array([[inner.ref]], dtype=h5py.ref_dtype))
    (issue,) = reader.read(path.read_bytes(), MATLAB)["issues"]
    assert "a cell of the variable 'X' has cells" in issue["detail"]


@pytest.mark.parametrize("write", [matlab_5, matlab_73])
def test_cell_arrays_of_matlab_are_tasks(reader, write):
    Xs, ys = tasks_of_matlab()
    tasks = reader.tasks(reader.read(write(X=cells(Xs), Y=cells(ys)), MATLAB))
    assert [task.name for task in tasks] == ["1", "2"]
    for task, X, y in zip(tasks, Xs, ys, strict=True):
        assert task.X.tobytes() == X.tobytes()
        assert task.y.tobytes() == y.tobytes()


@pytest.mark.parametrize("write", [matlab_5, matlab_73])
def test_a_matrix_of_matlab_is_divided_by_task(reader, write):
    X = np.random.default_rng(0).normal(size=(6, 2))
    tasks = reader.tasks(reader.read(write(X=X, task=np.array([2.0, 1, 2, 1, 2, 2])), MATLAB))
    assert [task.name for task in tasks] == ["2", "1"]
    assert tasks["1"].X.tobytes() == X[[1, 3]].tobytes()


def test_tasks_and_labels_of_matlab_may_have_names(reader):
    Xs, _ = tasks_of_matlab()
    labels = cells([cells(list("abcab")), cells(list("abba"))])
    body = matlab_5(X=cells(Xs), names=cells(["left", "right"]), labels=labels)
    tasks = reader.tasks(reader.read(body, MATLAB))
    assert tasks.names == ("left", "right")
    assert tasks["right"].y.tolist() == ["a", "b", "b", "a"]


TWO_CELLS = cells([np.ones((2, 2)), np.zeros((3, 2))])


@pytest.mark.parametrize("write", [matlab_5, matlab_73])
@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"tasks": cells(["n", "n"])}, "duplicate-task", "2 tasks are named 'n' in 'tasks'"),
        ({"tasks": cells(["2"])}, "wrong-shape", "'tasks' has 1 name for 2 cells"),
        ({"names": cells(["a", "b", "c"])}, "wrong-shape", "'names' has 3 names for 2 cells"),
        ({"tasks": np.array([7.5, 8])}, "invalid-name", "'tasks{1}' is not the name of a task"),
        ({"tasks": {"n": np.ones(2)}}, "unsupported-dtype", "'tasks' is a struct"),
        ({"data": TWO_CELLS}, "duplicate-array", "'X' and 'data' are names of the rows"),
    ],
)
def test_names_of_matlab_that_do_not_fit_the_cells_are_rejected(
    reader, write, variables, code, words
):
    result = reader.read(write(X=TWO_CELLS, **variables), MATLAB)
    reader.assert_rejected(result, code, words)


@pytest.mark.parametrize("write", [matlab_5, matlab_73])
def test_tasks_of_matlab_may_be_named_by_whole_numbers(reader, write):
    body = write(X=TWO_CELLS, tasks=np.array([7.0, 8.0]))
    tasks = reader.tasks(reader.read(body, MATLAB))
    assert tasks.names == ("7", "8")
    assert tasks["8"].X.shape == (3, 2)


COMPLEX = np.array([[1 + 5j, 2]])


@pytest.mark.parametrize("write", [matlab_5, matlab_73])
@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({"X": cells([COMPLEX])}, "'X{1}'"),
        ({"X": cells([np.ones((2, 2))]), "Y": cells([COMPLEX])}, "'Y{1}'"),
        ({"X": COMPLEX, "task": np.ones(1)}, "'X'"),
    ],
)
def test_complex_numbers_of_matlab_are_rejected(reader, write, variables, where):
    result = reader.read(write(**variables), MATLAB)
    reader.assert_rejected(result, "unsupported-dtype", f"{where} has dtype 'complex128'")


@pytest.mark.parametrize("write", [matlab_5, matlab_73])
def test_a_struct_of_matlab_is_rejected(reader, write):
    body = write(X={"n": np.ones((2, 2)), "s": np.zeros((3, 2))})
    words = "'X' is a struct; expected cell arrays"
    reader.assert_rejected(reader.read(body, MATLAB), "unsupported-dtype", words)


@pytest.mark.parametrize("task", [1.5, 1e300, np.inf, np.nan])
def test_a_task_of_matlab_that_is_no_integer_is_rejected(reader, task):
    body = matlab_5(X=np.ones((2, 1)), task=np.array([1, task]))
    words = "name tasks by text or integers"
    reader.assert_rejected(reader.read(body, MATLAB), "unsupported-dtype", words)


def test_a_label_of_matlab_with_several_texts_is_rejected(reader):
    body = matlab_5(X=cells([np.ones((1, 2))]), Y=cells([cells([np.array(["ab", "cd"])])]))
    words = "'Y{1}' is neither numeric nor text"
    reader.assert_rejected(reader.read(body, MATLAB), "unsupported-dtype", words)


def test_an_empty_label_of_matlab_is_located(reader):
    body = matlab_5(X=cells([np.ones((2, 2))]), Y=cells([cells(["", "a"])]))
    reader.assert_rejected(reader.read(body, MATLAB), "empty-cell", "row 0: the target is empty")


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.uint32, np.bool_]
)
def test_safetensors_have_the_arrays_of_npz(reader, dtype):
    X = (np.random.default_rng(0).normal(size=(6, 2)) * 3).astype(dtype)
    body = safetensors.numpy.save(
        {"a/X": X, "a/y": np.arange(6.0)}, metadata={"feature_names": '["u", "v"]'}
    )
    task = reader.tasks(reader.read(body, SAFETENSORS))["a"]
    assert task.X.tobytes() == X.astype(np.float64).tobytes()
    assert task.feature_names == ("u", "v")


def test_sheets_of_a_workbook_are_tasks(reader):
    frame = table().drop(columns=["y"])
    parts = dict(iter(frame.groupby("task", sort=False)))

    def write(file):
        with pd.ExcelWriter(file) as book:
            for name, part in parts.items():
                part.drop(columns="task").to_excel(book, sheet_name=name, index=False)

    body = to_bytes(write)
    tasks = reader.tasks(reader.read(body, XLSX))
    assert list(tasks.names) == list(parts)
    for task in tasks:
        sheet = pd.read_excel(io.BytesIO(body), engine="openpyxl", sheet_name=task.name)
        assert task.X.tobytes() == sheet.to_numpy(np.float64).tobytes()


def workbook(rows, title="Sheet"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    return to_bytes(book.save)


def test_dates_of_a_workbook_are_dates(reader):
    days = pd.to_datetime(["2024-01-02", "2024-01-05T06:00", None], format="ISO8601")
    frame = pd.DataFrame({"task": ["n"] * 3, "day": days, "x": [1, 2, 3]})
    body = to_bytes(lambda file: frame.to_excel(file, index=False))
    result = reader.read(body, XLSX)
    assert [c["kind"] for c in result["manifest"]["columns"]] == ["date", "number"]
    X = reader.tasks(result)["n"].X
    parquet = reader.read(frame.to_parquet(index=False), PARQUET)
    assert X.tobytes() == reader.tasks(parquet)["n"].X.tobytes()


def test_whole_numbers_of_a_workbook_are_integers(reader):
    rows = [["task", 2020, "x"], [1, 0.5, 1], [2, 1, 1e300]]
    tasks = reader.tasks(reader.read(workbook(rows), XLSX))
    assert tasks.names == ("1", "2")
    assert tasks["2"].feature_names == ("2020", "x")
    assert tasks["2"].X.tolist() == [[1.0, 1e300]]


def test_empty_sheets_and_rows_of_a_workbook_are_skipped(reader):
    book = openpyxl.Workbook()
    data = book.create_sheet("data")
    book.create_sheet("notes")
    for row in ([], ["task", "x"], ["a", 1], [], ["a", 3], [None, None]):
        data.append(row)
    tasks = reader.tasks(reader.read(to_bytes(book.save), XLSX))
    assert tasks["a"].X.tolist() == [[1], [3]]


def test_cells_of_a_workbook_without_a_result_have_a_note(reader):
    book = openpyxl.Workbook()
    book.active.title = "May & June"
    for row in (["x", "e"], [1, 5], ["=A2+1", 6]):
        book.active.append(row)
    other = book.create_sheet("July")
    for row in (["x", "e"], [3, "#DIV/0!"], ["=A2+1", "#REF!"], ["=A3+1", 7]):
        other.append(row)
    result = reader.read(to_bytes(book.save), XLSX)
    assert np.isnan(reader.tasks(result)["July"].X).tolist() == [[0, 1], [1, 0]]
    sheets, errors, formulas = result["manifest"]["warnings"]
    assert "'May & June', 'July'" in sheets
    assert "2 cells have an error such as #DIV/0! and are read as empty" in errors
    assert "the first: sheet 'July', cell B2; correct its formula" in errors
    assert "3 cells have a formula without a stored result" in formulas
    assert "the first: sheet 'May & June', cell A3; open the workbook" in formulas


def test_stored_results_of_formulas_are_read_without_a_note(reader):
    body = workbook([["task", "x"], ["a", 1], ["a", 2]])
    stored = {
        '<c r="B2" t="n"><v>1</v></c>': '<c r="B2"><f>1+2</f><v>3</v></c>',
        '<c r="B3" t="n"><v>2</v></c>': '<c r="B3" t="str"><f>""</f><v></v></c>',
    }

    def write(file):
        with (
            zipfile.ZipFile(io.BytesIO(body)) as old,
            zipfile.ZipFile(file, "w") as new,
        ):
            for name in old.namelist():
                xml = old.read(name).decode()
                for before, after in stored.items():
                    assert "sheet1" not in name or before in xml
                    xml = xml.replace(before, after)
                new.writestr(name, xml)

    result = reader.read(to_bytes(write), XLSX)
    assert result["manifest"]["warnings"] == []
    np.testing.assert_array_equal(reader.tasks(result)["a"].X, [[3], [np.nan]])


def bomb(size=200 * 2**20):
    def write(file):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/workbook.xml", b"\0" * size)

    return to_bytes(write)


def feather_1():
    return b"FEA1" + bytes(64) + b"FEA1"


FRAME = table()
BROKEN = {
    "parquet cut": (PARQUET, FRAME.to_parquet(index=False)[:-9], "corrupt-file", "Parquet"),
    "parquet of zeros": (PARQUET, b"PAR1" + bytes(500) + b"PAR1", "corrupt-file", "Parquet"),
    "parquet without rows": (PARQUET, FRAME[:0].to_parquet(index=False), "no-rows", "no rows"),
    "parquet of lists": (
        PARQUET,
        pd.DataFrame({"task": ["a"], "x": [[1.0, 2.0]]}).to_parquet(index=False),
        "unsupported-dtype",
        "column 'x' has values of type list",
    ),
    "parquet with infinity": (
        PARQUET,
        pd.DataFrame({"task": ["a", "a"], "x": [1.0, np.inf]}).to_parquet(index=False),
        "not-finite",
        "row 1, column 'x'",
    ),
    "parquet without tasks": (
        PARQUET,
        FRAME.drop(columns="task").to_parquet(index=False),
        "missing-option",
        "no column 'task'",
    ),
    "parquet with a row without task": (
        PARQUET,
        pd.DataFrame({"task": ["a", None], "x": [1.0, 2.0]}).to_parquet(index=False),
        "empty-cell",
        "row 1, column 'task'",
    ),
    "parquet of ids": (
        PARQUET,
        pd.DataFrame({"task": ["a"], "id": [2**60 + 1]}).to_parquet(index=False),
        "inexact-integer",
        "column 'id'",
    ),
    "feather 1": (FILE, feather_1(), "corrupt-file", "version 1"),
    "feather cut": (FILE, to_bytes(FRAME.to_feather)[:-20], "corrupt-file", "Arrow IPC"),
    "stream cut": (STREAM, stream(FRAME)[:700], "corrupt-file", "Arrow IPC"),
    "workbook cut": (XLSX, workbook([["task", "x"], ["a", 1]])[:-30], "corrupt-file", "zip"),
    "workbook without sheet": (XLSX, workbook([]), "empty-file", "no sheet"),
    "workbook of mixed cells": (
        XLSX,
        workbook([["task", "x"], ["a", 1], [], ["a", "one"]], title="May"),
        "mixed-types",
        "sheet 'May', row 4, column 'x': this is text, but sheet 'May', row 2 has a number",
    ),
    "workbook with a row without task": (
        XLSX,
        workbook([["task", "x"], ["a", 1], [None, 2]]),
        "empty-cell",
        "sheet 'Sheet', row 3, column 'task'",
    ),
    "workbook of durations": (
        XLSX,
        workbook([["task", "x"], ["a", timedelta(hours=30)]]),
        "unsupported-dtype",
        "row 2, column 'x': this is a duration",
    ),
    "workbook of times of day": (
        XLSX,
        workbook([["task", "x"], ["a", time(12, 30)]]),
        "unsupported-dtype",
        "row 2, column 'x': this is a time of day",
    ),
    "workbook with two equal columns": (
        XLSX,
        workbook([["task", "x", "x"], ["a", 1, 2]]),
        "duplicate-column",
        "2 columns are named 'x'",
    ),
    "workbook with a second header": (
        XLSX,
        workbook([["Results", None, "Age"], [], ["task", "x", "y"], ["a", 1, 2]], title="May"),
        "invalid-name",
        "1 of 3 columns has no name in sheet 'May', row 1; this row needs all",
    ),
    "workbook that is a bomb": (XLSX, bomb, "decompression-limit", "upload the table as CSV"),
    "json cut": (JSON, b'[{"task": "a", "x": 1}', "corrupt-file", "not valid JSON"),
    "json of a number": (JSON, b"3", "corrupt-file", "expected a list of records"),
    "json with nesting": (
        JSON,
        b'[{"task": "a", "x": [1]}]',
        "unsupported-dtype",
        "row 0, column 'x': this is a list",
    ),
    "json of mixed types": (
        JSON,
        b'[{"task": "a", "x": 1}, {"task": "a", "x": "one"}]',
        "mixed-types",
        "row 1, column 'x': this is text, but row 0 has a number",
    ),
    "json of a large id": (
        JSON,
        b'[{"task": "a", "x": 9007199254740993}]',
        "inexact-integer",
        "row 0, column 'x'",
    ),
    "json with a repeated key": (
        JSON,
        b'[{"task": "a", "x": "b"}, {"task": "a", "x": 1, "x": "a\\u003ab"}]',
        "duplicate-column",
        "row 1: the key 'x' appears 2 times",
    ),
    "json by task with a repeated key": (
        JSON,
        b'{"a": [{"x": 1}], "b": [{"x": 1}, {"x": 1, "x": 2}]}',
        "duplicate-column",
        "row 2: the key 'x' appears 2 times",
    ),
    "json with a repeated task": (
        JSON,
        b'{"a": [{"x": 1}], "a": [{"x": 2}]}',
        "duplicate-task",
        "task 'a' appears 2 times",
    ),
    "json lines with a repeated key": (
        LINES,
        b'{"task": "a", "x": 1}\n\n{"task": "a", "x": 1, "x": 2}\n',
        "duplicate-column",
        "row 1: the key 'x' appears 2 times",
    ),
    "json of an id beyond 64 bits": (
        JSON,
        b'[{"task": "a", "x": 1}, {"task": "a", "x": 12345678901234567890123}]',
        "inexact-integer",
        "row 1, column 'x' is 12345678901234567890123, above 2**53",
    ),
    "json with nan": (JSON, b'[{"task": "a", "x": NaN}]', "corrupt-file", "NaN is written as null"),
    "json lines with infinity": (
        LINES,
        b'{"task": "a", "x": -Infinity}',
        "corrupt-file",
        "infinite numbers are not supported",
    ),
    "json lines with deep nesting": (
        LINES,
        b'{"task": "a", "x": ' + b"[" * 300 + b"]" * 300 + b"}",
        "unsupported-dtype",
        "column 'x': this is a list",
    ),
    "json lines cut": (LINES, b'{"task": "a", "x": 1}\n{"task":', "corrupt-file", "line 2"),
    "json lines of lists": (LINES, b"[1]\n", "corrupt-file", "row 0 is not a record"),
    "json without records": (JSON, b"[]", "no-rows", "no records"),
    "matlab cut": (
        MATLAB,
        matlab_5(X=np.ones((50, 50)), task=np.ones(50))[:3000],
        "corrupt-file",
        "MATLAB",
    ),
    "matlab of zeros": (MATLAB, b"MATLAB 5.0 MAT-file".ljust(600, b"\0"), "corrupt-file", "MATLAB"),
    "matlab 7.3 cut": (MATLAB, matlab_73(X=np.ones((50, 50)))[:3000], "corrupt-file", "MATLAB"),
    "matlab without X": (
        MATLAB,
        matlab_5(Y=cells([np.ones(2)])),
        "missing-array",
        "no variable 'X'",
    ),
    "matlab of a structure": (
        MATLAB,
        matlab_5(X=cells([{"a": 1}])),
        "unsupported-dtype",
        "'X{1}' is neither numeric nor text",
    ),
    "matlab of other variables": (
        MATLAB,
        matlab_5(features=cells([np.ones((2, 2))]), weights=np.ones(2)),
        "unexpected-array",
        "'features'",
    ),
    "matlab with fewer targets": (
        MATLAB,
        matlab_5(X=cells([np.ones((2, 2))] * 2), Y=cells([np.ones(2)])),
        "wrong-shape",
        "'Y' has 1 cells, but X has 2",
    ),
    "safetensors cut": (
        SAFETENSORS,
        safetensors.numpy.save({"a/X": np.ones((9, 9))})[:-8],
        "corrupt-file",
        "safetensors",
    ),
    "safetensors with other names": (
        SAFETENSORS,
        safetensors.numpy.save({"weights": np.ones((2, 2))}),
        "unexpected-array",
        "'weights'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_gets_an_issue(reader, name):
    media_type, body, code, words = BROKEN[name]
    body = body() if callable(body) else body  # one takes a second to make
    reader.assert_rejected(reader.read(body, media_type), code, words)


@pytest.mark.parametrize("text", ["10:30", "a:b:c", "\\u003a", "12345678901234567890123", ":1}"])
def test_colons_and_digits_in_texts_of_json_are_no_keys_or_numbers(reader, text):
    body = f'[{{"task": "a", "a:b": "{text}", "x": 1e30}}]'.encode()
    for content, media_type in ((body, JSON), (body[1:-1], LINES)):
        result = reader.read(content, media_type)
        assert result["manifest"]["columns"][0]["levels"] == [json.loads(f'"{text}"')]


DATE_TEXTS = {
    "json": (JSON, lambda f: f.to_json(orient="records").encode()),
    "parquet": (PARQUET, lambda f: f.to_parquet(index=False)),
    "parquet of categories": (PARQUET, lambda f: to_bytes(categories(f).write_parquet)),
    "parquet of polars": (PARQUET, lambda f: to_bytes(pl.from_pandas(f).write_parquet)),
    "excel": (XLSX, lambda f: to_bytes(lambda b: f.to_excel(b, index=False))),
}


@pytest.mark.parametrize("name", DATE_TEXTS)
@pytest.mark.parametrize("day", ["31. Januar 2024", "31-Mai-2024"])
def test_a_text_that_looks_like_a_date_has_a_note(reader, name, day):
    frame = pd.DataFrame({"task": ["a"] * 3, "seen": [None, day, day], "who": ["may", "u", "v"]})
    media_type, write = DATE_TEXTS[name]
    result = reader.read(write(frame), media_type)
    (note,) = result["manifest"]["warnings"]
    assert f"column 'seen' looks like dates such as {day!r}, but is read as text" in note
    assert "write them as 2026-01-31" in note
    declared = reader.read(write(frame), media_type, column_kind=["seen:category"])
    assert declared["manifest"]["warnings"] == []


def test_a_date_of_json_beyond_the_calendar_is_text(reader):
    body = json.dumps([{"task": "a", "seen": "0001-01-01T00:00+05:00"}]).encode()
    assert reader.read(body, JSON)["manifest"]["columns"][0]["kind"] == "category"


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("options", [{}, {"target_kind": "classes"}])
def test_a_boolean_target_has_the_same_labels_in_every_format(reader, name, options):
    frame = pd.DataFrame({"task": ["a"] * 3, "x": [1.5, 2.5, 3.5], "y": [True, False, True]})
    media_type, write = WRITERS[name]
    result = reader.read(write(frame), media_type, target_column="y", **options)
    assert reader.tasks(result)["a"].y.tolist() == ["true", "false", "true"]
    numbers = reader.read(write(frame), media_type, target_column="y", target_kind="numbers")
    assert reader.tasks(numbers)["a"].y.tolist() == [1, 0, 1]


def test_a_boolean_target_of_arrays_has_the_labels_of_tables(reader):
    X, y = np.ones((2, 1)), np.array([True, False])
    for body, media_type in (
        (matlab_5(X=cells([X]), Y=cells([y])), MATLAB),
        (safetensors.numpy.save({"1/X": X, "1/y": y}), SAFETENSORS),
        (to_bytes(lambda file: np.savez(file, **{"1/X": X, "1/y": y})), "application/x-npz"),
    ):
        assert reader.tasks(reader.read(body, media_type))["1"].y.tolist() == ["true", "false"]


def test_an_integer_target_of_parquet_that_is_inexact_as_float64_is_located(reader):
    targets = pd.array([1, None, 2**60 + 1], dtype="Int64")
    frame = pd.DataFrame({"task": ["a"] * 3, "x": [1, 2, 3], "y": targets})
    result = reader.read(frame.to_parquet(index=False), PARQUET, target_column="y")
    words = f"row 2, column 'y': the integer {2**60 + 1} is above 2**53"
    reader.assert_rejected(result, "inexact-integer", words, row=2, column="y")


#: A valid file of each format.
WHOLE = {
    **{media_type: write(table(n=6)) for media_type, write in WRITERS.values()},
    SAFETENSORS: safetensors.numpy.save({"a/X": np.ones((3, 2))}),
    MATLAB: matlab_5(X=cells([np.ones((3, 2))])),
}


@pytest.mark.parametrize("media_type", WHOLE)
@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=SAME_READER)
@given(data=st.data())
def test_damaged_bytes_never_crash_a_reader(reader, media_type, data):
    body = bytearray(WHOLE[media_type])
    for _ in range(data.draw(st.integers(1, 6))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    result = reader.read(bytes(body), media_type, target_column="y")
    assert result.keys() in ({"manifest"}, {"issues"})


def test_a_record_that_lacks_a_key_has_a_missing_value(reader):
    body = b'[{"task": "n", "a": 1, "b": 2}, {"task": "n", "a": 3}]'
    (task,) = reader.tasks(reader.read(body, JSON))
    np.testing.assert_array_equal(task.X, [[1, 2], [3, np.nan]])


def test_objects_of_python_are_not_loaded(reader):
    body = pickle.dumps({"X": [1]})
    for media_type in (PARQUET, FILE, XLSX, MATLAB, SAFETENSORS, JSON):
        assert reader.read(body, media_type)["issues"][0]["code"] == "corrupt-file"
