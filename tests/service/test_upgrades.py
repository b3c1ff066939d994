"""Requests that ask for another protocol are read and answered like any other (RFC 9110, 7.8)."""

import json
import shutil
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.service import raw
from tests.service.raw import head

LIVE = "/v2/health/live"
UPGRADES = {
    "h2c": ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"],
    "websocket": ["connection: UPGRADE", "upgrade: websocket", "Sec-WebSocket-Key: eDNKSEhNYg=="],
    "several": ["Upgrade: h2c, websocket", "Connection: keep-alive, Upgrade"],
}
ROWS = json.dumps({"task": "north", "inputs": [[1, 2, 3, 4, 5]]}).encode()
V2_ROWS = json.dumps(
    {
        "inputs": [{"name": "rows", "shape": [1, 5], "datatype": "FP64", "data": [1, 2, 3, 4, 5]}],
        "parameters": {"task": "north"},
    }
).encode()
TABLE = b"task,x\n" + b"".join(b"%c,%d\n" % (97 + i % 2, i) for i in range(40))
#: Requests with a body, by who reads it.
REQUESTS = {
    "upload": ("/v1/datasets?name=upgraded", "text/csv", TABLE),
    "fast path": ("/v1/models/shared/transform", "application/json", ROWS),
    "framework": ("/v1/models/shared/transform?&", "application/json", ROWS),
    "v2": ("/v2/models/shared/infer", "application/json", V2_ROWS),
}
TRANSFORM, JSON, _ = REQUESTS["fast path"]


def chunked(body, size):
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def framed(body, framing):
    """Return the headers of a body, and its bytes."""
    if "chunked" in framing:
        return ["Transfer-Encoding: chunked"], chunked(body, 1 + len(body) // 3)
    return [f"Content-Length: {len(body)}"], body


class Raw(raw.Raw):
    """A connection that asks for an upgrade."""

    def post(self, path, media_type, body, *headers, framing):
        """Return the response, or that to the head if it comes before the body is sent."""
        lines, data = framed(body, framing)
        start = head("POST", path, f"Content-Type: {media_type}", *lines, *headers)
        if "expect" in framing:
            self.socket.sendall(start[:-2] + b"Expect: 100-continue\r\n\r\n")
            first = self.response()
            if first[0] != 100:
                return first
            start = b""
        self.socket.sendall(start + data + head("GET", LIVE))
        return self.response()


@pytest.fixture
def address(service, model):
    """The address of a server that has a model."""
    del model
    return service.url


def comparable(response):
    """Return what two responses to equal requests have in common."""
    status, _, body = response
    return status, json.loads(body).get("id", body)


@pytest.mark.parametrize("framing", ["length", "chunked", "expect length", "expect chunked"])
@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.quick(5)
def test_a_body_is_read_and_the_request_behind_it_answered(address, upgrade, framing):
    for request in REQUESTS.values():
        with Raw(address) as raw:
            for _ in range(2):  # the second upload is the same dataset
                raw.post(*request, framing="length")
                raw.response()
            plain = raw.post(*request, framing=framing)
            assert plain[0] == 200
            assert raw.response()[0] == 200
            for _ in range(2):
                response = raw.post(*request, *UPGRADES[upgrade], framing=framing)
                assert comparable(response) == comparable(plain)
                assert raw.response()[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_large_body_is_read(address, framing):
    body = b"task,x\n" + TABLE.partition(b"\n")[2] * 50_000
    with Raw(address) as raw:
        ids = set()
        for headers in ([], UPGRADES["h2c"]):
            path = "/v1/datasets?name=large"
            status, _, answer = raw.post(path, "text/csv", body, *headers, framing=framing)
            assert status in (200, 201, 202)
            ids.add(json.loads(answer)["id"])
            assert raw.response()[0] == 200
    assert len(ids) == 1


@pytest.mark.slow
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_request_in_single_bytes_is_read(address, framing):
    lines, data = framed(ROWS, framing)
    request = head("POST", TRANSFORM, f"Content-Type: {JSON}", *lines, *UPGRADES["h2c"]) + data
    with Raw(address) as raw:
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            raw.socket.sendall(bytes([byte]))
        assert raw.response()[0] == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "CONNECT"])
