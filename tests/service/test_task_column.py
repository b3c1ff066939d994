"""The task of each row, under the name that its column has in the training table."""

import io
import json
import unicodedata

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from algorithms.registry import load_model
from sibling import ServiceError
from tests.written import as_parquet, as_stream

CSV, JSON = "text/csv", "application/json"
PARQUET, STREAM = "application/vnd.apache.parquet", "application/vnd.apache.arrow.stream"
FILE = "application/vnd.apache.arrow.file"
NAMES = ("H0", "H1")


def table(n=24, column="hospital"):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({column: [NAMES[i % 2] for i in range(n)], "age": rng.normal(size=n)})
    frame["bmi"] = rng.normal(size=n)
    frame["stay"] = np.where(frame[column] == "H0", 10.0, -10.0) + frame["age"]
    return frame


@pytest.fixture(scope="module")
def model(client):
    dataset = client.upload(table(), name="w", task_column="hospital", target_column="stay")
    return client.train(dataset, "ridge", model="wards").wait()


@pytest.fixture(scope="module")
def call(service, model):
    def post(body, media_type, method="predict", **query):
        address = f"{service.url}/v1/models/{model.name}/{method}"
        headers = {"Content-Type": media_type}
        return httpx.post(address, params=query, content=body, headers=headers, timeout=60)

    return post


def rows(*names, column="hospital"):
    """Return rows of tasks, for which the model gives about 10 in 'H0' and -10 in 'H1'."""
    return pd.DataFrame({"bmi": [0.0] * len(names), column: list(names), "age": [0.0] * len(names)})


def as_lists(frame):
    values = frame.to_json(orient="values")
    return f'{{"columns": {pd.Series(frame.columns).to_json(orient="values")}, "inputs": {values}}}'


BODIES = {
    "csv": (CSV, lambda frame: frame.to_csv(index=False).encode()),
    "records": (JSON, lambda frame: f'{{"inputs": {frame.to_json(orient="records")}}}'.encode()),
    "list of records": (JSON, lambda frame: frame.to_json(orient="records").encode()),
    "columns": (JSON, lambda frame: as_lists(frame).encode()),
    "stream": (STREAM, as_stream),
    "parquet": (PARQUET, as_parquet),
}
bodies = pytest.mark.parametrize("kind", BODIES)


@bodies
@pytest.mark.parametrize("column", ["hospital", "task"])
def test_each_row_is_computed_for_its_task(call, kind, column):
    media_type, write = BODIES[kind]
    response = call(write(rows("H1", "H0", "H1", column=column)), media_type)
    assert response.status_code == 200, response.text
    assert np.sign(response.json()["outputs"]).tolist() == [-1, 1, -1]
    assert response.json()["task"] == ["H1", "H0", "H1"]


@bodies
@pytest.mark.parametrize("column", ["hospital", "task"])
def test_a_row_that_contradicts_the_query_is_named(call, kind, column):
    media_type, write = BODIES[kind]
    response = call(write(rows("H0", "H0", "H1", "H1", column=column)), media_type, task="H0")
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    assert (error["parameter"], error["row"], error["column"]) == ("query:task", 2, column)


@bodies
def test_rows_that_agree_with_the_query_are_computed(call, kind):
    media_type, write = BODIES[kind]
    response = call(write(rows("H1", "H1")), media_type, task="H1")
    assert response.status_code == 200, response.text
    assert np.sign(response.json()["outputs"]).tolist() == [-1, -1]


@pytest.mark.parametrize("name", ["hospital", "task"])
@pytest.mark.parametrize("given", ["H0", ["H0", "H1", "H0"]])
def test_a_row_that_contradicts_a_member_of_the_body_is_named(call, name, given):
    body = {name: given, "inputs": rows("H0", "H1", "H1").to_dict("records")}
    response = call(httpx.Request("POST", "http://x", json=body).content, JSON)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["pointer"], error["row"]) == (f"/{name}", 1 if given == "H0" else 2)


@pytest.mark.parametrize("name", ["hospital", "task"])
def test_a_member_of_the_body_has_the_task_under_both_names(call, name):
    for given in ("H1", ["H1"]):
        response = call(
            httpx.Request("POST", "http://x", json={name: given, "inputs": [[0, 0]]}).content, JSON
        )
        assert response.status_code == 200, response.text
        assert response.json()["outputs"][0] < 0


@bodies
def test_columns_that_contradict_each_other_are_refused(call, kind):
    media_type, write = BODIES[kind]
    response = call(write(rows("H0", "H1").assign(task=["H0", "H0"])), media_type)
    assert response.status_code == 422
    assert response.json()["errors"][0]["row"] == 1


