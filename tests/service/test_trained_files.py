"""A file that a model was trained on is sent back as it is: tasks, targets and all else in it."""

import asyncio
import gzip
import io
import json
from dataclasses import dataclass, field
from typing import Any

import h5py
import httpx
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
from safetensors.numpy import save
from scipy.io import savemat
from scipy.sparse import csr_array
from typer.testing import CliRunner

from service.cli import app
from sibling import AsyncClient
from sibling.frames import sparse_arrays
from tests.written import written

NPY = "application/x-npy"
CSV, JSON, NDJSON = "text/csv", "application/json", "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
STREAM, FILE = "application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.file"
NPZ, SAFETENSORS = "application/x-npz", "application/vnd.safetensors"
MATLAB = "application/x-matlab-data"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
N = 48
CLASSES = {
    "target_column": "died",
    "ignore_column": ["row", "stay", "weight", "group", "stay2"],
}


@dataclass(frozen=True)
class Trained:
    """A file, its media type and the end of its name, and how it was uploaded.

    ``kept`` names the columns of the model. ``given`` is what a client has instead of a file.
    """

    body: bytes
    media_type: str
    suffix: str
    options: dict[str, Any]
    kept: tuple[str, ...]
    frame: pd.DataFrame
    algorithm: str = "ridge"
    given: Any = field(default=None, compare=False)


