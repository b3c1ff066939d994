"""The Open Inference Protocol: requests, responses and errors as in its specification."""

import gzip
import json
import struct
import zlib
from pathlib import Path
from urllib.parse import quote

import jsonschema_rs
import numpy as np
import pytest

from algorithms.registry import ALGORITHMS, load_model
from sibling.client.errors import JobFailed, ServiceError

DEFINITIONS = json.loads((Path(__file__).parent / "data/open_inference_protocol.json").read_text())
#: OpenAPI document of the protocol, which has fewer kinds of responses.
PUBLISHED = json.loads((Path(__file__).parent / "data/dataplane.json").read_text())
PUBLISHED_KINDS = {
    "server": "MetadataServerResponse",
    "model": "MetadataModelResponse",
    "infer": "InferenceResponse",
    "error": "InferenceErrorResponse",
}
# "bytes" is not a type of JSON Schema; here it denotes binary tensors
TENSOR = PUBLISHED["components"]["schemas"]["TensorData"]
TENSOR["oneOf"] = [one for one in TENSOR["oneOf"] if one.get("type") != "bytes"]
NUMBERS = {
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
    "INT8": "<i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "<u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
}
LENGTH = "Inference-Header-Content-Length"
ROWS = np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [0, 1, 0, 1, 0]])


@pytest.fixture(scope="module")
def offline(model, tmp_path_factory):
    return load_model(model.download(tmp_path_factory.mktemp("artifact") / "model.safetensors"))


@pytest.fixture(scope="module")
def labelled(client, dataset, tmp_path_factory):
    """Offline copy of a classifier."""
    model = client.train(dataset, "mtda", model="v2-classifier", d=2).wait()
    return load_model(model.download(tmp_path_factory.mktemp("artifact") / "model.safetensors"))


def checked(response, kind, status=200):
    """Check a response against the schemas of the protocol, and return its body."""
    assert response.status_code == status, response.text
    length = response.headers.get(LENGTH)
    content = response.content if length is None else response.content[: int(length)]
    body = json.loads(content)
    jsonschema_rs.validate({**DEFINITIONS, "$ref": f"#/$defs/{kind}"}, body)
    if kind in PUBLISHED_KINDS and length is None:
        published = {"$ref": f"#/components/schemas/{PUBLISHED_KINDS[kind]}"}
        whole = {**published, "components": PUBLISHED["components"]}
        jsonschema_rs.Draft4Validator(whole).validate(body)
    return body


def assert_rejected(response, status, code, *words):
    assert response.headers["content-type"] == "application/json"
    body = checked(response, "error", status)
    assert (body["code"], body["status"]) == (code, status), body
    assert body["error"] == body["detail"]
    for word in words:
        assert word in body["error"], body
    return body


def tensor(rows=ROWS, datatype="FP64", **more):
    rows = np.asarray(rows)
    head = {"name": "rows", "shape": list(rows.shape), "datatype": datatype}
    return {**head, "data": rows.ravel().tolist()} | more


def without(entry, name):
    return {key: value for key, value in entry.items() if key != name}


