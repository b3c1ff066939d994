"""The fast path responds like the routes, and passes unusual requests on."""

import asyncio
import gzip
import json
import os
import re
import socket
import time
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from service.inference.handler import Reply
from service.observability.metrics import Metrics
from service.server.fast_path import FastPath
from service.settings import Settings
from sibling import Client
from tests.written import written

KEY = "sib_" + "a" * 12 + "_" + "b" * 43
KEYS = {
    "SIBLING_REQUIRE_KEYS": "true",
    "SIBLING_BOOTSTRAP_KEY": KEY,
    "SIBLING_MAX_BODY_BYTES": 200_000,
}
AUTH = {"Authorization": f"Bearer {KEY}"}
V1, V2 = "/v1/models/m/transform", "/v2/models/m/infer"
ROWS = np.array([[1.0, 2, 3, 4, 5], [6, 7, 8, 9, 10]])


def v1(**changes):
    return json.dumps({"task": "a", "inputs": ROWS.tolist(), **changes}).encode()


def v2(rows=ROWS, **changes):
    tensor = {
        "name": "rows",
        "shape": rows.shape,
        "datatype": "FP64",
        "data": rows.ravel().tolist(),
    }
    return json.dumps({"inputs": [tensor], "parameters": {"task": "a"}, **changes}).encode()


def v2_binary(rows=ROWS):
    tensor = {"name": "rows", "shape": rows.shape, "datatype": "FP64"}
    size = {"parameters": {"binary_data_size": rows.nbytes}}
    parameters = {"task": "a", "binary_data_output": True}
    header = json.dumps({"inputs": [tensor | size], "parameters": parameters}).encode()
    return header + rows.tobytes(), {"Inference-Header-Content-Length": str(len(header))}


def npy(rows=ROWS):

    return written(np.save, rows)


MANY = np.random.default_rng(0).standard_normal((1500, 5))
NPY, CSV = "application/x-npy", "text/csv"
#: Path, body and headers of POST requests.
CORPUS = [
    *((V1, body, {}) for body in (v1(), v1(task="b"), v1(inputs=[]), v1(inputs=MANY.tolist()))),
    *((V1, v1(), {"Accept": accept}) for accept in (NPY, CSV, "text/*", "*/*;q=0", "image/png")),
    *((V1, v1(), {"Content-Type": kind}) for kind in (NPY, CSV, "text/plain", "", "a/b; c")),
    *((V1, v1(), {"Accept-Encoding": coding}) for coding in ("gzip", "deflate", "gzip, br")),
    (V1, v1(inputs=MANY.tolist()), {"Accept-Encoding": "gzip"}),
    (V1, gzip.compress(v1()), {"Content-Encoding": "gzip"}),
    (V1, b"no gzip", {"Content-Encoding": "gzip"}),
    (V1, v1(), {"Content-Encoding": "br"}),
    (V1 + "?task=a", npy(), {"Content-Type": NPY}),
    (V1 + "?task=a", npy(), {"Content-Type": NPY, "Accept": NPY}),
    (V1, npy(), {"Content-Type": NPY}),
    (V1 + "?task=a", b"1,2,3,4,5\n", {"Content-Type": CSV}),
    (V1 + "?task=a", b"1,2,x,4,5\n", {"Content-Type": CSV}),
    (V1, v1(task=["a", "b"]), {}),
    (V1, v1(task=["a"]), {}),
    (V1, v1(task="none"), {}),
    (V1, v1(task=3), {}),
    (V1, v1(inputs=[[1, 2]]), {}),
    (V1, v1(inputs=[[1, 2, None, 4, 5]]), {}),
    (V1, v1(inputs=[["x"]]), {}),
    (V1, v1(other=1), {}),
    *((V1, body, {}) for body in (b"", b"{", b"[]", b"\xff", v1()[:-1], v1() + b"x", b"1e999")),
    (V1, b" " * 200_001, {}),
    (V1, b" " * 200_000, {}),
    *((f"/v1/models/{name}", v1(), {}) for name in ("none/transform", "m/predict", "m/none", "m")),
    *((f"/v1/models/m/versions/{n}/transform", v1(), {}) for n in ("1", "2", "0", "01", "x")),
    ("/v1/models/m@live/transform", v1(), {}),
    ("/v1/models/m@none/transform", v1(), {}),
    ("/v1/models/%6d/transform", v1(), {}),
    ("/v1/models/m%00/transform", v1(), {}),
    (f"/v1/models/{'m' * 101}/transform", v1(), {}),
    (V1 + "/", v1(), {}),
    *((V1 + query, v1(), {}) for query in ("?task=a", "?task=none", "?task=", "?other=1", "?")),
    (V1 + "?task=a&task=b", v1(), {}),
    (V1 + "?task=" + "x" * 500, v1(), {}),
    ("/v1/models/m/inverse-transform", v1(inputs=[[1, 2]]), {}),
    *((V2, body, {}) for body in (v2(), v2(MANY), v2(id="x"), v2(ROWS[:0]), b"", b"{}")),
    (V2, v2(outputs=[{"name": "transform"}]), {}),
    (V2, v2(outputs=[{"name": "none"}]), {}),
    (V2, v2(parameters={}), {}),
    (V2 + "?task=a", v2(parameters={}), {}),
    (V2, *v2_binary()),
    (V2, *v2_binary(MANY)),
    (V2, v2_binary()[0], {"Inference-Header-Content-Length": "999999"}),
    (V2 + "?task=a", ROWS.tobytes(), {"Inference-Header-Content-Length": "0"}),
    (V2, v2(), {"Content-Type": "text/plain"}),
    *((f"/v2/models/{name}/infer", v2(), {}) for name in ("m.transform", "m.none", "none")),
    ("/v2/models/m/versions/1/infer", v2(), {}),
    ("/v2/models/m/versions/7/infer", v2(), {}),
    *((V2, v2(), {"X-Request-Id": text}) for text in ("mine", "no id", "x" * 200)),
    *((V2, v2(), {"Authorization": text}) for text in ("", "Bearer", f"Bearer {KEY[:-1]}c", KEY)),
    (V2, v2(), {"Expect": "100-continue"}),
    (V2, v2(), {"Connection": "close"}),
]


