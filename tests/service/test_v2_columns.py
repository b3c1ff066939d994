"""Rows of a raw table over the Open Inference Protocol, with one input for each column."""

import json

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

COLUMNS = {
    "age": [61.0, 35.5, None, 44.0],
    "sex": ["F", "M", "F", None],
    "smoker": [True, False, None, True],
    "seen": ["2026-01-31", "2025-06-01T12:00:00", None, "2024-02-29"],
    "rows": [1.0, 2.0, 3.0, 4.0],
}
RECORDS = [
    dict(zip(COLUMNS, values, strict=True)) for values in zip(*COLUMNS.values(), strict=True)
]
DATATYPES = {"age": "FP64", "sex": "BYTES", "smoker": "BOOL", "seen": "BYTES", "rows": "FP64"}


@pytest.fixture(scope="module")
def raw(client, tmp_path_factory):
    """A model of a table with columns of every kind, one with the name of another input."""
    rng = np.random.default_rng(0)
    records = [
        {
            "task": task,
            "age": float(rng.integers(20, 80)),
            "sex": "FM"[i % 2],
            "smoker": bool(rng.random() < 0.5),
            "seen": f"2025-{1 + i % 12:02}-{1 + i % 28:02}",
            "rows": float(rng.standard_normal()),
            "y": float(rng.standard_normal()),
        }
        for task in ("north", "south")
        for i in range(30)
    ]
    path = tmp_path_factory.mktemp("tables") / "raw.json"
    path.write_text(json.dumps(records))
    return client.train(client.upload(path, target_column="y"), "ridge", model="v2-raw").wait()


@pytest.fixture(scope="module")
def expected(raw):
    return raw.predict(RECORDS, task="north")


@pytest.fixture(scope="module")
def infer(service, raw):
    del raw

    def send(*inputs, model="v2-raw", task="north"):
        body = {"inputs": list(inputs), "parameters": {"task": task}}
        return httpx.post(f"{service.url}/v2/models/{model}/infer", json=body, timeout=60)

    return send


def inputs(**changes):
    """Return an input for each column, with changed fields of some."""
    return [
        {
            "name": "column:rows" if name == "rows" else name,
            "shape": [4],
            "datatype": DATATYPES[name],
            "data": values,
        }
        | changes.get(name, {})
        for name, values in COLUMNS.items()
    ]


def test_the_metadata_has_an_input_for_each_column(service, raw):
    del raw
    found = httpx.get(f"{service.url}/v2/models/v2-raw", timeout=240).json()["inputs"]
    assert found == [
        *({"name": one["name"], "datatype": one["datatype"], "shape": [-1]} for one in inputs()),
        {"name": "task", "datatype": "BYTES", "shape": [-1]},
    ]
    config = httpx.get(f"{service.url}/v2/models/v2-raw/config", timeout=240).json()["input"]
    assert [one["data_type"] for one in config] == [
        "TYPE_FP64", "TYPE_STRING", "TYPE_BOOL", "TYPE_STRING", "TYPE_FP64", "TYPE_STRING"
    ]  # fmt: skip


def test_columns_in_any_order_equal_records(infer, expected):
    for tensors in (inputs(), inputs()[::-1], [one | {"shape": [4, 1]} for one in inputs()]):
        response = infer(*tensors)
        assert response.status_code == 200, response.text
        assert response.json()["outputs"][0]["data"] == expected.tolist()


def test_blank_text_is_a_missing_value_in_every_format(infer, raw, expected):
    blank = [
        {**record, "sex": record["sex"] or " ", "seen": record["seen"] or ""} for record in RECORDS
    ]
    np.testing.assert_array_equal(raw.predict(blank, task="north"), expected)
    changes = {name: {"data": [record[name] for record in blank]} for name in ("sex", "seen")}
    assert infer(*inputs(**changes)).json()["outputs"][0]["data"] == expected.tolist()


def test_numbers_of_other_datatypes_are_taken(infer, raw):
    whole = [{**record, "age": 40, "rows": 2} for record in RECORDS]
    changes = {
        "age": {"datatype": "INT64", "data": [40] * 4},
        "rows": {"datatype": "UINT8", "data": [[2]] * 4},
    }
    response = infer(*inputs(**changes))
    assert response.json()["outputs"][0]["data"] == raw.predict(whole, task="north").tolist()


