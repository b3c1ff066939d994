"""Calls over a bare socket: however their bytes come, the answers are those of plain calls."""

import json
import os
import signal
import time

import numpy as np
import pytest

from service.access import store
from sibling import Client
from tests.service.raw import Raw

PATH = "/v2/models/shared/infer"
#: More than is read into the memory that all connections share.
MANY = 8000


def body_of(n_rows=1, value=0.5, **parameters):
    rows = np.full((n_rows, 5), value)
    tensor = {"name": "rows", "shape": [n_rows, 5], "datatype": "FP64", "data": rows.tolist()}
    return json.dumps({"inputs": [tensor], "parameters": {"task": "north", **parameters}}).encode()


def request_of(body, path=PATH, method="POST", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
def connect(service, http):
    """``with connect() as connection``: to a server whose model is known to be quick."""
    for _ in range(3):
        assert http.post(PATH, content=body_of()).status_code == 200

    return lambda: Raw(service.url)


@pytest.fixture
def expected(http):
    """``expected(body)``: the answer of the framework, which takes what is not plain."""
    return lambda body: http.post(f"{PATH}?&", content=body).content


@pytest.mark.parametrize("value", [0.5, "x"])
def test_a_call_in_two_pieces_is_a_call_wherever_it_is_cut(connect, expected, value):
    body = body_of(value=0.5) if value != "x" else b'{"inputs": "x"}'
    whole, status = request_of(body), 200 if value != "x" else 400
    reference = json.loads(expected(body))
    with connect() as connection:
        for i in range(1, len(whole), 7):
            connection.send(whole[:i], whole[i:], pause_s=0.001)
            found, _, content = connection.response()
            answer = json.loads(content)
            if status == 400:
                answer["request_id"] = reference["request_id"] = None
            assert (found, answer) == (status, reference)


def test_a_large_body_may_arrive_in_any_pieces(connect, expected):
    body = body_of(MANY)
    assert len(body) > 200_000
    whole, reference = request_of(body), expected(body)
    with connect() as connection:
        for cuts in ((50,), (200, 100_000), (len(whole) - 1,), (150_000, len(whole) - 3), ()):
            parts = np.split(np.frombuffer(whole, np.uint8), cuts)
            connection.send(*(part.tobytes() for part in parts))
            assert connection.response()[::2] == (200, reference)
            connection.send(request_of(body_of()))
            assert connection.response()[::2] == (200, expected(body_of()))


def test_pipelined_requests_are_answered_in_order(connect, expected):
    small, large = body_of(), body_of(MANY, 0.25)
    get = b"GET /v2/models/shared/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reference = {small: expected(small), large: expected(large), b"": None}
    for order in (
        [small] * 5,
        [small, b"", small],
        [large, small, b"", small],
        [b"", large, large],
    ):
        with connect() as connection:
            connection.send(request_of(small))
            assert connection.response()[0] == 200
            connection.send(b"".join(request_of(body) if body else get for body in order))
            for body in order:
                status, _, content = connection.response()
                assert status == 200
                assert reference[body] in (None, content)


def test_unusual_headers_of_an_inference_request_are_respected(connect, expected):
    body = body_of()
    reference = expected(body)
    with connect() as connection:
        head, _, _ = request_of(b"").partition(b"Content-Length")
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        connection.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert connection.response()[::2] == (200, reference)
        whole = request_of(body, Expect="100-continue")
        connection.send(whole[: -len(body)])
        assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(body)
        assert connection.response()[::2] == (200, reference)
        connection.send(request_of(body, Connection="close"))
        status, headers, content = connection.response()
        assert (status, headers["connection"], content) == (200, "close", reference)
        assert connection.is_ended()
    with connect() as connection:
        connection.send(request_of(body).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert connection.response()[::2] == (200, reference)
        assert connection.is_ended()
    with connect() as connection:
        connection.send(request_of(body).replace(b"Content-Length: ", b"Content-Length: 99999999"))
        assert connection.response()[0] == 413


def test_clients_that_disconnect_cause_no_error_in_the_log(connect, service):
    for _ in range(10):
        with connect() as connection:
            connection.send(request_of(body_of(3000)) + request_of(body_of()) + b"XYZ\r\n\r\n")
    with connect() as connection:  # the service has read what they sent before
        connection.send(request_of(body_of()))
        assert connection.response()[0] == 200
    assert "request.failed" not in service.log()
    assert "Traceback" not in service.log()


def test_a_client_that_disconnects_does_not_affect_the_service(connect, expected):
    body = body_of(MANY)
    reference = expected(body)
    for share in (0.01, 0.5, 0.999, 1.0):
        for _ in range(5):
            with connect() as connection:
                whole = request_of(body)
                connection.send(whole[: int(share * len(whole))])
    with connect() as connection:
        connection.send(request_of(body))
        assert connection.response()[::2] == (200, reference)


@pytest.mark.slow  # a service of its own
@pytest.mark.usefixtures("model")
def test_a_stopping_service_answers_requests_that_are_arriving(start_replica):
    running = start_replica()
    n_rows = 50  # little, as it has 3 s from the signal
    body = body_of(n_rows)
    whole = request_of(body, Expect="100-continue")
    with Raw(running.url) as idle, Raw(running.url) as connection:
        connection.send(whole[: -len(body)])
        # the request has arrived, and waits for its body
        assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(body[:1000])
        os.kill(running.process.pid, signal.SIGTERM)
        assert idle.is_ended()  # so it is stopping
        connection.send(body[1000:])
        status, headers, content = connection.response()
        assert (status, headers["connection"]) == (200, "close")
        assert len(json.loads(content)["outputs"][0]["data"]) == 2 * n_rows
        assert connection.is_ended()
    running.process.wait(120)


@pytest.mark.slow  # a service of its own
def test_a_stopping_service_answers_503_to_later_requests(start_replica):
    running = start_replica()
    upload = request_of(b"task,x\n", "/v1/datasets?name=cut", Content_Type="text/csv")
    upload = upload.replace(b"Content-Length: 7", b"Content-Length: 70")
    infer = request_of(b"{", "/v2/models/none/infer").replace(b"Length: 1", b"Length: 9")
    with Raw(running.url) as uploading, Raw(running.url) as inferring:
        uploading.send(upload)
        inferring.send(infer)
        with Client(running.url) as client:
            list(client.datasets)  # so that both have arrived
        os.kill(running.process.pid, signal.SIGTERM)
        for connection in (uploading, inferring):
            status, headers, content = connection.response()
            assert (status, json.loads(content)["code"]) == (503, "unavailable")
            assert (headers["connection"], headers["retry-after"]) == ("close", "1")
            assert connection.is_ended()
    running.process.wait(120)
    assert "Traceback" not in running.log()


@pytest.mark.slow
def test_a_key_in_use_is_looked_up_again_and_ends_when_it_is_revoked(start_service):
    key = "sib_" + "a" * 12 + "_" + "b" * 43
    running = start_service(SIBLING_REQUIRE_KEYS="true", SIBLING_BOOTSTRAP_KEY=key)
    with Client(running.url, api_key=key) as client:
        data = client.upload({"north": np.random.default_rng(0).standard_normal((20, 5))})
        client.train(data, "pca", model="shared", k=2).wait()
    with Raw(running.url) as connection:

        def call():
            connection.send(request_of(body_of(), Authorization=f"Bearer {key}"))
            return connection.response()[0]

        end = time.monotonic() + 5  # longer than a key is cached
        while time.monotonic() < end:
            assert call() == 200
        with running.open_database() as database, database.write() as session:
            assert store.revoke(session, "a" * 12)
        deadline = time.monotonic() + 240
        while call() == 200:
            assert time.monotonic() < deadline
        connection.send(request_of(body_of(), Authorization=f"Bearer {key[:-1]}c"))
        assert connection.response()[0] == 401
