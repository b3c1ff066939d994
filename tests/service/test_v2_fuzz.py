"""Fuzzing of the protocol: no input causes an internal error or a hang."""

import contextlib
import json
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from algorithms.wrappers.preparation.column_matching import clean_name
from service.errors.problems import Problem
from service.inference.call import InputSpec
from service.inference.task_column import TaskSource
from service.inference.v2.request import read_request
from tests.service.raw import Raw, head

pytestmark = pytest.mark.slow  # thousands of generated requests

#: Names of tasks: a text without letters is a missing one.
TASKS = st.text(max_size=9).filter(str.strip)
#: Task column, model and version.
NAMES = ("task", "shared", None)
LENGTH = "Inference-Header-Content-Length"
PATH = "/v2/models/shared/infer"
DATATYPES = ["FP16", "FP32", "FP64", "INT8", "INT64", "UINT8", "UINT64", "BYTES", "BOOL", "x"]
#: Sizes of the chunks of a body.
PIECES = (1, 7, 64)
SPEC = InputSpec("north", "transform", 5, allow_missing=False, columns=lambda: None)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
dims = st.lists(st.integers(-3, 7) | st.sampled_from([2**31, 2**63, 2**70]), max_size=4)


def nearly(**fields):
    """Return a strategy for objects with these fields, each possibly missing or invalid."""
    return st.fixed_dictionaries(
        {}, optional={name: st.one_of(value, json_values) for name, value in fields.items()}
    )


tensors = nearly(
    name=st.sampled_from(["rows", "task", "more"]),
    shape=dims,
    datatype=st.sampled_from(DATATYPES),
    data=st.lists(numbers, max_size=12) | st.lists(st.lists(numbers, max_size=6), max_size=4),
    parameters=nearly(binary_data_size=st.integers(-2, 200) | st.just(2**64)),
)
requests = nearly(
    id=st.text(max_size=5),
    parameters=nearly(task=st.just("north"), binary_data_output=st.booleans()),
    inputs=st.lists(tensors, max_size=3),
    outputs=st.lists(nearly(name=st.sampled_from(["transform", "more"])), max_size=2),
)


def decode(content, length=None):
    """Parse a body into a matrix as the service does; return None if it is rejected."""
    with contextlib.suppress(Problem):
        _, call = read_request(content, length, NAMES, TaskSource("north", "task", lambda _: False))
        rows = call.rows.as_matrix(SPEC)
        assert rows.dtype == np.float64
        assert rows.shape[1] == 5
        return rows
    return None


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(body=requests | json_values, tail=st.binary(max_size=200))
def test_any_json_is_parsed_or_rejected(body, tail):
    content = json.dumps(body).encode()
    decode(content)
    decode(content + tail, str(len(content)))


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    content=st.binary(max_size=300), length=st.none() | st.text(max_size=4) | st.integers(0, 300)
)
def test_any_bytes_are_parsed_or_rejected(content, length):
    decode(content, None if length is None else str(length))


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(
        st.lists(
            st.floats(width=64, allow_nan=False, allow_infinity=False)
            | st.integers(-(2**53), 2**53),
            min_size=5,
            max_size=5,
        ),
        min_size=1,
        max_size=4,
    ),
    is_nested=st.booleans(),
)
@example(rows=[[2**53, -0.0, 5e-324, 1.7976931348623157e308, 0.1]], is_nested=False)
def test_json_numbers_are_parsed_exactly(rows, is_nested):
    data = rows if is_nested else [value for row in rows for value in row]
    tensor = {"name": "rows", "shape": [len(rows), 5], "datatype": "FP64", "data": data}
    found = decode(json.dumps({"inputs": [tensor]}).encode())
    assert found.tobytes() == np.array(rows, dtype=np.float64).tobytes()


@settings(max_examples=300, deadline=None)
@given(texts=st.lists(TASKS, min_size=2, max_size=4), cut=st.integers(0, 60))
def test_binary_strings_are_parsed_completely_or_rejected(texts, cut):
    packed = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)
    rows = {"name": "rows", "shape": [0, 5], "datatype": "FP64", "data": []}
    kept = packed[: len(packed) - cut] if cut else packed
    task = {"name": "task", "shape": [len(texts)], "datatype": "BYTES"}
    task["parameters"] = {"binary_data_size": len(kept)}
    header = json.dumps({"inputs": [rows, task]}).encode()
    try:
        _, call = read_request(
            header + kept, str(len(header)), NAMES, TaskSource(None, "task", lambda _: False)
        )
    except Problem:
        assert cut
    else:
        assert not cut
        assert call.task == [clean_name(text) for text in texts]