def test_a_client_of_the_protocol_sends_binary_columns(service, expected):
    tensors = []
    for one in inputs():
        tensor = triton.InferInput(one["name"], [4], one["datatype"])
        values = one["data"]
        if one["datatype"] == "BYTES":
            array = np.array([b"" if v is None else v.encode() for v in values], dtype=object)
        elif one["datatype"] == "BOOL":
            array = np.array([False if v is None else v for v in values])
        else:
            array = np.array([np.nan if v is None else v for v in values])
        tensor.set_data_from_numpy(array, binary_data=True)
        tensors.append(tensor)
    task = triton.InferInput("task", [1], "BYTES")
    task.set_data_from_numpy(np.array([b"north"], dtype=object))
    with triton.InferenceServerClient(service.url.removeprefix("http://")) as client:
        result = client.infer("v2-raw", [*tensors, task]).as_numpy("predict")
        # a binary boolean cannot be missing
        known = [0, 1, 3]
        np.testing.assert_array_equal(result[known], expected[known])
        with pytest.raises(InferenceServerException, match="the column 'age' is missing"):
            client.infer("v2-raw", [*tensors[1:], task])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"age": {"name": "agee"}}, ["'age'"]),
        ({"age": {"shape": [3], "data": [1.0] * 3}}, ["'sex' has 4 rows, 'age' 3"]),
        ({"age": {"shape": [2, 2]}}, ["'age' has shape [2, 2]", "expected [n] or [n, 1]"]),
        ({"age": {"data": ["61"] * 4}}, ["input 'age', row 0 is a string", "a number"]),
        ({"age": {"datatype": "INT64"}}, ["input 'age', row 0 is 61.0", "an integer"]),
        (
            {"age": {"datatype": "INT64", "data": [1, 2, 3, 2**63]}},
            ["input 'age', row 3 is 9223372036854775808", "from -9223372036854775808 to"],
        ),
        (
            {"age": {"datatype": "INT64", "data": [1, None, 3, 2**53 + 1]}},
            ["input 'age', row 3 is 9007199254740993", "or all values as FP64"],
        ),
        (
            {"age": {"datatype": "INT64", "data": [1, 2, 3, 2**53 + 1]}},
            ["9007199254740993", "not exact", "'age'"],
        ),
        ({"age": {"datatype": "UINT8", "data": [300] * 4}}, ["300", "from 0 to 255"]),
        (
            {"age": {"datatype": "BYTES", "data": ["one"] * 4}},
            ["'age': expected a number", "'one'"],
        ),
        ({"age": {"data": [1.0]}}, ["needs 4 values, got 1"]),
        ({"sex": {"data": [1, 2, 3, 4]}}, ["'sex' of row 0 is a number", "a string"]),
        ({"smoker": {"data": [1, 0, 1, 0]}}, ["'smoker', row 0", "true or false"]),
        ({"smoker": {"datatype": "BYTES", "data": ["maybe"] * 4}}, ["'smoker'", "true or false"]),
        ({"seen": {"data": ["soon"] * 4}}, ["row 0, column 'seen'", "a date"]),
        ({"rows": {"name": "rows"}}, ["no input 'age' beside 'rows'"]),
    ],
)
def test_invalid_columns_are_told_with_their_name(infer, changes, words):
    response = infer(*inputs(**changes))
    assert response.status_code in (400, 422), response.text
    for word in words:
        assert word in response.json()["detail"]


def test_numbers_in_one_input_are_refused_where_columns_are_not_all_numbers(infer):
    tensor = {"name": "rows", "shape": [1, 5], "datatype": "FP64", "data": [50.5, 0, 0, 0, 1]}
    response = infer(tensor)
    assert response.status_code == 400
    assert "send the columns by name" in response.json()["detail"]


def test_columns_are_for_models_whose_columns_have_names(infer, model):
    tensor = {"name": "age", "shape": [1], "datatype": "FP64", "data": [1.0]}
    response = infer(tensor, model=model.name)
    assert response.status_code == 400
    assert "there is no input 'age'" in response.json()["detail"]
    assert "send the rows in the input 'rows'" in response.json()["detail"]