@pytest.fixture(scope="module")
def front(launch_service):
    with launch_service(**KEYS) as service:
        with Client(service.url, api_key=KEY) as client:
            rng = np.random.default_rng(0)
            data = client.upload({name: rng.standard_normal((20, 5)) for name in "ab"})
            client.train(data, "pca", model="m", k=2).wait().set_alias("live")
        yield service


@pytest.fixture(scope="module")
def routes(front, server_template, tmp_path_factory):
    """Socket of another process on the same database, without the fast path."""
    folder = tmp_path_factory.mktemp("routes")
    data = {"SIBLING_DATABASE_URL": front.database_url, "SIBLING_DATA_DIR": folder}
    env = {**os.environ, **{name: str(value) for name, value in (KEYS | data).items()}}
    command = ["--factory", "service.server.app:create_app", "--http", "httptools", "--ws", "none"]
    command += ["--uds", str(folder / "socket")]
    with (
        (folder / "log").open("w") as log,
        server_template.start("uvicorn", command, env=env, log=log) as process,
    ):
        yield str(folder / "socket")
        process.terminate()
        process.wait(120)


def fetch(http, path, body, headers, method="POST"):
    """Return status, headers and body without the date and generated ids."""
    own = {"X-Request-Id": "same", "Content-Type": "application/json", **AUTH, **headers}
    given = {name: value for name, value in own.items() if value or name in headers}
    response = http.request(method, path, content=body, headers=given)
    found = [pair for pair in response.headers.multi_items() if pair[0] not in ("date", "server")]
    text = repr((response.status_code, sorted(found), response.content))
    return re.sub(r"\b[0-9a-f]{32}\b", "ID", text)


@pytest.fixture(scope="module")
def both(front, routes):
    with (
        httpx.Client(base_url=front.url, timeout=240) as first,
        httpx.Client(
            base_url=front.url, timeout=240, transport=httpx.HTTPTransport(uds=routes)
        ) as second,
    ):
        deadline = time.monotonic() + 240
        with socket.socket(socket.AF_UNIX) as probe:
            while probe.connect_ex(routes):
                assert time.monotonic() < deadline
                time.sleep(0.1)
        for http in (first, second):  # the API key is cached from here on
            assert http.post(V2, content=v2(), headers=AUTH).status_code == 200
        yield first, second


@pytest.mark.parametrize("number", range(len(CORPUS)))
def test_fast_path_and_routes_return_the_same_response(both, number):
    first, second = both
    expected = fetch(second, *CORPUS[number])
    # computed in a thread at first, on the event loop later
    assert {fetch(first, *CORPUS[number]) for _ in range(3)} == {expected}


def test_a_body_in_chunks_has_the_same_response(both):
    def parts(body):
        yield body[:10]
        yield body[10:]

    for path, body in ((V1, v1()), (V2, v2(MANY)), (V2, b" " * 300_000), (V2, b"")):
        first, second = (fetch(http, path, parts(body), {}) for http in both)
        assert first == second


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS", "HEAD"])
def test_other_http_methods_have_the_same_response(both, method):
    first, second = (fetch(http, V2, b"", {}, method) for http in both)
    assert first == second