def infer(http, body, *, name="shared", tail=b"", **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    if tail:
        headers[LENGTH] = str(len(content))
    return http.post(f"/v2/models/{name}/infer", content=content + tail, headers=headers)


def ask(*inputs, task="north", **more):
    parameters = {} if task is None else {"task": task}
    return {"inputs": list(inputs) or [tensor()], "parameters": parameters, **more}


def array_of(output):
    return np.array(output["data"]).reshape(output["shape"])


# --- metadata ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v2", "/v2/"])
def test_server_metadata_lists_the_extensions(http, path):
    body = checked(http.get(path), "server")
    assert body["name"] == "sibling"
    assert {"binary_tensor_data", "statistics"} <= set(body["extensions"])


def test_health_is_reported_as_the_clients_expect(http):
    assert http.get("/v2/health/live").json()["live"] is True
    assert http.get("/v2/health/ready").json()["ready"] is True


@pytest.mark.parametrize("suffix", ["", "/versions/1"])
def test_model_metadata_lists_inputs_and_outputs(http, offline, suffix):
    body = checked(http.get(f"/v2/models/shared{suffix}"), "model")
    assert body["versions"] == ["1"]
    assert body["inputs"] == [
        {"name": "rows", "datatype": "FP64", "shape": [-1, 5]},
        {"name": "task", "datatype": "BYTES", "shape": [-1]},
    ]
    assert body["outputs"] == [{"name": "transform", "datatype": "FP64", "shape": [-1, 2]}]
    assert body["properties"]["tasks"] == list(offline.tasks)
    assert http.get(f"/v2/models/shared{suffix}/ready").json() == {"name": "shared", "ready": True}
    config = http.get(f"/v2/models/shared{suffix}/config").json()
    assert config["max_batch_size"] == 0
    assert config["input"][0] == {"name": "rows", "data_type": "TYPE_FP64", "dims": [-1, 5]}
    assert config["input"][1]["data_type"] == "TYPE_STRING"


def test_the_index_lists_every_name_of_every_model(http):
    index = checked(http.post("/v2/repository/index"), "index")
    names = {entry["name"] for entry in index}
    assert {"shared", "shared.transform", "shared.inverse_transform"} <= names
    for entry in [entry for entry in index if entry["name"].startswith("shared")]:
        path = f"/v2/models/{quote(entry['name'])}/versions/{entry['version']}"
        checked(http.get(path), "model")
        assert http.get(f"{path}/ready").status_code == 200
    assert checked(http.post("/v2/repository/index", json={"ready": True}), "index") == index
    assert_rejected(http.post("/v2/repository/index", content=b"[1"), 400, "malformed-json")


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/none",
        "/v2/models/none/ready",
        "/v2/models/none/stats",
        "/v2/models/shared.predict",
        "/v2/models/shared.nothing/config",
        "/v2/models/.transform",
        "/v2/models/shared/versions/9",
        "/v2/models/shared/versions/9/ready",
        "/v2/models/%E6%97%A5",
        "/v2/nothing",
    ],
)
def test_an_unknown_model_is_404_with_an_error(http, path):
    assert_rejected(http.get(path), 404, "not-found")


@pytest.mark.parametrize("version", ["0", "-1", "x", "1.5", str(2**40)])
def test_an_invalid_version_is_400(http, version):
    assert_rejected(http.get(f"/v2/models/shared/versions/{version}"), 400, "invalid-request")