def test_a_request_without_a_body_is_answered(address, method):
    path = "x://h/none" if method == "CONNECT" else "/none"
    with Raw(address) as raw:
        raw.socket.sendall(head(method, path, *UPGRADES["websocket"]) + head("GET", LIVE))
        status, headers, _ = raw.response()
        assert status in (404, 405)
        assert "upgrade" not in headers
        assert raw.response()[0] == 200


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_request_after_which_the_connection_closes_is_answered(address, version, framing):
    """The first version has a header for it, the second closes it anyway."""
    lines, data = framed(ROWS, framing)
    upgrade = [line.replace("Upgrade,", "close, Upgrade,") for line in UPGRADES["h2c"]]
    start = head("POST", TRANSFORM, f"Content-Type: {JSON}", *lines, *upgrade)
    with Raw(address) as raw:
        behind = head("GET", LIVE)
        raw.socket.sendall(start.replace(b"HTTP/1.1", f"HTTP/{version}".encode()) + data + behind)
        assert raw.response()[0] == 200
        assert raw.response() is None


@pytest.mark.slow
def test_many_upgrades_sent_ahead_are_answered_in_order(address):
    path, media_type, body = REQUESTS["fast path"]
    requests = []
    for i, framing in enumerate(["length", "chunked"] * 50):
        lines, data = framed(body if i % 3 else b"[]", framing)
        requests.append(head("POST", path, f"Content-Type: {media_type}", *lines, *UPGRADES["h2c"]))
        requests.append(data)
    with Raw(address) as raw:
        raw.socket.sendall(b"".join(requests))
        statuses = [raw.response()[0] for _ in range(100)]
    assert statuses == [200 if i % 3 else 422 for i in range(100)]


def test_a_body_is_not_taken_for_a_request(address):
    hidden = head("GET", "/none")
    expect = "Expect: 100-continue"
    with Raw(address) as raw:
        length = f"Content-Length: {len(hidden)}"
        upgrade = UPGRADES["h2c"]
        raw.socket.sendall(
            head("POST", TRANSFORM, f"Content-Type: {JSON}", length, expect, *upgrade)
        )
        assert raw.response()[0] == 100
        raw.socket.sendall(hidden + head("GET", LIVE))
        assert [raw.response()[0], raw.response()[0]] == [400, 200]


def test_a_broken_body_gets_400(address):
    with Raw(address) as raw:
        start = head("POST", TRANSFORM, f"Content-Type: {JSON}", "Transfer-Encoding: chunked",
                     *UPGRADES["h2c"])  # fmt: skip
        raw.socket.sendall(start + b"2\r\n{}\r\nno size\r\n")
        assert raw.response()[0] == 400
        assert raw.response() is None


def test_a_resumable_upload_takes_parts(service):
    """As the tus protocol has it: a beginning, two parts, and the state between them."""
    tus = {"Tus-Resumable": "1.0.0", "Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"}
    part = {**tus, "Content-Type": "application/offset+octet-stream"}
    begin = {**tus, "Upload-Length": str(len(TABLE)), "Upload-Metadata": "filetype dGV4dC9jc3Y="}
    with httpx.Client(base_url=service.url, timeout=60) as http:
        response = http.post("/v1/uploads?name=upgraded", headers=begin)
        assert response.status_code == 201
        url = response.headers["location"]
        half = len(TABLE) // 2
        for start, data in [(0, TABLE[:half]), (half, iter([TABLE[half:]]))]:  # the second chunked
            assert http.head(url, headers=tus).headers["upload-offset"] == str(start)
            sent = http.patch(url, content=data, headers={**part, "Upload-Offset": str(start)})
            assert sent.status_code == 204, sent.text
        dataset_id = http.get(url).json()["dataset_id"]
        csv = {"Content-Type": "text/csv"}
        whole = http.post("/v1/datasets?name=upgraded", content=TABLE, headers=csv)
        assert whole.json()["id"] == dataset_id