@bodies
def test_a_row_without_its_task_is_named(call, kind):
    media_type, write = BODIES[kind]
    response = call(write(rows("H0", None)), media_type)
    assert response.status_code == 422
    assert response.json()["errors"][0]["row"] == 1


@bodies
def test_a_task_that_was_not_trained_is_named_with_its_row(call, kind):
    media_type, write = BODIES[kind]
    response = call(write(rows("H0", "H1", "H2", "H2")), media_type)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["code"], error["task"], error["row"]) == ("unknown-task", "H2", 2)


@pytest.mark.parametrize("value", [7.5, True, ["H0"], {"a": 1}])
def test_a_value_that_is_no_name_of_a_task_is_shown(call, value):
    records = [{"hospital": one, "age": 0, "bmi": 0} for one in ("H0", value)]
    response = call(json.dumps(records).encode(), JSON)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["row"], error["column"]) == (1, "hospital")
    assert repr(value) in error["detail"]


@pytest.mark.parametrize("kind", ["csv", "stream", "file", "parquet"])
@pytest.mark.parametrize("name", ["hospital", "age"])
def test_two_columns_of_one_name_are_refused_alike_in_every_format(call, kind, name):
    frame = rows("H0", "H1")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.append_column(name, table.column(name))
    sink = io.BytesIO()
    if kind == "csv":
        media_type = CSV
        sink.write(pd.concat([frame, frame[[name]]], axis=1).to_csv(index=False).encode())
    elif kind == "parquet":
        media_type = PARQUET
        pq.write_table(table, sink)
    else:
        media_type, new = (
            (STREAM, pa.ipc.new_stream) if kind == "stream" else (FILE, pa.ipc.new_file)
        )
        with new(sink, table.schema) as writer:
            writer.write_table(table)
    response = call(sink.getvalue(), media_type)
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["code"], error["column"]) == ("invalid-data", name)


def infer(service, inputs, name="wards", **parameters):
    body = {"inputs": inputs, "parameters": parameters}
    return httpx.post(f"{service.url}/v2/models/{name}/infer", json=body, timeout=60)


def tensor(name, values, datatype="FP64"):
    return {"name": name, "shape": [len(values)], "datatype": datatype, "data": values}


COLUMNS = [tensor("age", [0.0, 0.0]), tensor("bmi", [0.0, 0.0])]
ROWS = [{"name": "rows", "shape": [2, 2], "datatype": "FP64", "data": [0.0] * 4}]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("inputs", [COLUMNS, ROWS], ids=["columns", "rows"])
@pytest.mark.parametrize("name", ["hospital", "task"])
def test_the_protocol_takes_tasks_under_both_names(service, inputs, name):
    own = infer(service, [*inputs, tensor(name, ["H1", "H0"], "BYTES")])
    assert np.sign(own.json()["outputs"][0]["data"]).tolist() == [-1, 1]
    shared = infer(service, inputs, **{name: "H1"})
    assert np.sign(shared.json()["outputs"][0]["data"]).tolist() == [-1, -1]
    refused = infer(service, [*inputs, tensor(name, ["H1", "H0"], "BYTES")], **{name: "H1"})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["row"] == 1


def test_names_are_those_of_uploads_however_they_are_written(client, service):
    column, task = "Klinik Köln", "Süd"
    loose_column, loose_task = (
        unicodedata.normalize("NFD", f" {text} ") for text in (column, task)
    )
    frame = table(column=column).replace({column: {"H1": task}})
    dataset = client.upload(frame, name="k", task_column=column, target_column="stay")
    model = client.train(dataset, "ridge", model="koeln").wait()
    record = {"age": 0.0, "bmi": 0.0}
    expected = model.predict([[0.0, 0.0]], task=task)
    loose = {loose_column: loose_task, **record}
    np.testing.assert_array_equal(model.predict([loose]), expected)
    np.testing.assert_array_equal(model.predict(pd.DataFrame([loose])), expected)
    given = loose_task.strip()
    np.testing.assert_array_equal(model.predict([[0.0, 0.0]], task=given), expected)
    np.testing.assert_array_equal(model.predict([loose], task=given), expected)
    address = f"{service.url}/v1/models/koeln/predict"
    for body in (
        {"task": given, "inputs": [[0, 0]]},
        {"task": [given], "inputs": [[0, 0]]},
        {column: given, "inputs": [record]},
        {loose_task: [record]},
    ):
        response = httpx.post(address, json=body, timeout=60)
        assert response.status_code == 200, response.text
        assert response.json()["outputs"] == expected.tolist()
    rows = [{**ROWS[0], "shape": [1, 2], "data": [0.0, 0.0]}]
    response = infer(service, rows, "koeln", **{column: given})
    assert response.json()["outputs"][0]["data"] == expected.tolist()