def test_a_wrong_method_is_405_with_an_error(http):
    response = http.get("/v2/models/shared/infer")
    assert_rejected(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "OPTIONS, POST"


@pytest.fixture(scope="module")
def numbers(client):
    """Tasks with shared rows and numeric targets, for algorithms that need them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 5))
    return client.upload(
        dict.fromkeys(("north", "south"), X),
        {name: X @ rng.standard_normal(5) for name in ("north", "south")},
        name="shared rows",
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_responses_of_every_algorithm_match_its_metadata(http, client, dataset, numbers, name):
    try:
        remote = client.train(dataset, name, model=f"v2-{name}").wait()
    except (JobFailed, ServiceError):
        remote = client.train(numbers, name, model=f"v2-{name}").wait()
    for method in remote.info["methods"]:
        called = f"v2-{name}.{method}"
        metadata = checked(http.get(f"/v2/models/{called}"), "model")
        assert metadata["properties"]["method"] == method
        width = metadata["inputs"][0]["shape"][1]
        assert width > 0
        response = infer(http, ask(tensor(np.ones((3, width)))), name=called)
        outputs = checked(response, "infer")["outputs"]
        assert [output["name"] for output in outputs] == [o["name"] for o in metadata["outputs"]]
        for output, expected in zip(outputs, metadata["outputs"], strict=True):
            assert output["datatype"] == expected["datatype"]
            assert len(output["shape"]) == len(expected["shape"]), (called, output, expected)
            for n, of in zip(output["shape"], expected["shape"], strict=True):
                assert of in (-1, n), (called, output, expected)


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("datatype", NUMBERS)
@pytest.mark.parametrize("way", ["flat", "nested", "binary"])
def test_every_datatype_is_converted_to_float64(http, offline, datatype, way):
    expected = offline.transform(ROWS.astype(float), task="north")
    entry, tail = tensor(datatype=datatype), b""
    if way == "nested":
        entry["data"] = ROWS.tolist()
    if way == "binary":
        tail = ROWS.astype(NUMBERS[datatype]).tobytes()
        entry = without(entry, "data") | {"parameters": {"binary_data_size": len(tail)}}
    response = infer(http, ask(entry), tail=tail)
    (output,) = checked(response, "infer")["outputs"]
    assert (output["name"], output["datatype"]) == ("transform", "FP64")
    assert array_of(output).tobytes() == expected.tobytes()


@pytest.mark.parametrize("datatype", ["FP16", "FP32"])
def test_json_numbers_are_rounded_to_their_datatype(http, datatype):
    """A client writes 0.1 for the FP32 number nearest to 0.1, and expects that number."""
    rows = np.array([[0.1, -3.3, 1e-3, 7.7, 100.1]], NUMBERS[datatype])
    written = [0.1, -3.3, 1e-3, 7.7, 100.1]
    head = without(tensor(rows, datatype), "data")
    entry = head | {"parameters": {"binary_data_size": rows.nbytes}}
    by_bytes = checked(infer(http, ask(entry), tail=rows.tobytes()), "infer")
    for data in (written, [written]):
        assert checked(infer(http, ask(head | {"data": data})), "infer") == by_bytes


def test_responses_have_model_version_and_id(http):
    body = checked(infer(http, ask(id="42")), "infer")
    assert (body["model_name"], body["model_version"], body["id"]) == ("shared", "1", "42")
    body = checked(infer(http, ask(), name="shared.transform/versions/1"), "infer")
    assert body["model_name"] == "shared.transform"
    assert "id" not in body


def test_model_and_version_may_be_repeated_from_the_url(http):
    """As the KServe client does."""
    for name in ("shared", "shared/versions/1"):
        for more in ({"model_version": None}, {"model_version": "1"}, {}):
            checked(infer(http, ask(model_name="shared", **more), name=name), "infer")
    assert_rejected(infer(http, ask(model_name="other")), 400, "invalid-request", "other", "shared")
    wrong = infer(http, ask(model_version="2"), name="shared/versions/1")
    assert (
        assert_rejected(wrong, 400, "invalid-request")["errors"][0]["pointer"] == "/model_version"
    )


def test_binary_and_json_may_be_mixed(http, offline):
    tasks = ["süd", "north", "a/b"]
    packed = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in tasks)
    task_tensor = {"name": "task", "shape": [3], "datatype": "BYTES"}
    expected = np.stack(
        [offline.transform(row[None], task=t)[0] for row, t in zip(ROWS * 1.0, tasks, strict=True)]
    )
    rows = ROWS.astype("<f8").tobytes()
    of_rows = without(tensor(), "data") | {"parameters": {"binary_data_size": len(rows)}}
    of_tasks = task_tensor | {"parameters": {"binary_data_size": len(packed)}}
    for inputs, tail in (
        ([tensor(), task_tensor | {"data": tasks}], b""),
        ([tensor(), of_tasks], packed),
        ([of_rows, task_tensor | {"data": tasks}], rows),
        ([of_tasks, of_rows], packed + rows),
        ([of_rows, task_tensor | {"shape": [3, 1], "data": [[t] for t in tasks]}], rows),
    ):
        body = checked(infer(http, ask(*inputs, task=None), tail=tail), "infer")
        np.testing.assert_allclose(array_of(body["outputs"][0]), expected, rtol=1e-12)


@pytest.mark.parametrize("way", ["all", "one", "outputs"])
def test_outputs_are_binary_on_request(http, offline, way):
    body = ask()
    if way == "all":
        body["parameters"]["binary_data_output"] = True
    else:
        body["outputs"] = [{"name": "transform", "parameters": {"binary_data": True}}]
    response = infer(http, body)
    assert response.headers["content-type"] == "application/octet-stream"
    length = int(response.headers[LENGTH])
    (output,) = checked(response, "infer")["outputs"]
    data = response.content[length:]
    assert output["parameters"]["binary_data_size"] == len(data)
    assert data == offline.transform(ROWS * 1.0, task="north").tobytes()


def test_a_raw_binary_request_has_rows_of_float64(http, offline):
    path = "/v2/models/shared/infer?task=north"
    content = ROWS.astype("<f8").tobytes()
    response = http.post(path, content=content, headers={LENGTH: "0"})
    length = int(response.headers[LENGTH])
    assert checked(response, "infer")["outputs"][0]["shape"] == [3, 2]
    assert response.content[length:] == offline.transform(ROWS * 1.0, task="north").tobytes()
    cut = http.post(path, content=content[:-8], headers={LENGTH: "0"})
    assert_rejected(cut, 400, "invalid-data", "40 bytes", "112 bytes")
    nameless = http.post("/v2/models/shared/infer", content=content, headers={LENGTH: "0"})
    assert_rejected(nameless, 400, "invalid-request", "task")


def test_the_query_has_the_task_unless_the_body_has_it(http):
    def send(body):
        return http.post("/v2/models/shared/infer?task=north", json=body)

    named = {"name": "task", "shape": [1], "datatype": "BYTES", "data": ["north"]}
    found = checked(infer(http, ask()), "infer")["outputs"]
    for same in (ask(task=None), ask(), ask(tensor(), named, task=None)):
        assert checked(send(same), "infer")["outputs"] == found
    other = {**named, "data": ["a/b"]}
    for differs in (ask(task="a/b"), ask(tensor(), other, task=None)):
        rejected = assert_rejected(send(differs), 400, "invalid-request", "'north'", "'a/b'")
        assert rejected["errors"][0]["parameter"] == "query:task"


def test_labels_and_classes_are_returned_as_strings(http, labelled):
    rows = ROWS.astype(float)
    body = checked(infer(http, ask(), name="v2-classifier"), "infer")
    (output,) = body["outputs"]
    assert (output["name"], output["datatype"]) == ("predict", "BYTES")
    assert output["data"] == labelled.predict(rows, task="north").tolist()
    body = checked(infer(http, ask(), name="v2-classifier.distances"), "infer")
    far, classes = body["outputs"]
    np.testing.assert_array_equal(array_of(far), labelled.distances(rows, task="north"))
    assert classes["data"] == ["blue", "green", "red"]
    some = ask(outputs=[{"name": "classes"}])
    (only,) = checked(infer(http, some, name="v2-classifier.distances"), "infer")["outputs"]
    assert only == classes
    binary = ask(outputs=[{"name": "predict", "parameters": {"binary_data": True}}])
    response = infer(http, binary, name="v2-classifier")
    data = response.content[int(response.headers[LENGTH]) :]
    assert struct.unpack_from("<I", data)[0] == len(output["data"][0])


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_requests_and_responses_may_be_compressed(http, offline, coding):
    rows = np.random.default_rng(0).standard_normal((200, 5))
    encode = {"gzip": gzip.compress, "deflate": zlib.compress}[coding]
    content = encode(json.dumps(ask(tensor(rows))).encode())
    headers = {"Content-Encoding": coding, "Accept-Encoding": coding}
    response = http.post("/v2/models/shared/infer", content=content, headers=headers)
    assert response.headers["content-encoding"] == coding
    (output,) = checked(response, "infer")["outputs"]
    np.testing.assert_array_equal(array_of(output), offline.transform(rows, task="north"))


def test_zero_rows_return_zero_rows(http):
    empty = {"name": "rows", "shape": [0, 5], "datatype": "FP64", "data": []}
    (output,) = checked(infer(http, ask(empty)), "infer")["outputs"]
    assert (output["shape"], output["data"]) == ([0, 2], [])


def test_statistics_count_calls_rows_and_failures(http, client, dataset):
    client.train(dataset, "pca", model="v2-counted", k=1).wait()
    for _ in range(3):
        checked(infer(http, ask(), name="v2-counted"), "infer")
    assert infer(http, ask(task="none"), name="v2-counted").status_code == 400
    (stats,) = checked(http.get("/v2/models/v2-counted/stats"), "stats")["model_stats"]
    assert (stats["execution_count"], stats["inference_count"]) == (3, 9)
    spent = stats["inference_stats"]
    assert (spent["success"]["count"], spent["fail"]["count"]) == (3, 1)
    phases = ("queue", "compute_input", "compute_infer", "compute_output")
    assert 0 < sum(spent[phase]["ns"] for phase in phases) <= spent["success"]["ns"]
    assert 0 < stats["latency_ns"]["p50"] <= stats["latency_ns"]["p99"]
    (one,) = http.get("/v2/models/v2-counted/versions/1/stats").json()["model_stats"]
    assert one == stats
    every = checked(http.get("/v2/models/stats"), "stats")["model_stats"]
    assert {s["name"] for s in every} >= {"v2-counted", "v2-counted.inverse_transform"}


# --- errors --------------------------------------------------------------------------------------

NAMED = {"name": "task", "shape": [1], "datatype": "BYTES", "data": ["north"]}
BINARY = without(tensor(), "data") | {"parameters": {"binary_data_size": 120}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ([], ["object"]),
        (ask() | {"more": 1}, ["'more'"]),
        (ask(task=None), ["expected a parameter 'task'"]),
        (ask(task=1), ["string"]),
        (ask(id=42), ["id"]),
        ({"inputs": {}}, ["inputs"]),
        ({"inputs": [1], "parameters": {"task": "north"}}, ["object"]),
        ({"inputs": [], "parameters": {"task": "north"}}, ["'rows' is missing"]),
        (ask(tensor(name="input-0")), ["'input-0'", "'rows'"]),
        (ask(tensor(), tensor()), ["two inputs", "'rows'"]),
        (ask(tensor(datatype="BOOL")), ["BOOL", "UINT8"]),
        (ask(tensor(datatype="BF16")), ["BF16", "FP32"]),
        (ask(tensor(datatype="float64")), ["float64", "FP64"]),
        (ask(tensor(datatype=64)), ["FP64"]),
        (ask(tensor(datatype="BYTES")), ["expected numbers"]),
        (ask(tensor(shape=[15])), ["[rows, columns]"]),
        (ask(tensor(shape=[-1, 5])), ["shape"]),
        (ask(tensor(shape=[True, 5])), ["shape"]),
        (ask(tensor(shape=[3.5, 5])), ["shape"]),
        (ask(tensor(shape=[2**31, 2**33])), ["shape"]),
        (ask(tensor(shape=[2**30, 2**30])), ["got 15"]),
        (ask(tensor(shape="3,5")), ["shape"]),
        (ask(without(tensor(), "shape")), ["shape"]),
        (ask(tensor(shape=[3, 4])), ["12 values", "got 15"]),
        (ask(tensor(data=[[1.0] * 5] * 2 + [[1.0] * 4])), ["row 2 has 4"]),
        (ask(tensor(data=[[1.0] * 5, 1.0, [1.0] * 5])), ["row 1 is a number"]),
        (ask(without(tensor(), "data")), ["needs data"]),
        (ask(tensor(data="1")), ["needs data"]),
        (ask(BINARY | {"data": []}), ["both"]),
        (ask(BINARY), ["0 bytes are left"]),
        (ask(tensor(more=1)), ["'more'"]),
        (ask(tensor(parameters=[])), ["object"]),
        (ask(tensor(parameters={"shared_memory_region": "x"})), ["in the body"]),
        (ask() | {"parameters": {"sequence_id": 1}}, ["no state"]),
        (ask() | {"parameters": {"tasks": "north"}}, ["'tasks'", "task"]),
        (ask() | {"parameters": {"task": "north", "binary_data_output": 1}}, ["true or false"]),
        (ask(outputs=[{"name": "none"}]), ["'none'", "'transform'"]),
        (ask(outputs=[{"name": "transform"}] * 2), ["twice"]),
        (ask(outputs=["transform"]), ["object"]),
        (ask(outputs={"name": "transform"}), ["list"]),
        (ask(outputs=[{"name": "transform", "parameters": {"classification": 1}}]), ["largest"]),
        (
            ask(tensor(), {"name": "task", "shape": [1], "datatype": "BYTES", "data": ["a"]}),
            ["row 0", "'a'", "'north'"],
        ),
    ],
)
def test_an_invalid_request_is_rejected_with_its_location(http, body, words):
    entry = assert_rejected(infer(http, body), 400, "invalid-request", *words)["errors"][0]
    assert "pointer" in entry or "parameter" in entry


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (tensor(ROWS[:, :4]), ["task 'north'", "5 numbers", "(3, 4)"]),
        (tensor(data=[1.0] * 14 + [True]), ["row 2, column 4 is a boolean"]),
        (tensor(data=[1.0] * 7 + [None] + [1.0] * 7), ["row 1, column 2 is null"]),
        (
            tensor(data=[[1.0] * 5] * 2 + [[1.0, "x", 1.0, 1.0, 1.0]]),
            ["row 2, column 1 is a string"],
        ),
        (tensor(datatype="INT8", data=[1] * 14 + [128]), ["row 2, column 4 is 128", "INT8"]),
        (tensor(datatype="UINT8", data=[-1] + [1] * 14), ["row 0, column 0 is -1", "UINT8"]),
        (tensor(datatype="INT32", data=[1] * 14 + [1.5]), ["row 2, column 4 is 1.5", "INT32"]),
        (tensor(datatype="INT64", data=[1] * 14 + [2**53 + 1]), ["row 2, column 4", "2**53"]),
        (tensor(datatype="UINT64", data=[1] * 14 + [2**63]), ["row 2, column 4", "2**53"]),
        (tensor(datatype="FP32", data=[1] * 14 + [-1e39]), ["row 2, column 4 is -1e+39", "FP32"]),
        (tensor(datatype="FP16", data=[[1, 2, 3, 4, 70000]] * 3), ["row 0, column 4", "FP16"]),
        (tensor(datatype="INT64", data=[[1, 2, 3, 4, [5]]] * 3), ["row 0, column 4 is a list"]),
    ],
)
def test_invalid_values_are_reported_with_row_and_column(http, entry, words):
    assert_rejected(infer(http, ask(entry)), 400, "invalid-data", *words)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_non_finite_binary_value_is_located(http, value):
    rows = ROWS.astype(float)
    rows[1, 3] = value
    response = infer(http, ask(BINARY), tail=rows.tobytes())
    assert_rejected(response, 400, "invalid-data", "task 'north', row 1, column 3")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"data": ["north"] * 2, "shape": [2]}, ["3 rows", "2 tasks"]),
        ({"data": ["north"] * 2, "shape": [3]}, ["3 strings, got 2"]),
        ({"data": ["north", "none", "süd"]}, ["'none'", "'north'"]),
        ({"data": ["north", 1, "süd"]}, ["row 1 is a number"]),
        ({"data": [1, 2, 3], "datatype": "INT64"}, ["'1'", "'north'"]),
        ({"data": ["north"] * 4, "shape": [2, 2]}, ["[rows]"]),
    ],
)
def test_invalid_tasks_are_rejected(http, task, words):
    entry = {"name": "task", "shape": [3], "datatype": "BYTES", **task}
    response = infer(http, ask(tensor(), entry, task=None))
    body = checked(response, "error", 400)
    for word in words:
        assert word in body["error"]


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "99999999", "9" * 40, "", "²"])
def test_an_invalid_header_length_is_rejected(http, length):
    headers = {LENGTH: length.encode()}
    content = json.dumps(ask()).encode()
    response = http.post("/v2/models/shared/infer", content=content, headers=headers)
    assert_rejected(response, 400, "invalid-request")


def test_binary_sizes_must_match_the_tensors(http):
    rows = ROWS.astype("<f8").tobytes()
    assert_rejected(
        infer(http, ask(BINARY), tail=rows + b"x"), 400, "malformed-body", "1 bytes follow"
    )
    short = BINARY | {"parameters": {"binary_data_size": 112}}
    assert_rejected(
        infer(http, ask(short), tail=rows[:112]), 400, "invalid-request", "120 bytes, got 112"
    )
    for size in (-1, 10**30, "120", 120.5, True):
        wrong = BINARY | {"parameters": {"binary_data_size": size}}
        assert_rejected(
            infer(http, ask(wrong), tail=rows), 400, "invalid-request", "binary_data_size"
        )


@pytest.mark.parametrize(
    "packed", [b"\1", b"\1\0\0\0", b"\xff\xff\xff\xff" + b"a", b"\1\0\0\0\xff"]
)
def test_truncated_or_invalid_strings_are_rejected(http, packed):
    entry = {"name": "task", "shape": [1], "datatype": "BYTES"}
    entry["parameters"] = {"binary_data_size": len(packed)}
    response = infer(http, ask(tensor(), entry, task=None), tail=packed)
    assert_rejected(response, 400, "invalid-request", "BYTES")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "malformed-json"),
        (b"{", "malformed-json"),
        (b"\xff", "malformed-json"),
        (b'{"inputs": ' + b"[" * 100_000, "malformed-json"),
        (b'{"inputs": ' + b"[" * 500 + b"]" * 500 + b"}", "invalid-request"),
        (b'{"inputs": [{"name": "rows", "shape": [1, 1], "data": [NaN]}]}', "malformed-json"),
        (b'{"id": "\\ud800", "inputs": []}', "malformed-json"),
        (b'{"id": "\\u0000", "inputs": []}', "invalid-request"),
    ],
)
def test_invalid_json_is_rejected(http, content, code):
    assert_rejected(infer(http, content), 400, code)


def test_an_unsupported_content_type_is_415(http):
    response = infer(http, ask(), **{"Content-Type": "text/csv"})
    assert_rejected(response, 415, "unsupported-media-type", "application/octet-stream")


def test_keys_are_required_if_configured(keyed_service, first_key):
    import httpx

    with httpx.Client(base_url=keyed_service.url, timeout=240) as http:
        checked(http.get("/v2"), "server")
        assert http.get("/v2/health/ready").status_code == 200
        assert_rejected(http.get("/v2/models/none"), 401, "unauthenticated")
        assert_rejected(infer(http, ask()), 401, "unauthenticated")
        assert_rejected(infer(http, ask(), Authorization=f"Bearer {first_key}"), 404, "not-found")