def test_the_preface_of_http_2_gets_400(service):
    before = len(service.log())
    with Raw(service.url) as raw:
        raw.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        status, headers, _ = raw.response()
        assert (status, headers["connection"]) == (400, "close")
        assert raw.response() is None
    assert "Traceback" not in service.log()[before:]


# --- clients -------------------------------------------------------------------------------------


def curl_has_http2():
    if shutil.which("curl") is None:
        return False
    about = subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True)
    return "HTTP2" in about.stdout


needs_curl = pytest.mark.skipif(not curl_has_http2(), reason="there is no curl with HTTP/2")


def curl(url, body, *options):
    """Send a body from a file, and return the response."""
    command = ["curl", "--silent", "--show-error", "--max-time", "60", "--http2", *options]
    command += ["--data-binary", "@-", "-H", f"Content-Type: {JSON}", url]
    return subprocess.run(command, input=body, capture_output=True, check=True).stdout


@needs_curl
@pytest.mark.parametrize("option", ["A: b", "Transfer-Encoding: chunked", "Expect: 100-continue"])
def test_curl_with_http_2_gets_a_transform(service, address, option):
    del address
    answer = curl(service.url + TRANSFORM, ROWS, "-H", option)
    assert json.loads(answer)["outputs"]


JAVA = """
import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.*;
import java.net.http.HttpRequest.BodyPublishers;
import java.util.Arrays;

class Main {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        byte[] rows = arguments[1].getBytes();
        byte[] large = Arrays.copyOf(rows, 4_000_000);
        Arrays.fill(large, rows.length, large.length, (byte) ' ');
        HttpRequest.BodyPublisher[] bodies = {
            BodyPublishers.ofByteArray(rows),
            BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(rows)),
            BodyPublishers.ofByteArray(large),
            BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(large))};
        for (boolean expect : new boolean[] {false, true})
            for (HttpRequest.BodyPublisher body : bodies) {
                HttpRequest request = HttpRequest.newBuilder(URI.create(arguments[0]))
                    .header("Content-Type", "application/json").expectContinue(expect)
                    .POST(body).build();
                var response = client.send(request, HttpResponse.BodyHandlers.ofString());
                System.out.println(response.statusCode() + " " + response.version());
            }
    }
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")  # takes 2 s to start
def test_the_default_client_of_java_gets_transforms(service, address, tmp_path):
    """Of known and unknown length, small and large, with and without waiting for 100."""
    del address
    (tmp_path / "Main.java").write_text(JAVA, encoding="utf-8")
    command = ["java", "Main.java", service.url + TRANSFORM, ROWS.decode()]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == ["200 HTTP_1_1"] * 8, ran.stderr


NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
    access_log off; client_max_body_size 0;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {
        listen unix:nginx.sock;
        location / {
            proxy_pass URL; proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection "upgrade";
        }
    }
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_with_the_lines_for_web_sockets_passes_bodies_on(
    service, address, tmp_path, monkeypatch, wait_until
):
    del address
    monkeypatch.chdir(tmp_path)  # the path of a socket has at most 107 letters
    (tmp_path / "nginx.conf").write_text(NGINX.replace("URL", service.url), encoding="utf-8")
    command = ["nginx", "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as nginx:
        try:
            wait_until(lambda: Path("nginx.sock").exists() or nginx.poll() is not None)
            for headers in ([], *UPGRADES.values()):
                with Raw("nginx.sock") as raw:
                    response = raw.post(TRANSFORM, JSON, ROWS, *headers, framing="length")
                    assert response[0] == 200
        finally:
            nginx.terminate()