def wards(names=("H00", "H01", "H02"), *, numeric=False, seed=0):
    """Return rows of several hospitals, whose order is mixed and whose models differ much."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(N) % len(names))
    frame = pd.DataFrame(
        {
            "row": [f"p{i}" for i in range(N)],
            "hospital": [names[code] for code in codes],
            "age": rng.integers(20, 90, N).astype(float),
            "bmi": rng.normal(25, 4, N).round(2),
        }
    )
    kept = ("age", "bmi")
    if not numeric:
        frame["sex"] = rng.choice(["F", "M"], N)
        frame["seen"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D")
        kept = (*kept, "sex", "seen")
    slopes = np.array([0.1, -0.2, 0.4])[codes]
    frame["stay"] = (10 * codes + slopes * frame["age"] + rng.normal(0, 0.1, N)).round(3)
    frame["died"] = np.where((frame["age"] > 55) ^ (codes == 1), "yes", "no")
    frame["weight"] = rng.integers(1, 4, N).astype(float)
    frame["group"] = [f"g{i % 12}" for i in range(N)]
    frame["stay2"] = frame["stay"] * 2
    return frame, kept


def regression(*left_out, task="hospital", **more):
    options = {"task_column": task, "target_column": "stay"}
    return (
        options | {"ignore_column": ["row", "died", "weight", "group", "stay2", *left_out]} | more
    )


def text(frame, **how):
    dated = frame.copy()
    for name in dated.columns:
        if dated[name].dtype.kind == "M":
            dated[name] = dated[name].dt.strftime("%Y-%m-%d")
    return dated.to_csv(index=False, **how)


def made(body, media_type, suffix, options, how, **more):
    frame, kept = how
    return Trained(body, media_type, suffix, options, kept, frame, **more)


def plain_csv():
    how = wards(numeric=True)
    return made(text(how[0]).encode(), CSV, ".csv", regression(), how)


def semicolons_and_decimal_commas():
    how = wards()
    return made(text(how[0], sep=";", decimal=",").encode(), CSV, ".csv", regression(), how)


def gzipped_csv():
    how = wards()
    return made(gzip.compress(text(how[0]).encode()), CSV, ".csv.gz", regression(), how)


def tabs_of_names_with_zeros():
    how = wards(("007", "7", "0"))
    return made(text(how[0], sep="\t").encode(), CSV, ".tsv", regression(), how)


def declared_markers_of_missing_values():
    frame, kept = wards()
    frame.loc[frame.index % 5 == 1, "bmi"] = np.nan
    frame.loc[frame.index % 5 == 2, "sex"] = None
    body = text(frame, na_rep="-999").replace(",-999,", ",-999.0,", 3)
    options = regression(missing_marker=["-999", "-999.0"])
    return made(body.encode(), CSV, ".csv", options, (frame, kept))


def windows_text():
    frame, kept = wards(("Köln", "Bonn", "Ulm"))
    frame = frame.rename(columns={"hospital": "Klinik für Ort", "age": "größe"})
    kept = tuple("größe" if name == "age" else name for name in kept)
    body = text(frame, sep=";", decimal=",").encode("windows-1252")
    return made(body, CSV, ".csv", regression(task="Klinik für Ort"), (frame, kept))


def utf16_csv():
    how = wards()
    return made(text(how[0]).encode("utf-16"), CSV, ".csv", regression(), how)


def csv_with_an_index():
    frame, kept = wards(numeric=True)
    return made(frame.to_csv().encode(), CSV, ".csv", regression(), (frame, kept))


def table_of_r_with_row_names_and_empty_rows():
    frame, kept = wards(numeric=True)
    body = frame.to_csv(index_label=False, sep="\t") + "\t" * len(frame.columns) + "\n\t\n"
    return made(body.encode(), CSV, ".csv", regression(), (frame, kept))


def delimiters_at_the_end_of_rows():
    frame, kept = wards(numeric=True)
    body = text(frame, sep=";").replace("\n", ";\n")
    return made(body.encode(), CSV, ".csv", regression(), (frame, kept))


def delimiters_at_the_end_of_rows_but_not_of_the_header():
    frame, kept = wards(numeric=True)
    body = text(frame, sep=";").replace("\n", ";\n").replace(";\n", "\n", 1)
    return made(body.encode(), CSV, ".csv", regression(), (frame, kept))


def workbook_of_which_one_sheet_is_used():
    frame, kept = wards()
    other = frame.assign(hospital="other", age=0.0)
    file = io.BytesIO()
    with pd.ExcelWriter(file) as book:
        other.to_excel(book, sheet_name="2024", index=False)
        frame.to_excel(book, sheet_name="2025", index=False)
        pd.DataFrame({"source": ["registry"]}).to_excel(book, sheet_name="Readme", index=False)
    return made(file.getvalue(), XLSX, ".xlsx", regression() | {"sheet": "2025"}, (frame, kept))


def codes_with_leading_zeros():
    frame, kept = wards(numeric=True)
    frame["zip"] = [f"{900 + 100 * (i % 3):05}" for i in range(N)]
    return made(text(frame).encode(), CSV, ".csv", regression(), (frame, (*kept, "zip")))


def aligned_by_blanks():
    frame, kept = wards(numeric=True)
    return made(frame.to_string().encode(), CSV, ".txt", regression(), (frame, kept))


def single_spaces_with_quoted_names():
    frame, kept = wards(("St. Mary", "H 01"), numeric=True)
    frame["comment"] = "in\ntwo lines"
    body = frame.to_csv(sep=" ", index=False)
    return made(body.encode(), CSV, ".csv", regression("comment"), (frame, kept))


def workbook_with_an_index():
    frame, kept = wards()
    return made(written(frame.to_excel), XLSX, ".xlsx", regression(), (frame, kept))


def records_with_an_index():
    frame, kept = wards(numeric=True)
    records = [{"": i, **record} for i, record in enumerate(records_of(frame))]
    return made(json.dumps(records).encode(), JSON, ".json", regression(), (frame, kept))


def polars_with_an_index():
    frame, kept = wards(numeric=True)
    given = pl.read_csv(io.StringIO(frame.to_csv()))
    return made(
        written(given.write_parquet), PARQUET, ".parquet", regression(), (frame, kept), given=given
    )


def parquet_of_mixed_columns():
    how = wards()
    options = {**regression(), "weight_column": "weight", "group_column": "group"}
    options["ignore_column"] = ["row", "died", "stay2"]
    return made(how[0].to_parquet(index=False), PARQUET, ".parquet", options, how)


def parquet_with_numbers_as_tasks_and_an_index():
    frame, kept = wards((1, 22, 300), numeric=True)
    frame = frame[frame["age"] > 25]
    frame["visits"] = [[1, 2]] * len(frame)
    frame["took"] = pa.array([3] * len(frame), pa.duration("s")).to_pandas().to_numpy()
    frame.index = frame.index + 7
    body = frame.to_parquet()
    return made(body, PARQUET, ".parquet", regression("visits", "took"), (frame, kept))


def stream_with_a_dictionary_of_tasks():
    frame, kept = wards()
    frame["hospital"] = frame["hospital"].astype("category")
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = sink.getvalue().to_pybytes()
    return made(body, STREAM, ".arrows", {**regression(), **CLASSES}, (frame, kept), **LOGIT)


LOGIT = {"algorithm": "logistic-regression"}


def compressed_feather():
    how = wards()
    return made(written(how[0].to_feather), FILE, ".feather", regression(), how)


def workbook_with_numbers_as_tasks():
    frame, kept = wards((1, 22, 300))
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(list(frame.columns))
    for row in frame.itertuples(index=False):
        sheet.append([v.to_pydatetime() if isinstance(v, pd.Timestamp) else v for v in row])
    return made(written(book.save), XLSX, ".xlsx", regression(), (frame, kept))


def records_of(frame):
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def json_records():
    how = wards()
    records = records_of(how[0])
    body = json.dumps(records).encode()
    return made(body, JSON, ".json", regression(), how, given=records)


def json_lines_with_gaps():
    frame, kept = wards()
    frame.loc[frame.index % 5 == 1, "bmi"] = np.nan
    frame.loc[frame.index % 5 == 2, "sex"] = None
    frame.loc[frame.index % 5 == 3, "weight"] = np.nan
    body = "\n".join(json.dumps(record) for record in records_of(frame)).encode()
    return made(body, NDJSON, ".jsonl", regression(), (frame, kept))


def json_lines_in_utf_16():
    frame, kept = wards()
    body = "\n".join(json.dumps(record) for record in records_of(frame)).encode("utf-16")
    return made(body, JSON, ".json", regression(), (frame, kept))


def workbook_with_text_around_the_table_and_merged_tasks():
    frame, kept = wards()
    frame = frame.sort_values("hospital").reset_index(drop=True)
    file = io.BytesIO()
    with pd.ExcelWriter(file) as book:
        frame.set_index(["hospital", "row"]).to_excel(book, startrow=2)
        sheet = book.sheets["Sheet1"]
        sheet["A1"], sheet[f"A{N + 5}"] = "Wards 2026", "Source: registry"
    return made(file.getvalue(), XLSX, ".xlsx", regression(), (frame, kept))


def json_by_task():
    frame, kept = wards()
    frame = frame.sort_values("hospital", kind="stable")
    by_task = {
        name: records_of(own.drop(columns="hospital")) for name, own in frame.groupby("hospital")
    }
    options = regression()
    del options["task_column"]
    return made(json.dumps(by_task).encode(), JSON, ".json", options, (frame, kept))


def pandas_with_tasks_in_the_index():
    frame, kept = wards()
    given = frame.set_index(["hospital", "row", "age"])
    options = {**CLASSES, "task_column": "hospital"}
    body = given.to_parquet()
    return made(body, PARQUET, ".parquet", options, (frame, kept), given=given, **LOGIT)


def polars_with_numbers_as_tasks():
    frame, kept = wards((1, 22, 300), numeric=True)
    given = pl.from_pandas(frame.drop(columns=["row", "died", "group"]))
    options = {"task_column": "hospital", "target_column": "stay", "weight_column": "weight"}
    options["ignore_column"] = ["stay2"]
    return made(written(given.write_ipc), FILE, ".arrow", options, (frame, kept), given=given)


def column_named_task_that_is_a_number_of_the_model():
    frame, kept = wards(numeric=True)
    frame = frame.rename(columns={"age": "task"})
    kept = tuple("task" if name == "age" else name for name in kept)
    return made(text(frame).encode(), CSV, ".csv", regression(), (frame, kept))


def column_named_task_that_is_left_out():
    frame, kept = wards(numeric=True)
    frame["task"] = [f"step {i % 7}" for i in range(N)]
    return made(text(frame).encode(), CSV, ".csv", regression("task"), (frame, kept))


def target_named_task():
    frame, kept = wards(numeric=True)
    frame = frame.rename(columns={"stay": "task"})
    options = {**regression(), "target_column": "task"}
    return made(frame.to_parquet(index=False), PARQUET, ".parquet", options, (frame, kept))


def tasks_under_the_usual_name():
    frame, kept = wards((1, 22, 300), numeric=True)
    frame = frame.rename(columns={"hospital": "task"})
    options = regression()
    del options["task_column"]
    return made(text(frame).encode(), CSV, ".csv", options, (frame, kept))


def of_arrays(write, media_type, suffix, *, names=("H00", "H01", "H02"), by_task=True, **options):
    """Return a file of arrays: by task, or of all rows with a gap and a task for each."""
    frame, kept = wards(names, numeric=True)
    if by_task:
        frame = frame.sort_values("hospital", kind="stable").reset_index(drop=True)
        parts = {}
        for task, own in frame.groupby("hospital", sort=False):
            parts[f"{task}/X"] = np.ascontiguousarray(own[[*kept]].to_numpy())
            parts[f"{task}/y"] = own["stay"].to_numpy()
    else:
        frame.loc[3, "bmi"] = np.nan
        targets = frame["stay"].to_numpy().copy()
        targets[[1, 7]] = np.nan  # rows without a target are predicted in their places
        parts = {"X": frame[[*kept]].to_numpy(), "y": targets}
        parts |= {"task": frame["hospital"].to_numpy(str), "groups": frame["group"].to_numpy(str)}
    return made(write(parts, kept), media_type, suffix, options, (frame, kept))


def npz(parts, kept):
    return written(np.savez_compressed, **parts, feature_names=np.array(kept))


def sparse_npz(parts, _kept=()):
    sparse = {name: X for name, X in parts.items() if not name.endswith("/X")}
    for name in parts:
        if name not in sparse:
            sparse |= sparse_arrays(csr_array(parts[name]), name)
    return written(np.savez, **sparse)


def mat(parts, _kept=()):
    return written(savemat, parts)


def cells(parts, _kept):
    def column(part):
        values = [array for name, array in parts.items() if name.endswith(part)]
        listed = np.empty(len(values), object)
        listed[:] = values
        return listed

    names = np.array([name.partition("/")[0] for name in parts if name.endswith("/X")], object)
    return mat({"signals": column("/X"), "labels": column("/y"), "tasks": names})


def hdf5(parts, _kept=()):
    file = io.BytesIO()
    with h5py.File(file, "w") as book:
        for name, array in parts.items():
            book[name] = array.T
    return file.getvalue()


def tensors(parts, kept):
    return save(parts, metadata={"feature_names": json.dumps(kept)})


def npz_of_tasks():
    return of_arrays(npz, NPZ, ".npz")


def npz_table_with_rows_without_targets():
    return of_arrays(npz, NPZ, ".npz", by_task=False)


def sparse_npz_of_tasks():
    return of_arrays(sparse_npz, NPZ, ".npz")


def cells_of_matlab_with_chosen_variables():
    variables = ["signals:X", "labels:y", "tasks"]
    return of_arrays(cells, MATLAB, ".mat", variables=variables)


def structs_of_matlab_7_3():
    return of_arrays(hdf5, MATLAB, ".mat")


def safetensors_of_tasks():
    return of_arrays(tensors, SAFETENSORS, ".safetensors")


FILES = (
    plain_csv,
    semicolons_and_decimal_commas,
    gzipped_csv,
    declared_markers_of_missing_values,
    tabs_of_names_with_zeros,
    windows_text,
    utf16_csv,
    parquet_of_mixed_columns,
    parquet_with_numbers_as_tasks_and_an_index,
    stream_with_a_dictionary_of_tasks,
    compressed_feather,
    workbook_with_numbers_as_tasks,
    json_records,
    json_lines_with_gaps,
    json_lines_in_utf_16,
    workbook_with_text_around_the_table_and_merged_tasks,
    json_by_task,
    pandas_with_tasks_in_the_index,
    polars_with_numbers_as_tasks,
    column_named_task_that_is_a_number_of_the_model,
    column_named_task_that_is_left_out,
    target_named_task,
    tasks_under_the_usual_name,
    csv_with_an_index,
    table_of_r_with_row_names_and_empty_rows,
    delimiters_at_the_end_of_rows,
    delimiters_at_the_end_of_rows_but_not_of_the_header,
    workbook_with_an_index,
    aligned_by_blanks,
    workbook_of_which_one_sheet_is_used,
    codes_with_leading_zeros,
    single_spaces_with_quoted_names,
    records_with_an_index,
    polars_with_an_index,
    npz_of_tasks,
    npz_table_with_rows_without_targets,
    sparse_npz_of_tasks,
    cells_of_matlab_with_chosen_variables,
    structs_of_matlab_7_3,
    safetensors_of_tasks,
)
#: One of each reader: texts, tables in columns, workbooks, JSON, frames and special columns.
QUICK = {
    semicolons_and_decimal_commas,
    parquet_of_mixed_columns,
    stream_with_a_dictionary_of_tasks,
    workbook_with_numbers_as_tasks,
    json_by_task,
    pandas_with_tasks_in_the_index,
    column_named_task_that_is_a_number_of_the_model,
    csv_with_an_index,
    npz_table_with_rows_without_targets,
    cells_of_matlab_with_chosen_variables,
    safetensors_of_tasks,
}


def expected_of(model, trained):
    """Return the predictions of each task alone, in the order of the rows."""
    frame = trained.frame
    task_of = frame[
        trained.options.get("task_column", "hospital" if "hospital" in frame else "task")
    ]
    outputs = np.empty(len(frame), object)
    for task in task_of.unique():
        own = (task_of == task).to_numpy()
        rows = frame.loc[own, [*trained.kept]].reset_index(drop=True)
        outputs[own] = model.predict(rows, task=str(task))
    return np.array(outputs.tolist())


def assert_equal(outputs, expected):
    if expected.dtype.kind == "U":
        assert outputs.tolist() == expected.tolist()
    else:
        np.testing.assert_allclose(outputs, expected, rtol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=make.__name__, marks=() if make in QUICK else pytest.mark.slow)
        for make in FILES
    ],
)
@pytest.mark.quick(4)
def test_a_file_that_a_model_was_trained_on_is_predicted_as_it_is(service, client, tmp_path, make):
    trained = make()
    path = tmp_path / f"rows{trained.suffix}"
    path.write_bytes(trained.body)
    source = path if trained.given is None or isinstance(trained.given, list) else trained.given
    dataset = client.upload(source, name=make.__name__, **trained.options)
    name = make.__name__.replace("_", "-")
    model = client.train(dataset, trained.algorithm, model=name).wait()
    expected = expected_of(model, trained)
    assert len(np.unique(expected)) > 1

    headers = {"Content-Type": trained.media_type, "Accept": NPY}
    address = f"{service.url}/v1/models/{name}/predict"
    response = httpx.post(address, content=trained.body, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    assert_equal(np.load(io.BytesIO(response.content)), expected)

    assert_equal(by_client(model, trained), expected)
    assert_equal(model.predict(path), expected)
    assert_equal(asyncio.run(by_async_client(service, name, trained)), expected)

    arguments = ["predict", name, str(path), "--format", "npy", "--url", service.url]
    end = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert end.exit_code == 0, end.output
    assert_equal(np.load(io.BytesIO(end.stdout_bytes)), expected)


def by_client(model, trained):
    if trained.given is not None:
        return model.predict(trained.given)
    return model.call("predict", trained.body, trained.media_type, task=None)


async def by_async_client(service, name, trained):
    async with AsyncClient(service.url) as client:
        model = await client.model(name)
        if trained.given is not None:
            return await model.predict(trained.given)
        return await model.call("predict", trained.body, trained.media_type, task=None)


DIFFERENT = {
    "north": np.arange(24.0).reshape(8, 3) % 7,
    "south": np.arange(40.0).reshape(10, 4) % 9,
}


@pytest.fixture
def mtda(client):
    labels = {task: [f"c{i % 2}" for i in range(len(X))] for task, X in DIFFERENT.items()}
    dataset = client.upload(DIFFERENT, labels, name="different columns")
    return client.train(dataset, "mtda", model="mtda").wait()


def test_rows_without_a_task_are_those_of_the_single_task_of_a_model(service, client, tmp_path):
    rows = np.arange(24.0).reshape(12, 2) % 7
    frame = pd.DataFrame(rows, columns=["a", "b"]).assign(y=rows @ [1.0, 2.0])
    model = client.train(
        client.upload(frame, name="one task", target_column="y"), "ridge", model="one-task"
    ).wait()
    expected = model.predict(rows, task="y").tolist()
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    given = (rows, frame, frame.to_dict("records"), path, *map(csr_array, [rows]))
    assert [model.predict(data).tolist() for data in given] == [expected] * len(given)
    shape = {"name": "rows", "shape": [12, 2], "datatype": "FP64", "data": rows.ravel().tolist()}
    bodies = [(NPZ, saved(X=rows, y=frame["y"])), (CSV, path.read_bytes())]
    bodies += [(JSON, json.dumps({"inputs": rows.tolist()}).encode())]
    for media_type, body in bodies:
        response = post(service, model, body, media_type)
        assert response.json()["outputs"] == expected
    response = httpx.post(f"{service.url}/v2/models/one-task/infer", json={"inputs": [shape]})
    assert response.json()["outputs"][0]["data"] == expected
    response = post(service, model, json.dumps({"inputs": rows.tolist()}).encode(), JSON, task="x")
    assert response.json()["code"] == "unknown-task"


def post(service, model, body, media_type, **params):
    address = f"{service.url}/v1/models/{model.name}/predict"
    return httpx.post(address, content=body, headers={"Content-Type": media_type}, params=params)


def saved(**arrays):
    return written(np.savez, **arrays)


def test_tasks_with_different_columns_are_sent_in_one_file(mtda, tmp_path):
    structs = mat({task: {"X": X} for task, X in DIFFERENT.items()})
    expected = [mtda.predict(X, task=task) for task, X in DIFFERENT.items()]
    for body in (saved(**{f"{task}/X": X for task, X in DIFFERENT.items()}), structs):
        path = tmp_path / "rows"
        path.write_bytes(body)
        assert mtda.predict(path).tolist() == np.concatenate(expected).tolist()


@pytest.mark.parametrize(
    ("body", "task", "status", "code"),
    [
        (saved(X=DIFFERENT["north"]), None, 422, "invalid-request"),
        (saved(**{"north/X": DIFFERENT["north"]}), "south", 422, "invalid-request"),
        (saved(**{"north/X": DIFFERENT["south"]}), None, 422, "invalid-data"),
        (saved(**{"west/X": DIFFERENT["south"]}), None, 422, "unknown-task"),
        (saved(**{"north/C": np.eye(3)[None], "north/y": [1]}), None, 400, "malformed-body"),
        (saved(X=DIFFERENT["north"], task=["north"]), None, 400, "malformed-body"),
        (saved(notes=np.zeros(3)), None, 400, "malformed-body"),
        (b"PK\x03\x04", None, 400, "malformed-body"),
    ],
)
def test_a_file_of_arrays_that_has_no_rows_for_the_model_is_refused(
    service, mtda, body, task, status, code
):
    response = httpx.post(
        f"{service.url}/v1/models/{mtda.name}/predict",
        content=body,
        headers={"Content-Type": NPZ},
        params={} if task is None else {"task": task},
    )
    assert (response.status_code, response.json()["code"]) == (status, code), response.text


def test_other_media_types_are_refused_with_those_that_are_taken(service, mtda):
    headers = {"Content-Type": "application/x-hdf5"}
    address = f"{service.url}/v1/models/{mtda.name}/predict"
    response = httpx.post(address, content=b"1", headers=headers)
    assert response.status_code == 415
    assert all(t in response.json()["detail"] for t in (NPZ, MATLAB, SAFETENSORS, PARQUET))
