"""Inference over HTTP equals the offline model; invalid rows are rejected with their location."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import orjson
import pytest

from algorithms.registry import load_model
from sibling import Client
from tests.written import written

NPY = "application/x-npy"
PATH = "/v1/models/shared/transform"


@pytest.fixture(scope="module")
def offline(model, tmp_path_factory):
    return load_model(model.download(tmp_path_factory.mktemp("artifact") / "model.safetensors"))


@pytest.fixture(scope="module")
def X():  # noqa: N802 - the letter of the rows
    return np.random.default_rng(3).standard_normal((7, 5)) * 10.0 ** np.arange(-2, 3)


def as_npy(array, **options):
    return written(np.lib.format.write_array, array, **options)


def send_json(http, rows, *, task="north", path=PATH, **headers):
    body = orjson.dumps({"task": task, "inputs": rows}, option=orjson.OPT_SERIALIZE_NUMPY)
    return http.post(path, content=body, headers={"Content-Type": "application/json", **headers})


def send_npy(http, body, *, task="north", path=PATH, **headers):
    headers = {"Content-Type": NPY, "Accept": NPY, **headers}
    return http.post(path, params={"task": task}, content=body, headers=headers)


def read_npy(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == NPY
    return np.load(io.BytesIO(response.content), allow_pickle=False)


def assert_rejected(response, status, code, *words):
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code), body
    for word in words:
        assert word in body["detail"]
    return body


# --- same result as offline ----------------------------------------------------------------------


@pytest.mark.parametrize("task", ["north", "süd", "a/b"])
@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_every_format_equals_the_offline_model_bit_for_bit(http, offline, X, task, method):
    rows = X[:, : offline.width(method, task=task)].copy()
    expected = getattr(offline, method)(rows, task=task)
    path = f"/v1/models/shared/{method.replace('_', '-')}"
    body = send_json(http, rows, task=task, path=path).json()
    assert (body["model"], body["version"], body["task"]) == ("shared", 1, task)
    as_json = send_npy(http, as_npy(rows), task=task, path=path, Accept="*/*").json()
    results = [
        np.array(body["outputs"]),
        read_npy(send_json(http, rows, task=task, path=path, Accept=NPY)),
        read_npy(send_npy(http, as_npy(rows), task=task, path=path)),
        np.array(as_json["outputs"]),
    ]
    for result in results:
        assert result.dtype == np.float64
        assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["<f4", "<f2", ">f8", ">f4", "<i8", ">i2", "|u1", "<u8"])
def test_every_numeric_dtype_of_npy_is_accepted(http, offline, X, dtype):
    rows = np.abs(X).astype(dtype)
    result = read_npy(send_npy(http, as_npy(rows)))
    np.testing.assert_array_equal(result, offline.transform(rows, task="north"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_npy_version_and_fortran_order_are_accepted(http, offline, X, version):
    rows = np.asfortranarray(X)
    result = read_npy(send_npy(http, as_npy(rows, version=version)))
    np.testing.assert_allclose(result, offline.transform(X, task="north"), rtol=1e-13)


def test_integers_in_json_are_accepted(http, offline):
    rows = [[1, 2, 3, 4, 5], [2**63, -1, 0.5, 1e300, 2**64 - 1]]
    result = np.array(send_json(http, rows).json()["outputs"])
    expected = offline.transform(np.array(rows, dtype=float), task="north")
    assert result.tobytes() == expected.tobytes()


def test_zero_rows_return_zero_rows_of_the_right_width(http):
    assert send_json(http, []).json()["outputs"] == []
    assert read_npy(send_json(http, [], Accept=NPY)).shape == (0, 2)
    assert read_npy(send_npy(http, as_npy(np.empty((0, 5))))).shape == (0, 2)
    wrong = send_npy(http, as_npy(np.empty((0, 4))))
    assert_rejected(wrong, 422, "invalid-data", "north", "5 numbers", "(0, 4)")


def test_outputs_are_in_the_order_of_the_rows(http, offline):
    rows = np.random.default_rng(0).standard_normal((20_000, 5))
    result = np.array(send_json(http, rows).json()["outputs"])
    np.testing.assert_array_equal(result, offline.transform(rows, task="north"))


# --- invalid rows --------------------------------------------------------------------------------


def test_an_unknown_task_lists_the_known_ones(http):
    for response in (
        send_json(http, [[1.0] * 5], task="west"),
        send_npy(http, as_npy(np.ones((1, 5))), task="west"),
        send_json(http, [], task=""),
    ):
        assert_rejected(response, 422, "unknown-task", "'north'", "'süd'", "'a/b'")


ROW = [1.0] * 5


@pytest.mark.parametrize(
    ("rows", "pointer", "words"),
    [
        ([[1.0] * 4], "/inputs/0", "row 0 has 4"),
        ([ROW, [1.0] * 6], "/inputs/1", "row 1 has 6"),
        ([ROW, []], "/inputs/1", "row 1 has 0"),
        ([[]], "/inputs/0", "row 0 has 0"),
        ([1.0, 2.0], "/inputs/0", "row 0 is a number"),
        ([None], "/inputs/0", "row 0 is null"),
        (["12345"], "/inputs/0", "row 0 is a string"),
        ([{"0": 1}], "/inputs/0", "row 0 is an object"),
        ([ROW, [1.0, 2.0, "3", 4.0, 5.0]], "/inputs/1/2", "row 1, column 2 is a string"),
        ([[1.0, 2.0, 3.0, 4.0, True]], "/inputs/0/4", "row 0, column 4 is a boolean"),
        ([[True] * 5], "/inputs/0/0", "row 0, column 0 is a boolean"),
        ([[1.0, None, 3.0, 4.0, 5.0]], "/inputs/0/1", "row 0, column 1 is null"),
        ([[[1.0]] * 5], "/inputs/0/0", "row 0, column 0 is a list"),
        ([[[1.0] * 5]], "/inputs/0", "row 0 has 1"),
        ([[{}] * 5], "/inputs/0/0", "row 0, column 0 is an object"),
    ],
)
def test_a_row_of_the_wrong_width_is_rejected_with_its_location(http, rows, pointer, words):
    body = assert_rejected(
        send_json(http, rows), 422, "invalid-data", "task 'north'", "5 numbers", words
    )
    (entry,) = body["errors"]
    assert (entry["pointer"], entry["task"]) == (pointer, "north")


@pytest.mark.parametrize("inputs", [None, 1, "x", {}, True])
def test_inputs_that_are_not_a_list_are_rejected(http, inputs):
    response = send_json(http, inputs)
    assert_rejected(response, 422, "invalid-request", "task 'north'", "5 numbers")


@pytest.mark.parametrize("text", [b"NaN", b"-Infinity", b"1e999", b"+1", b".5", b"0x1"])
def test_an_invalid_json_number_is_400(http, text):
    body = b'{"task": "north", "inputs": [[1, 2, 3, 4, ' + text + b"]]}"
    response = http.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert_rejected(response, 400, "malformed-json")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"inputs": []}, "/task"),
        ({"task": "north"}, "/inputs"),
        ({"task": 1, "inputs": []}, "/task"),
        ({"task": "north", "inputs": [], "a/b": 1}, "/a~1b"),
    ],
)
def test_missing_unknown_and_mistyped_fields_are_named(http, body, pointer):
    response = http.post(PATH, json=body)
    assert assert_rejected(response, 422, "invalid-request")["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("query", ["task=north", "task=%6Eorth"])  # two ways to the handler
def test_json_without_a_task_has_that_of_the_query(http, offline, query):
    body = {"inputs": [[1.0] * 5]}
    expected = offline.transform(np.ones((1, 5)), task="north").tolist()
    for more in ({}, {"task": None}, {"task": "north"}, {"task": ["north"]}):
        response = http.post(f"{PATH}?{query}", json={**body, **more})
        assert response.json()["outputs"] == expected


@pytest.mark.parametrize("task", ["a/b", ["north", "a/b"]])
def test_json_with_another_task_than_the_query_is_rejected(http, task):
    response = http.post(f"{PATH}?task=north", json={"task": task, "inputs": [[1.0] * 5]})
    rejected = assert_rejected(response, 422, "invalid-request", "'north'", "'a/b'")
    assert rejected["errors"][0]["parameter"] == "query:task"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_non_finite_value_in_npy_is_located(http, value):
    rows = np.ones((3, 5))
    rows[2, 1] = value
    body = assert_rejected(
        send_npy(http, as_npy(rows)), 422, "invalid-data", "task 'north', row 2, column 1"
    )
    assert body["errors"][0]["row"] == 2


def test_rows_that_overflow_are_rejected(http, offline):
    direction = np.sign(offline.basis_of("north")[:, 0])
    for response in (
        send_json(http, [1.7e308 * direction]),
        send_npy(http, as_npy(1.7e308 * direction[np.newaxis])),
    ):
        assert_rejected(response, 422, "invalid-data", "task 'north'", "overflow")


@pytest.mark.parametrize("shape", [(5,), (), (1, 4), (2, 1, 5), (5, 1)])
def test_an_npy_array_of_the_wrong_shape_is_rejected(http, shape):
    response = send_npy(http, as_npy(np.ones(shape)))
    assert_rejected(response, 422, "invalid-data", "task 'north'", "5 numbers", str(shape))


def header_only(header):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


GOOD = as_npy(np.ones((2, 5)))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x93NUMPY",
        b"not an array",
        GOOD[:20],
        GOOD[:-1],
        GOOD + b"\0",
        GOOD + GOOD,
        GOOD.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x09"),
        as_npy(np.array([[{}] * 5], dtype=object)),
        as_npy(np.array([["1"] * 5])),
        as_npy(np.ones((1, 5), dtype=bool)),
        as_npy(np.ones((1, 5), dtype=complex)),
        as_npy(np.zeros((1, 5), dtype="M8[s]")),
        as_npy(np.zeros(1, dtype=[("a", "f8"), ("b", "f8")])),
        header_only("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 5)}"),
        header_only("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 5)}"),
        header_only("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}") + b"x" * 8,
        header_only("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 10**40)}"),
        header_only("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1" + "0" * 40 + ")}"),
        header_only(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 2000000000, 2000000000)}"
        ),
        header_only("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 5)}") + b"x" * 40,
        header_only("{'descr': ',', 'fortran_order': False, 'shape': (1, 5)}"),
        header_only("{'descr': [[[]]], 'fortran_order': False, 'shape': (1, 5)}"),
        header_only("{'descr': '|O', 'fortran_order': False, 'shape': (1, 5)}") + b"x" * 40,
        header_only("(" * 110),
        header_only("__import__('os').system('true')"),
    ],
)
def test_an_invalid_npy_body_is_rejected(http, body):
    response = send_npy(http, body)
    assert response.status_code in (400, 422)
    if response.status_code == 400:
        assert_rejected(response, 400, "malformed-body", ".npy")


def test_npy_requires_a_task_in_the_query(http):
    response = http.post(PATH, content=GOOD, headers={"Content-Type": NPY})
    assert_rejected(response, 422, "invalid-request", "task")


# --- models, methods, formats --------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/v1/models/none/transform", "/v1/models/shared/versions/99/transform"],
)
def test_an_unknown_model_or_version_is_404(http, path):
    assert_rejected(send_json(http, [ROW], path=path), 404, "not-found", path.split("/")[3])


def test_an_unsupported_method_lists_the_supported_ones(http):
    for path in ("/v1/models/shared/predict", "/v1/models/shared/versions/1/predict"):
        response = send_json(http, [ROW], path=path)
        assert_rejected(response, 422, "unsupported-method", "transform, inverse_transform")


@pytest.mark.parametrize(
    "content_type", ["text/html", "application/octet-stream", "image/png", "x"]
)
def test_an_unsupported_content_type_is_415_and_lists_the_supported_ones(http, content_type):
    response = http.post(PATH, content=b"1", headers={"Content-Type": content_type})
    assert_rejected(response, 415, "unsupported-media-type", "application/json", NPY)


@pytest.mark.parametrize("accept", ["text/html", "image/*", "application/msword", "a/b, x"])
def test_an_unsupported_accept_header_is_406_and_lists_the_supported_types(http, accept):
    response = send_json(http, [ROW], Accept=accept)
    assert_rejected(response, 406, "not-acceptable", "application/json", NPY)


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        (f"{NPY}, application/json", NPY),
        (f"application/json;q=0.5, {NPY}", NPY),
        (f"{NPY};q=0.1, application/json;q=0.9", "application/json"),
        ("application/json;q=0, */*", NPY),
        ("text/*", "text/csv"),
        ("text/html, text/csv;q=0.9", "text/csv"),
        ("text/html, */*;q=0.1", "application/json"),
        ("APPLICATION/JSON; charset=utf-8", "application/json"),
    ],
)
def test_the_preferred_format_is_returned(http, accept, given):
    response = send_json(http, [ROW], Accept=accept)
    assert response.headers["content-type"] == given


def test_the_latest_version_is_used_until_it_is_deleted(client, http, dataset):
    first, second = (
        client.train(dataset, "pca", model="versions-of-inference", k=k).wait() for k in (1, 3)
    )
    path = f"/v1/models/{first.name}"

    def width(suffix=""):
        return len(send_json(http, [ROW], path=f"{path}{suffix}/transform").json()["outputs"][0])

    assert (width(), width("/versions/1"), width("/versions/2")) == (3, 1, 3)
    second.delete()
    assert width() == 1
    deleted = send_json(http, [ROW], path=f"{path}/versions/2/transform")
    assert_rejected(deleted, 404, "not-found", "version 2")
    first.delete()
    assert_rejected(send_json(http, [ROW], path=f"{path}/transform"), 404, "not-found")


def test_concurrent_calls_get_their_own_results(service, offline):
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal((50, 5)) for _ in range(32)]
    barrier = threading.Barrier(32)

    def call(rows):
        with Client(service.url) as own:
            remote = own.model("shared")
            barrier.wait(120)
            return [remote.transform(rows, task="süd") for _ in range(3)]

    with ThreadPoolExecutor(32) as pool:
        responses = list(pool.map(call, inputs))
    for rows, outputs in zip(inputs, responses, strict=True):
        expected = offline.transform(rows, task="süd")
        assert all(output.tobytes() == expected.tobytes() for output in outputs)