def test_duplicate_headers_have_the_same_response(both):
    for name, values in (
        ("Accept", [NPY, CSV]),
        ("Content-Type", ["text/plain", "application/json"]),
        ("Authorization", [AUTH["Authorization"], "none"]),
    ):
        given = [("Authorization", AUTH["Authorization"])] if name != "Authorization" else []
        pairs = [*given, ("X-Request-Id", "x"), *((name, value) for value in values)]
        first, second = (http.post(V1, content=v1(), headers=pairs) for http in both)
        assert (first.status_code, first.content) == (second.status_code, second.content)
        assert first.headers["content-type"] == second.headers["content-type"]


# --- requests on the fast path -------------------------------------------------------------------


class Handler:
    """Fake handler that responds with the parsed request."""

    def __init__(self, _services, parsed, body, _clock):
        self._text = f"{parsed.name} {parsed.version} {parsed.task} {len(body)}".encode()

    async def run(self):
        return Reply(self._text, ((b"content-type", b"text/plain"),))

    def record_success(self):
        pass


@pytest.fixture
def app():
    framework = FastAPI()
    framework.state.metrics = Metrics()
    framework.state.authenticator = SimpleNamespace(cached_owner=lambda header, _: header)
    framework.state.settings = Settings(max_body_bytes=100, allowed_hosts="x, api.example")
    framework.state.inference = None
    framework.state.rate_limiter = None
    paths = ("/m/{name}/versions/{version}/infer", "/m/{name}/infer")
    return FastPath(framework, dict.fromkeys(paths, Handler))


def ask(app, url, *, method="POST", body=b"12345", headers=(("authorization", "me"),)):
    async def run():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            return await http.request(method, url, content=body, headers=list(headers))

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/m/a/infer", "a None None 5"),
        ("/m/a.b@c/infer?task=t", "a.b@c None t 5"),
        ("/m/a/versions/12/infer", "a 12 None 5"),
    ],
)
def test_ordinary_requests_use_the_fast_path(app, url, expected):
    response = ask(app, url)
    assert (response.status_code, response.text) == (200, expected)
    assert len(response.headers["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("url", "how"),
    [
        ("/m/a/infer", {"method": "GET"}),
        ("/m/a/infer", {"headers": ()}),
        ("/m/a/infer?other=1", {}),
        ("/m/a/infer?task=%20", {}),
        ("/m/%61/infer", {}),
        ("/m/a/versions/0/infer", {}),
        ("/m/a/infer?task=" + 500 * "x", {}),
        ("/n/a/infer", {}),
    ],
)
def test_unusual_requests_are_passed_to_the_framework(app, url, how):
    assert ask(app, url, **how).status_code == 404  # the framework has no routes here


def test_a_request_is_counted_once_its_response_is_sent(app, monkeypatch):
    events = []
    monkeypatch.setattr(Handler, "record_success", lambda _: events.append("counted"))

    async def receive():
        return {"type": "http.request", "body": b"12345"}

    async def send(message):
        events.append(message["type"])

    asyncio.run(app(scope_of("/m/a/infer"), receive, send))
    assert events == ["http.response.start", "http.response.body", "counted"]


# --- cached URLs, origins and hosts -------------------------------------------------------------


def test_urls_are_cached_only_for_callers_with_a_key_and_only_short_ones(app):
    ask(app, "/m/stranger/infer", headers=())
    assert app._match.cache_info().currsize == 0
    for i in range(3000):
        app._parse(scope_of(f"/m/m{i}/infer"))
    assert app._match.cache_info().currsize == 1024
    app._match.cache_clear()
    assert app._parse(scope_of("/m/a/infer", task="t" * 60_000)) is None
    assert app._match.cache_info().currsize == 0


def scope_of(path, task=None, **headers):
    headers = {"host": "x", "authorization": "me", **headers}
    return {
        "type": "http",
        "method": "POST",
        "raw_path": path.encode(),
        "query_string": b"" if task is None else b"task=" + task.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


@pytest.mark.parametrize("headers", [{"origin": "http://x"}, {"host": "evil.example"}])
def test_origins_and_unknown_hosts_are_left_to_the_framework(app, headers):
    assert app._parse(scope_of("/m/a/infer")) is not None
    assert app._parse(scope_of("/m/a/infer", host="API.example:8000")) is not None
    assert app._parse(scope_of("/m/a/infer", **headers)) is None
