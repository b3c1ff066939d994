"""Connections that are silent, slow, huge or many: they end, and the service responds to others."""

import asyncio
import contextlib
import itertools
import json
import re
import socket
import time

import httpx
import numpy as np
import psutil
import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from service.server.connections import MAX_DISCARDED_BYTES, MAX_HEAD_BYTES, MAX_PIPELINED
from service.server.upgrades import Http1Protocol
from sibling import Client
from tests.service.raw import Raw, head

MIB = 1024 * 1024
LIMIT_S = 2
LIMITS = {
    "SIBLING_HEADER_TIMEOUT_S": LIMIT_S,
    "SIBLING_BODY_TIMEOUT_S": LIMIT_S,
    "SIBLING_SEND_TIMEOUT_S": LIMIT_S,
    "SIBLING_KEEP_ALIVE_TIMEOUT_S": LIMIT_S,
    "SIBLING_WORKER_SLOTS": 1,
}
#: Parameters of a job that runs until it is cancelled.
LONG = {"k": 5, "selection": "cv", "n_folds": 20, "starts": "many", "rtol": 1e-13}
LIVE = "/v2/health/live"
#: Requests with a body, by who reads it: a control route, the fast path, the framework, an upload.
BODIES = {
    "control": ("/v2/repository/index", "application/json", b'{"ready": false}'),
    "fast path": ("/v1/models/shared/transform", "application/json", b'{"inputs": "none"}'),
    "framework": (
        "/v1/models/shared/transform?&",
        "application/json",
        b'{"inputs": "none"}',
    ),
    "upload": ("/v1/datasets?name=d", "text/csv", b"task,x\na,1\na,2\nb,3\nb,4\n"),
}


def send_all_it_takes(raw, data):
    """Send until the server has ended the connection."""
    with contextlib.suppress(OSError):
        raw.send(data)


def many_tasks():
    rng = np.random.default_rng(0)
    return {f"task {t}": rng.normal(size=(40, 24)) for t in range(500)}


@pytest.fixture(scope="module")
def strict(launch_service):
    """A server with short time limits."""
    with launch_service(**LIMITS) as running:
        yield running


def assert_is_timeout(response):
    status, headers, body = response
    assert (status, headers["connection"]) == (408, "close")
    assert b'"request-timeout"' in body


# --- time ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_silent_connection_is_closed(strict):
    with Raw(strict.url) as raw:
        assert raw.is_ended()


@pytest.mark.parametrize("before", [b"", head("GET", LIVE)])
@pytest.mark.quick(1)
def test_a_head_that_stops_gets_408(strict, before):
    with Raw(strict.url) as raw:
        if before:
            raw.send(before)
            assert raw.response()[0] == 200
        raw.send(head("GET", LIVE)[:-9])
        assert_is_timeout(raw.response())
        assert raw.is_ended()


@pytest.mark.slow  # waits
def test_a_head_of_single_bytes_gets_408(strict):
    """A byte now and then does not prolong the time of a head."""
    with Raw(strict.url) as raw:
        raw.send(b"GET / HTTP/1.1\r\na: ")
        raw.socket.settimeout(0.1)
        deadline = time.monotonic() + 30
        while True:
            assert time.monotonic() < deadline
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                raw.send(b"x")
            with contextlib.suppress(TimeoutError):
                raw.socket.recv(1, socket.MSG_PEEK)
                break
        raw.socket.settimeout(60)
        assert raw.socket.recv(12) == b"HTTP/1.1 408"


