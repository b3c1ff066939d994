"""Calls over a bare socket: however their bytes come, the answers are those of plain calls."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
import uvicorn
import uvloop
from starlette.applications import Starlette
from uvicorn.server import ServerState

from service.access import store
from service.client import Client
from service.inference.arrival import Arrival, Calls
from service.inference.exchange import Head
from service.inference.statistics import Clock
from service.metrics import Metrics
from service.wire.bodies import Bodies, LargeBody
from service.wire.protocol import CallProtocol, Connection
from service.wire.repeats import Repeats

PATH = "/v2/models/shared/infer"
#: More than is read into the memory that all connections share.
MANY = 8000


def body_of(n_rows=1, value=0.5, **parameters):
    rows = np.full((n_rows, 5), value)
    tensor = {"name": "rows", "shape": [n_rows, 5], "datatype": "FP64", "data": rows.tolist()}
    return json.dumps({"inputs": [tensor], "parameters": {"task": "north", **parameters}}).encode()


def request_of(body, path=PATH, method="POST", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: here", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Caller:
    """A socket, and the answers that come of it in order."""

    def __init__(self, service):
        host, port = service.url.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self._file = self.socket.makefile("rb")

    def send(self, *parts, pause_s=0.005):
        for i, part in enumerate(parts):
            if i:
                time.sleep(pause_s)  # so that they arrive apart
            self.socket.sendall(part)

    def answer(self):
        """Give status, headers and body."""
        status = int(self._file.readline().split()[1])
        lines = iter(self._file.readline, b"\r\n")
        parts = (line.partition(b":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in parts}
        return status, headers, self._file.read(int(headers[b"content-length"]))

    def is_closed(self):
        return self._file.read(1) == b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()
        self.socket.close()


@pytest.fixture
def connect(service, http):
    """``with connect() as connection``: to a server whose model is known to be quick."""
    for _ in range(3):
        assert http.post(PATH, content=body_of()).status_code == 200

    return lambda: Caller(service)


@pytest.fixture
def expected(http):
    """``expected(body)``: the answer of the framework, which takes what is not plain."""
    return lambda body: http.post(f"{PATH}?other=1", content=body).content


@pytest.mark.parametrize("value", [0.5, "x"])
def test_a_call_in_two_pieces_is_a_call_wherever_it_is_cut(connect, expected, value):
    body = body_of(value=0.5) if value != "x" else b'{"inputs": "x"}'
    whole, status = request_of(body), 200 if value != "x" else 400
    told = json.loads(expected(body))
    with connect() as connection:
        for i in range(1, len(whole), 7):
            connection.send(whole[:i], whole[i:], pause_s=0.001)
            found, _, content = connection.answer()
            answer = json.loads(content)
            if status == 400:
                answer["request_id"] = told["request_id"] = None
            assert (found, answer) == (status, told)


def test_a_large_body_comes_in_any_pieces(connect, expected):
    body = body_of(MANY)
    assert len(body) > 200_000
    whole, told = request_of(body), expected(body)
    with connect() as connection:
        for cuts in ((50,), (200, 100_000), (len(whole) - 1,), (150_000, len(whole) - 3), ()):
            parts = np.split(np.frombuffer(whole, np.uint8), cuts)
            connection.send(*(part.tobytes() for part in parts))
            assert connection.answer()[::2] == (200, told)
            connection.send(request_of(body_of()))
            assert connection.answer()[::2] == (200, expected(body_of()))


def test_a_head_that_comes_again_is_read_as_if_it_were_the_first(connect, expected):
    """But for the length, a caller sends the head of the call before."""
    bodies = [body_of(n, value) for n in (1, 1, 2, 20, 1, 3) for value in (0.5, 0.25, -17.125)]
    with connect() as connection:
        for body in bodies:
            connection.send(request_of(body, X_Mine="1"))
            assert connection.answer()[::2] == (200, expected(body))
        for other in (
            request_of(bodies[0], X_Mine="2", X_Request_Id="told"),
            request_of(bodies[0], path=f"{PATH}?task=north"),
            request_of(bodies[0], path="/v2/models/shared.transform/infer"),
        ):
            connection.send(other)
            assert connection.answer()[0] in (200, 400)
            connection.send(request_of(bodies[0], X_Mine="1"))
            assert connection.answer()[::2] == (200, expected(bodies[0]))
        connection.send(request_of(b'{"inputs": 1}', X_Mine="1"))
        assert connection.answer()[0] == 400


def test_calls_sent_ahead_are_answered_in_order(connect, expected):
    small, large = body_of(), body_of(MANY, 0.25)
    get = b"GET /v2/models/shared/ready HTTP/1.1\r\nHost: here\r\n\r\n"
    told = {small: expected(small), large: expected(large), b"": None}
    for order in (
        [small] * 5,
        [small, b"", small],
        [large, small, b"", small],
        [b"", large, large],
    ):
        with connect() as connection:
            connection.send(request_of(small))
            assert connection.answer()[0] == 200
            connection.send(b"".join(request_of(body) if body else get for body in order))
            for body in order:
                status, _, content = connection.answer()
                assert status == 200
                assert told[body] in (None, content)


def test_what_is_not_plain_about_a_call_is_heeded(connect, expected):
    body = body_of()
    told = expected(body)
    with connect() as connection:
        head, _, _ = request_of(b"").partition(b"Content-Length")
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        connection.send(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert connection.answer()[::2] == (200, told)
        whole = request_of(body, Expect="100-continue")
        connection.send(whole[: -len(body)])
        assert connection.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(body)
        assert connection.answer()[::2] == (200, told)
        connection.send(request_of(body, Connection="close"))
        status, headers, content = connection.answer()
        assert (status, headers[b"connection"], content) == (200, b"close", told)
        assert connection.is_closed()
    with connect() as connection:
        connection.send(request_of(body).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert connection.answer()[::2] == (200, told)
        assert connection.is_closed()
    with connect() as connection:
        connection.send(request_of(body).replace(b"Content-Length: ", b"Content-Length: 99999999"))
        assert connection.answer()[0] == 413


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_an_upgrade_is_not_heeded(connect, expected, protocol):
    body = body_of()
    upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": protocol, "HTTP2_Settings": "AA"}
    get = b"GET /v2/models/shared/ready HTTP/1.1\r\nHost: here\r\n\r\n"
    with connect() as connection:
        whole = request_of(body, **upgrade)
        for cut in (len(whole) // 2, len(whole) - len(body), len(whole)):
            connection.send(whole[:cut], whole[cut:] + get)
            assert connection.answer()[::2] == (200, expected(body))
            assert connection.answer()[0] == 200
        connection.send(request_of(body))
        assert connection.answer()[::2] == (200, expected(body))


@pytest.mark.parametrize("n_rows", [1, 500, MANY])
@pytest.mark.parametrize(
    "junk",
    [
        b"XYZ\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx",
    ],
)
def test_what_is_no_http_is_refused_after_what_came_before_it(connect, expected, n_rows, junk):
    body = body_of(n_rows)
    get = b"GET /v2/models/shared/ready HTTP/1.1\r\nHost: here\r\n\r\n"
    for before in ([], [request_of(body_of())], [get]):
        with connect() as connection:
            connection.send(b"".join([*before, request_of(body), junk]))
            assert all(connection.answer()[0] == 200 for _ in before)
            assert connection.answer()[::2] == (200, expected(body))
            status, headers, content = connection.answer()
            assert (status, json.loads(content)["code"]) == (400, "malformed-request")
            assert headers[b"connection"] == b"close"
            assert connection.is_closed()


def test_a_body_that_ends_being_one_is_told(connect):
    head = b"POST /v1/jobs HTTP/1.1\r\nContent-Type: application/json\r\n"
    for ahead in (b"", b"GET /v2/models/shared/ready HTTP/1.1\r\nHost: here\r\n\r\n"):
        with connect() as connection:
            connection.send(ahead + head + b"Transfer-Encoding: chunked\r\n\r\n", b"xyz\r\n")
            if ahead:
                assert connection.answer()[0] == 200
            status, _, content = connection.answer()
            assert (status, json.loads(content)["code"]) == (400, "malformed-request")
            assert connection.is_closed()


def test_a_request_has_one_answer_whatever_becomes_of_its_body(connect):
    head = b"POST /v1/jobs HTTP/1.1\r\nContent-Type: text/x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with connect() as connection:
        connection.send(head, b"xyz\r\n", pause_s=0.3)
        assert connection.answer()[0] == 415
        assert connection.is_closed()


@pytest.mark.parametrize("header", ["X: " + 300_000 * "a", "\r\n".join(["X: a"] * 20_000)])
def test_a_head_is_bounded(connect, header):
    with connect() as connection:
        connection.send(f"GET /v1/models HTTP/1.1\r\n{header}\r\n".encode())
        with contextlib.suppress(OSError):  # it is refused before it is all there
            for _ in range(20):
                connection.send(header.encode() + b"\r\n")
            connection.send(b"\r\n")
        status, _, content = connection.answer()
        assert (status, json.loads(content)["code"]) == (431, "head-too-large")
    with connect() as connection:
        connection.send(request_of(body_of(), X=60_000 * "a"))
        assert connection.answer()[0] == 200
        connection.send(request_of(body_of(), X=66_000 * "a"))
        assert connection.answer()[0] == 431


def test_a_head_is_bounded_by_its_own_bytes(connect, expected):
    """Not by those of the requests before it, which may come in the same packet."""
    large, small = body_of(4000), body_of()
    ahead, behind = request_of(large), request_of(small, X_Other="1")
    for cut in (1, 20, len(behind) - len(small) - 1):
        with connect() as connection:
            connection.send(request_of(small) + ahead + behind[:cut], behind[cut:], pause_s=0.2)
            answers = [connection.answer()[::2] for _ in range(3)]
            assert answers == [(200, expected(body)) for body in (small, large, small)]
    calls = request_of(body_of(20)) * 2000
    with connect() as connection:
        sender = threading.Thread(target=connection.send, args=(calls,))
        sender.start()
        assert {connection.answer()[0] for _ in range(2000)} == {200}
        sender.join()


def test_a_connection_does_not_end_while_a_request_arrives(connect, expected):
    """The silence that ends it, of 5 s, begins with the answer to the request before."""
    bodies = [body_of(), body_of(MANY)]
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect()) for _ in bodies]
        for connection, body in zip(connections, bodies, strict=True):
            connection.send(request_of(body_of()) + request_of(body)[:-50])
        time.sleep(6)
        for connection, body in zip(connections, bodies, strict=True):
            connection.send(body[-50:])
            assert connection.answer()[::2] == (200, expected(body_of()))
            assert connection.answer()[::2] == (200, expected(body))
        started = time.monotonic()
        for connection in connections:
            assert connection.is_closed()
        assert 4.5 < time.monotonic() - started < 8


def test_callers_who_break_off_leave_no_defect_in_the_log(connect, service):
    for _ in range(10):
        with connect() as connection:
            connection.send(request_of(body_of(3000)) + request_of(body_of()) + b"XYZ\r\n\r\n")
    time.sleep(0.3)
    assert "defect" not in service.log()
    assert "Traceback" not in service.log()


def test_a_caller_who_goes_away_leaves_the_service_as_it_was(connect, expected):
    body = body_of(MANY)
    told = expected(body)
    for share in (0.01, 0.5, 0.999, 1.0):
        for _ in range(5):
            with connect() as connection:
                whole = request_of(body)
                connection.send(whole[: int(share * len(whole))])
    with connect() as connection:
        connection.send(request_of(body))
        assert connection.answer()[::2] == (200, told)


def test_headers_are_those_of_the_framework(connect):
    with connect() as connection:
        connection.send(request_of(body_of(), X_Request_Id="mine"))
        status, plain, _ = connection.answer()
        connection.send(request_of(body_of(), path=f"{PATH}?other=1", X_Request_Id="mine"))
        other_status, other, _ = connection.answer()
        connection.send(request_of(body_of(), X_Request_Id="not one"))
        made = connection.answer()[1][b"x-request-id"]
    assert (status, plain.keys()) == (other_status, other.keys())
    assert plain[b"x-request-id"] == b"mine"
    assert plain[b"content-type"] == other[b"content-type"] == b"application/json"
    assert len(made) == 32


def test_a_service_that_stops_answers_what_is_arriving(start_service):
    running = start_service()
    with Client(running.url) as client:
        data = client.upload({"north": np.random.default_rng(0).standard_normal((20, 5))})
        client.train(data, "pca", model="shared", k=2).wait()
    body = body_of(MANY)
    whole = request_of(body)
    with Caller(running) as connection:
        connection.send(whole[:100_000])
        time.sleep(0.5)
        os.kill(running.process.pid, signal.SIGTERM)
        time.sleep(0.5)
        connection.send(whole[100_000:])
        status, headers, content = connection.answer()
        assert (status, headers[b"connection"]) == (200, b"close")
        assert len(json.loads(content)["outputs"][0]["data"]) == 2 * MANY
        assert connection.is_closed()
    running.process.wait(20)


def test_a_key_in_use_is_looked_up_again_and_ends_when_it_is_revoked(start_service):
    key = "sib_" + "a" * 12 + "_" + "b" * 43
    running = start_service(SIBLING_REQUIRE_KEYS="true", SIBLING_FIRST_KEY=key)
    with Client(running.url, api_key=key) as client:
        data = client.upload({"north": np.random.default_rng(0).standard_normal((20, 5))})
        client.train(data, "pca", model="shared", k=2).wait()
    with Caller(running) as connection:

        def call():
            connection.send(request_of(body_of(), Authorization=f"Bearer {key}"))
            return connection.answer()[0]

        end = time.monotonic() + 5  # longer than what is known of a key stands
        while time.monotonic() < end:
            assert call() == 200
        with running.open_database() as database, database.write() as session:
            assert store.revoke(session, "a" * 12)
        deadline = time.monotonic() + 5
        while call() == 200:
            assert time.monotonic() < deadline
        connection.send(request_of(body_of(), Authorization=f"Bearer {key[:-1]}c"))
        assert connection.answer()[0] == 401


# --- the parts -----------------------------------------------------------------------------------


def test_memory_is_used_again_but_not_while_somebody_looks_at_it():
    bodies = Bodies()
    first = bodies.take()
    bodies.give_back(first)
    assert bodies.take() is first
    bodies.give_back(first)
    view = np.frombuffer(first, np.uint8)
    second = bodies.take()
    assert second is not first
    bodies.give_back(second)
    del view
    assert bodies.take() is second


def test_memory_that_is_kept_is_bounded():
    bodies = Bodies()
    lent = [bytearray(15 * 2**20) for _ in range(10)]
    for memory in lent:
        bodies.give_back(memory)
    bodies.give_back(bytearray(40 * 2**20))
    again = [bodies.take() for _ in range(10)]
    assert sum(any(memory is one for one in lent) for memory in again) == 4


@pytest.mark.parametrize("n_memory", [10, 1000, 5000])
@pytest.mark.parametrize("step", [7, 300, 10_000])
def test_a_body_has_no_more_memory_than_it_has_filled_twice(n_memory, step):
    data = np.random.default_rng(0).bytes(3000)
    body = LargeBody(bytearray(n_memory), len(data))
    body.put(data[:10])
    at = 10
    while not body.is_here():
        assert len(body.memory) <= max(2 * at, n_memory)
        free = body.free()
        n = min(step, len(free))
        free[:n] = data[at : at + n]
        free.release()
        body.fill(n)
        at += n
    assert bytes(body.memory) == data


def arrival_of(n_bytes):
    head = Head("/v2/models/{name}/infer", "me", "m", None, None, {})
    return Arrival(head, None, n_bytes, Clock())


@pytest.mark.parametrize(
    ("other", "n_body"),
    [
        (b"POST /x HTTP/1.1\r\nContent-Length: 12\r\nA: b\r\n\r\n" + b"x" * 12, 12),
        (b"POST /x HTTP/1.1\r\nContent-Length: 7\r\nA: b\r\n\r\n" + b"x" * 7, 7),
        (b"POST /x HTTP/1.1\r\nContent-Length: 0\r\nA: b\r\n\r\n", 0),
        (b"POST /x HTTP/1.1\r\nContent-Length: 8\r\nA: b\r\n\r\n" + b"x" * 7, None),
        (b"POST /x HTTP/1.1\r\nContent-Length: 6\r\nA: b\r\n\r\n" + b"x" * 7, None),
        (b"POST /x HTTP/1.1\r\nContent-Length: 7\r\nA: c\r\n\r\n" + b"x" * 7, None),
        (b"POST /y HTTP/1.1\r\nContent-Length: 7\r\nA: b\r\n\r\n" + b"x" * 7, None),
        (b"POST /x HTTP/1.1\r\nContent-Length: 7\r\nA: b\r\nC: d\r\n\r\n" + b"x" * 7, None),
        (b"POST /x HTTP/1.1\r\nContent-Length: +7\r\nA: b\r\n\r\n" + b"x" * 7, None),
        (b"POST /x HTTP/1.1\r\nContent-Length: 7 \r\nA: b\r\n\r\n" + b"x" * 7, None),
        (b"POST /x HTTP/1.1\r\nContent-Length: \r\nA: b\r\n\r\n", None),
        (b"POST /x HTTP/1.1\r\nContent-Length: ", None),
        (b"POST /x HT", None),
        (b"", None),
    ],
)
def test_a_head_is_known_again_by_every_byte_but_the_length(other, n_body):
    repeats = Repeats()
    assert repeats.match(memoryview(other)) is None
    first = b"POST /x HTTP/1.1\r\nContent-Length: 5\r\nA: b\r\n\r\nhello"
    repeats.note(memoryview(first), arrival_of(5))
    found = repeats.match(memoryview(other))
    assert (found is None) == (n_body is None)
    if found is not None:
        assert len(found[1]) == n_body


def test_two_requests_at_once_are_not_taken_for_one_head():
    repeats = Repeats()
    one = b"POST /x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"
    repeats.note(memoryview(one + one), arrival_of(5))
    assert repeats.match(memoryview(one)) is None


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_event_loop_receives_into_our_memory(run, monkeypatch):
    """It has a say in it: of some protocols it makes bytes of its own from what arrives."""
    received = []
    updated = CallProtocol.buffer_updated

    def note(protocol, nbytes):
        received.append(nbytes)
        updated(protocol, nbytes)

    monkeypatch.setattr(CallProtocol, "buffer_updated", note)
    app = Starlette()
    app.state.metrics = Metrics()
    app.state.calls = Calls(None, app.state.metrics, {})
    config = uvicorn.Config(app, log_config=None)
    config.load()

    async def ask():
        parts = {"config": config, "server_state": ServerState(), "app_state": {}}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(**parts), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"GET /none HTTP/1.1\r\nHost: here\r\n\r\n")
        status = await reader.readline()
        writer.close()
        server.close()
        return status

    assert b"404" in run(ask())
    assert received == [34]