def test_the_model_says_the_name_everywhere(model, client, tmp_path):
    assert model.info["task_column"] == model.task_column == "hospital"
    signature = model.signature()
    assert signature["properties"]["task_column"] == "hospital"
    assert signature["inputs"][-1]["name"] == "hospital"
    dataset = model.info["lineage"]["dataset_id"]
    assert client.manifest(dataset)["task_column"] == "hospital"
    assert load_model(model.download(tmp_path / "model")).task_column == "hospital"


def test_a_model_of_arrays_takes_tasks_under_the_usual_name(client):
    X = {name: np.random.default_rng(0).normal(size=(9, 2)) for name in NAMES}
    y = {name: X[name] @ [1.0, 2.0] for name in NAMES}
    plain = client.train(client.upload(X, y), "ridge", model="plain-arrays").wait()
    assert plain.task_column == "task"
    frame = pd.DataFrame({"task": ["H0", "H1"], "a": [1.0, 1.0], "b": [0.0, 0.0]})
    assert plain.predict(frame).shape == (2,)


def test_the_client_refuses_a_task_that_rows_contradict(model):
    with pytest.raises(ServiceError) as caught:
        model.predict(rows("H0", "H1"), task="H0")
    assert caught.value.errors[0]["row"] == 1
    with pytest.raises(ServiceError) as caught:
        model.predict(rows("H0", "H1").set_index("hospital"), task="H0")
    assert caught.value.errors[0]["row"] == 1
    with pytest.raises(ServiceError) as caught:
        model.predict([{"age": 0.0, "bmi": 0.0}])
    assert caught.value.code == "invalid-request"


def test_an_index_that_the_model_does_not_have_is_left_out(model):
    frame = rows("H1", "H0").assign(visit=["v1", "v2"]).set_index(["hospital", "visit"])
    assert np.sign(model.predict(frame)).tolist() == [-1, 1]


def test_a_combined_dataset_keeps_the_name(client, model):
    dataset = model.info["lineage"]["dataset_id"]
    more = client.upload(table(), name="m", task_column="hospital", target_column="stay")
    both = client.combine(dataset, more, name="both")
    assert client.manifest(both)["task_column"] == "hospital"
    other = client.upload(
        table(column="clinic"), name="o", task_column="clinic", target_column="stay"
    )
    assert client.manifest(client.combine(dataset, other, name="mixed"))["task_column"] is None


def test_an_adapted_model_keeps_the_name(client, model):
    new = table().query("hospital == 'H0'").assign(hospital="H2")
    dataset = client.upload(new, name="n", task_column="hospital", target_column="stay")
    adapted = client.adapt(model, dataset, name="wards-adapted").wait()
    assert adapted.task_column == "hospital"
    assert adapted.predict(rows("H2", "H1")).shape == (2,)


def test_a_batch_refuses_a_dataset_whose_tasks_are_in_a_column_of_features(client, model):
    undivided = client.upload(table(), name="u", target_column="stay")
    with pytest.raises(ServiceError) as caught:
        client.infer(model, "predict", undivided, tasks={"stay": "H0"})
    assert caught.value.errors[0]["column"] == "hospital"


@pytest.mark.parametrize("kind", ["csv", "columns", "stream", "parquet"])
def test_no_rows_have_no_outputs(call, kind):
    """As with the task in the URL: filters of rows leave none at times."""
    media_type, write = BODIES[kind]
    answer = call(write(rows().astype({"hospital": str})), media_type)
    assert (answer.status_code, answer.json()["outputs"]) == (200, []), answer.text


def test_a_v2_request_without_rows_has_no_outputs(service, model):
    columns = {"age": "FP64", "bmi": "FP64", "hospital": "BYTES"}
    inputs = [
        {"name": name, "shape": [0], "datatype": datatype, "data": []}
        for name, datatype in columns.items()
    ]
    url = f"{service.url}/v2/models/{model.name}/infer"
    answer = httpx.post(url, json={"inputs": inputs}, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"][0]["shape"] == [0]


def test_rows_without_their_tasks_are_refused(call):
    answer = call(json.dumps({"task": [], "inputs": [[0, 0]]}), JSON)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-data")