@pytest.mark.slow
def test_a_connection_between_two_requests_is_closed(strict):
    with Raw(strict.url) as raw:
        for _ in range(2):
            raw.send(head("GET", LIVE))
            assert raw.response()[0] == 200
        assert raw.is_ended()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "is_chunked", "n_bytes"),
    [(reader, bool(i % 2), i // 2 * 3) for i, reader in enumerate(BODIES)],
)
def test_a_body_that_stops_gets_408(strict, reader, is_chunked, n_bytes):
    path, media_type, body = BODIES[reader]
    length = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 1000"
    start = body[:n_bytes]
    if is_chunked and start:
        start = b"%x\r\n%b\r\n" % (n_bytes, start)
    with Raw(strict.url) as raw:
        # the fast path has to know the caller, and handles the second request
        for _ in range(2 if reader == "fast path" else 1):
            raw.send(head("POST", path, f"Content-Type: {media_type}", "Content-Length: 2") + b"{}")
            assert raw.response()[0] >= 200
        raw.send(head("POST", path, f"Content-Type: {media_type}", length) + start)
        assert_is_timeout(raw.response())
        assert raw.is_ended()


@pytest.mark.slow
def test_the_end_of_a_slow_upload_leaves_nothing_behind(strict, uploads_to, wait_until):
    uploads = uploads_to(strict)
    before = uploads.traces()
    with Raw(strict.url) as raw:
        start = b"task,x\n" + b"a,1\n" * 200_000
        media_type, length = "Content-Type: text/csv", f"Content-Length: {2 * len(start)}"
        raw.send(head("POST", "/v1/datasets?name=slow", media_type, length) + start)
        assert_is_timeout(raw.response())

    def is_as_before():  # or has less, as an earlier upload was still removed
        return all(set(left) <= set(before[name]) for name, left in uploads.traces().items())

    wait_until(is_as_before)


@pytest.mark.slow
def test_a_slow_but_steady_body_passes(strict):
    """Longer than the limit as a whole, but there is never a pause of this length."""
    path, media_type, body = BODIES["control"]
    with Raw(strict.url) as raw:
        length = f"Content-Length: {len(body)}"
        raw.send(head("POST", path, f"Content-Type: {media_type}", length))
        for byte in body:
            time.sleep(1.5 * LIMIT_S / len(body))
            raw.send(bytes([byte]))
        assert raw.response()[0] == 200


@pytest.mark.slow
def test_streams_and_long_polls_are_longer_than_all_limits(strict):
    with Client(strict.url) as client:
        data = client.upload(many_tasks())
        job = client.train(data, "rmt-pca", model="long", **LONG)
        with Raw(strict.url) as poll, Raw(strict.url) as stream:
            poll.send(head("GET", f"/v1/jobs/{job.id}?wait={3 * LIMIT_S}"))
            stream.send(head("GET", f"/v1/jobs/{job.id}/events", "Accept: text/event-stream"))
            assert poll.response()[0] == 200
            assert stream.file.readline() == b"HTTP/1.1 200 OK\r\n"
            job.cancel()
            assert b"cancelled" in b"".join(iter(stream.file.readline, b"0\r\n"))


@pytest.mark.slow
def test_a_client_that_does_not_read_is_disconnected(strict, wait_until):
    with Raw(strict.url) as raw:
        port = raw.socket.getsockname()[1]
        send_all_it_takes(raw, head("GET", "/openapi.json") * 200)

        def is_held():
            found = psutil.Process(strict.process.pid).net_connections("tcp4")
            return any(c.raddr and c.raddr.port == port for c in found)

        wait_until(is_held)  # the server may accept it late
        wait_until(lambda: not is_held(), seconds=60)


# --- size ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_url", [False, True])
def test_a_large_head_gets_431(strict, in_url):
    def large(n_bytes):
        text = "x" * n_bytes
        return head("GET", f"{LIVE}?{text}") if in_url else head("GET", LIVE, f"A: {text}")

    with Raw(strict.url) as raw:
        raw.send(large(MAX_HEAD_BYTES - 200))
        assert raw.response()[0] == 200
        raw.send(large(MAX_HEAD_BYTES))
        status, headers, body = raw.response()
        assert (status, headers["connection"]) == (431, "close")
        assert b'"headers-too-large"' in body
        assert raw.is_ended()


def test_a_body_that_comes_with_its_head_may_be_larger(strict):
    path, media_type, body = BODIES["control"]
    body = body.ljust(4 * MAX_HEAD_BYTES)
    with Raw(strict.url) as raw:
        for _ in range(3):
            length = f"Content-Length: {len(body)}"
            raw.send(head("POST", path, f"Content-Type: {media_type}", length) + body)
            assert raw.response()[0] == 200


@pytest.mark.parametrize("path", [BODIES["control"][0], "/none"])
def test_trailers_are_limited(strict, path):
    """Whether the application reads the body or has already responded."""
    chunked = "Content-Type: application/json", "Transfer-Encoding: chunked"
    process = psutil.Process(strict.process.pid)
    with Raw(strict.url) as raw:
        raw.send(head("POST", path, *chunked) + b"2\r\n{}\r\n0\r\n")
        before = process.memory_info().rss
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            raw.send(b"a: b\r\n" * (50 * MIB // 6))
        assert process.memory_info().rss - before < 100 * MIB


@pytest.mark.slow  # waits
def test_chunks_of_single_bytes_pass(strict):
    path, media_type, body = BODIES["control"]
    body = body.ljust(200_000)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\nlast: 1\r\n\r\n"
    chunked = f"Content-Type: {media_type}", "Transfer-Encoding: chunked"
    with Raw(strict.url) as raw:
        raw.send(head("POST", path, *chunked) + chunks)
        assert raw.response()[0] == 200
        raw.send(head("GET", LIVE))
        assert raw.response()[0] == 200


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_nobody_reads_is_skipped(strict, is_chunked):
    size = 500_000
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    body = b"x" * size
    with Raw(strict.url) as raw:
        raw.send(head("POST", "/none", length))
        assert raw.response()[0] == 404
        raw.send(b"%x\r\n%b\r\n0\r\n\r\n" % (size, body) if is_chunked else body)
        raw.send(head("GET", LIVE))
        assert raw.response()[0] == 200


# --- bodies that are refused ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(launch_service):
    """A server that takes no large bodies, and waits for the rest of a refused one for a while."""
    limits = ("BODY", "CONTROL_BODY", "UPLOAD")
    with launch_service(**{f"SIBLING_MAX_{name}_BYTES": 1000 for name in limits}) as running:
        yield running


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("reader", BODIES)
def test_whoever_sends_a_body_that_is_too_large_gets_the_response(small, reader, is_chunked):
    """The connection was reset, which removes a response that the client has not read."""
    path, media_type, _ = BODIES[reader]
    size = 40 * MIB
    length = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {size}"
    body = b" " * size
    with Raw(small.url) as raw:
        raw.send(head("POST", path, f"Content-Type: {media_type}", length))
        raw.send(b"%x\r\n%b\r\n0\r\n\r\n" % (size, body) if is_chunked else body)
        status, headers, content = raw.response()
        assert (status, headers["connection"]) == (413, "close")
        assert json.loads(content)["code"] in ("body-too-large", "too-large")
        assert raw.is_ended()


def test_clients_get_the_response_to_a_body_that_is_too_large(small):
    for _ in range(10):
        answer = httpx.post(f"{small.url}/v2/models/shared/infer", content=b" " * (40 * MIB))
        assert answer.status_code == 413


def test_a_large_head_can_be_sent_whole(small):
    with Raw(small.url) as raw:
        raw.send(head("GET", "/", f"X-Large: {'x' * 4 * MIB}"))
        assert raw.response()[0] == 431


@pytest.mark.slow
def test_a_refused_body_is_read_for_a_limited_time_and_size(strict, wait_until):
    endless = head("POST", "/v1/jobs", "Content-Type: application/json", f"Content-Length: {2**40}")

    def is_closed(raw):
        try:
            raw.send(b" ")
        except OSError:
            return True
        return False

    with Raw(strict.url) as slow, Raw(strict.url) as fast:
        for raw in (slow, fast):
            raw.send(endless)
            assert raw.response()[0] == 413
            assert raw.is_ended()  # there are no further responses
        with pytest.raises(OSError, match=r"reset|pipe"):
            fast.send(bytes(MAX_DISCARDED_BYTES + 100 * MIB))
        wait_until(lambda: is_closed(slow))


# --- unusual requests ----------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "target"), [("GET", "http://x"), ("CONNECT", "x:1")])
def test_a_target_without_a_path_gets_400(strict, method, target):
    with Raw(strict.url) as raw:
        raw.send(head(method, target))
        status, headers, _ = raw.response()
        assert (status, headers["connection"]) == (400, "close")
        assert raw.is_ended()


@pytest.mark.slow  # sends many requests
def test_many_requests_for_an_upgrade_are_plain_requests(strict):
    with Raw(strict.url) as raw:
        for _ in range(3000):
            raw.send(head("GET", LIVE, "Connection: Upgrade", "Upgrade: websocket"))
            assert raw.response()[0] == 200


def test_an_upgrade_with_close_closes(strict):
    with Raw(strict.url) as raw:
        raw.send(head("GET", LIVE, "Connection: Upgrade, close", "Upgrade: h2c"))
        status, headers, _ = raw.response()
        assert (status, headers["connection"]) == (200, "close")
        assert raw.is_ended()


def test_requests_sent_ahead_are_answered_in_order(strict):
    path, media_type, body = BODIES["control"]
    body = body.ljust(100_000)
    post = head("POST", path, f"Content-Type: {media_type}", f"Content-Length: {len(body)}") + body
    requests = [head("GET", LIVE), post, head("GET", "/none"), post, head("GET", LIVE)]
    with Raw(strict.url) as raw:
        raw.send(b"".join(requests))
        assert [raw.response()[0] for _ in requests] == [200, 200, 404, 200, 200]


@pytest.mark.slow
def test_a_limited_number_of_requests_can_be_sent_ahead(strict):
    with Raw(strict.url) as raw:
        raw.send(head("GET", LIVE) * MAX_PIPELINED)
        assert {raw.response()[0] for _ in range(MAX_PIPELINED)} == {200}
        send_all_it_takes(raw, head("GET", LIVE) * 50_000)
        with contextlib.suppress(ConnectionResetError):
            while raw.response() is not None:
                pass
        assert raw.is_ended()


# --- number --------------------------------------------------------------------------------------


def is_alive(service):
    with Raw(service.url) as raw:
        raw.send(head("GET", LIVE))
        return raw.response()[0] == 200


@pytest.mark.slow
def test_health_checks_get_in_beside_more_silent_connections_than_open_files(start_replica):
    service = start_replica(n_files=512)
    with contextlib.ExitStack() as stack:
        half = head("GET", LIVE)[:-9]
        for start, _ in zip(itertools.cycle([b"", half]), range(600), strict=False):
            send_all_it_takes(stack.enter_context(Raw(service.url)), start)
            assert is_alive(service)
        assert psutil.Process(service.process.pid).num_fds() < 512


@pytest.mark.slow
def test_health_checks_get_in_beside_as_many_requests_as_possible(start_replica):
    path, media_type, _ = BODIES["control"]
    start = head("POST", path, f"Content-Type: {media_type}", "Content-Length: 9") + b"["
    service = start_replica(SIBLING_MAX_CONNECTIONS=30)
    with contextlib.ExitStack() as stack:
        for _ in range(27):
            stack.enter_context(Raw(service.url)).send(start)
            assert is_alive(service)
        for _ in range(10):
            raw = stack.enter_context(Raw(service.url))
            raw.send(start)
            status, headers, body = raw.response()
            assert (status, headers["retry-after"]) == (503, "1")
            assert b"requests in progress" in body
            assert is_alive(service)


@pytest.mark.slow
def test_event_streams_of_an_owner_take_a_quarter_of_the_connections(start_replica):
    service = start_replica(SIBLING_MAX_CONNECTIONS=40)
    with Client(service.url) as client, contextlib.ExitStack() as stack:
        data = client.upload(many_tasks())
        job = client.train(data, "rmt-pca", model="long", **LONG)
        request = head("GET", f"/v1/jobs/{job.id}/events", "Accept: text/event-stream")
        statuses = []
        for _ in range(12):
            raw = stack.enter_context(Raw(service.url))
            raw.send(request)
            statuses.append(int(re.match(rb"HTTP/1.1 (\d+)", raw.file.readline())[1]))
        assert statuses == [200] * 10 + [429] * 2
        job.cancel()


@pytest.mark.slow
def test_a_stop_waits_for_requests_but_not_for_idle_connections(start_replica):
    service = start_replica()
    path, media_type, body = BODIES["control"]
    with Raw(service.url), Raw(service.url) as half, Raw(service.url) as raw:
        half.send(head("GET", LIVE)[:-9])
        length = f"Content-Length: {len(body)}"
        expect = "Expect: 100-continue"  # tells that the application waits for the body
        raw.send(head("POST", path, f"Content-Type: {media_type}", length, expect))
        assert raw.file.readline() == b"HTTP/1.1 100 Continue\r\n"
        raw.file.readline()
        service.process.terminate()
        assert half.is_ended()
        raw.send(body)
        assert raw.response()[0] == 200
        assert raw.is_ended()
        assert service.process.wait(120) == 0


# --- interface of uvicorn ------------------------------------------------------------------------


def test_uvicorn_has_the_interface_that_limits_rely_on():
    """Otherwise an upgrade of uvicorn could switch limits off without an error."""
    states = []

    async def app(scope, receive, send):
        del receive
        states.append(scope["state"])
        empty = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": empty})
        await send({"type": "http.response.body"})

    async def check():
        config = Config(app, lifespan="off", ws="none", log_config=None)
        config.load()
        server = ServerState()
        protocol = Http1Protocol(config, server, {"shared": 1})
        request = head("GET", LIVE)
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, ours)
        protocol.data_received(request[:-1])
        assert not server.tasks
        protocol.data_received(request[-1:] + 2 * request)
        assert len(server.tasks) == 1  # at once, which ends the time of a head
        assert len(protocol.pipeline) == 2
        assert protocol.cycle.more_body is False  # nothing of the first request is missing
        assert protocol.headers == [(b"host", b"localhost")]
        reader, writer = await asyncio.open_connection(sock=theirs)
        for _ in range(3):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        transport.close()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        assert states == [{"shared": 1}] * 3

    asyncio.run(asyncio.wait_for(check(), 60))