# --- a real server -------------------------------------------------------------------------------


def body_of(n_rows=3):
    rows = np.arange(5.0 * n_rows).reshape(n_rows, 5)
    tensor = {"name": "rows", "shape": [n_rows, 5], "datatype": "FP64"}
    tensor["parameters"] = {"binary_data_size": rows.nbytes}
    header = json.dumps({"inputs": [tensor], "parameters": {"task": "north"}}).encode()
    return header + rows.tobytes(), len(header)


def test_a_truncated_body_is_rejected_and_the_service_survives(http):
    content, length = body_of()
    for end in range(0, len(content), 5):
        response = http.post(PATH, content=content[:end], headers={LENGTH: str(length)})
        assert response.status_code == 400, (end, response.text)
        assert response.json()["error"]
    assert http.get("/v2/health/ready").status_code == 200


@pytest.mark.parametrize("size", PIECES)
def test_bodies_may_arrive_in_chunks_or_end_early(service, http, size):
    content, length = body_of(20)

    def send(n_bytes, *, is_chunked):
        """Send a part of the body, close the connection, and return the response."""
        framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(content)}"
        with Raw(service.url) as connection:
            connection.send(head("POST", PATH, f"{LENGTH}: {length}", framing, "Connection: close"))
            for i in range(0, n_bytes, size):
                piece = content[i : min(i + size, n_bytes)]
                framed = f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if is_chunked else piece
                connection.send(framed)
            if n_bytes == len(content) and is_chunked:
                connection.send(b"0\r\n\r\n")
            if n_bytes < len(content):
                connection.socket.shutdown(socket.SHUT_WR)
            return connection.file.read()

    for is_chunked in (True, False):
        assert send(len(content), is_chunked=is_chunked).startswith(b"HTTP/1.1 200 ")
        for n_bytes in range(0, len(content), max(size, len(content) // 12)):
            response = send(n_bytes, is_chunked=is_chunked)
            assert not response.startswith((b"HTTP/1.1 5", b"HTTP/1.1 2")), response
    assert http.get("/v2/health/ready").status_code == 200


def test_corrupt_bytes_never_cause_an_internal_error(http):
    content, length = body_of()
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            damaged[place] = rng.integers(0, 256)
        response = http.post(PATH, content=bytes(damaged), headers={LENGTH: str(length)})
        assert response.status_code in (200, 400), response.text
    assert http.get("/v2/health/ready").status_code == 200


def test_errors_about_limits_have_the_limit(start_replica):
    service = start_replica(SIBLING_MAX_BODY_BYTES=2000)
    with httpx.Client(base_url=service.url, timeout=240) as http:
        content, length = body_of(100)
        headers = {LENGTH: str(length)}
        for body in (content, iter([content])):  # with a Content-Length, and chunked
            response = http.post(PATH, content=body, headers=headers)
            assert response.status_code == 413
            assert "2000" in response.json()["error"]
        assert http.get("/v2/health/live").status_code == 200


@pytest.mark.usefixtures("model")
def test_overload_is_503_with_retry_after_while_health_responds(start_replica):
    service = start_replica(SIBLING_INFERENCE_THREADS=1, SIBLING_INFERENCE_QUEUE_SIZE=0)
    content, length = body_of(100_000)

    def call(_):
        with httpx.Client(base_url=service.url, timeout=240) as http:
            response = http.post(PATH, content=content, headers={LENGTH: str(length)})
            return response, http.get("/v2/health/ready").status_code

    with ThreadPoolExecutor(16) as pool:
        responses = list(pool.map(call, range(16)))
    assert {response.status_code for response, _ in responses} == {200, 503}
    rejected = next(response for response, _ in responses if response.status_code == 503)
    assert rejected.json()["code"] == "unavailable"
    assert rejected.json()["error"]
    assert int(rejected.headers["retry-after"]) >= 1
    assert {health for _, health in responses} == {200}
