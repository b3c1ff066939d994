"""Every route keeps the same conventions, whatever it is sent."""

import base64
import json
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from uuid import uuid4

import httpx
import pytest
from pydantic import ValidationError

from service.errors.codes import ERRORS
from service.errors.problems import Problem
from service.http.idempotency import fingerprint
from service.jobs.limits import check_limits, limits_of
from service.jobs.spec_schemas import JobLimits
from service.settings import Settings
from tests.service.raw import Raw
from tests.service.stored import dataset_row

ROOT = "/v1/jobs"
LISTS = [
    "/v1/algorithms",
    "/v1/datasets",
    ROOT,
    "/v1/models",
    "/v1/models/shared/versions",
    "/v1/models/shared/aliases",
    "/v1/models/shared/plots",
]
needs_model = pytest.mark.usefixtures("model")


def each_once(places, values):
    """Return each value at the first place, and the first value at the other ones.

    All places have the same code; what fails for one value at one of them fails at each.
    """
    return [(places[0], value) for value in values] + [(place, values[0]) for place in places[1:]]


@pytest.fixture(scope="module")
def spec(dataset):
    return {
        "dataset_id": dataset.id,
        "algorithm": "pca",
        "model": "conventions",
        "params": {"k": 1},
    }


def assert_problem(response, status, code=None):
    """Check every member of an error response and return its body."""
    assert response.status_code == status, response.text
    body = response.json()
    if response.request.url.path.startswith("/v2"):
        assert response.headers["content-type"] == "application/json"
        assert body.pop("error") == body["detail"]
    else:
        assert response.headers["content-type"] == "application/problem+json"
    common = {"type", "title", "status", "code", "detail", "remedy", "request_id", "errors"}
    assert body.keys() == common
    assert body["remedy"] == ERRORS[body["code"]].remedy
    spec = ERRORS[body["code"]]
    assert (body["status"], body["title"]) == (status, spec.title)
    assert spec.status == status
    assert body["type"] == f"urn:sibling:error:{body['code']}"
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["detail"]
    assert all(entry["code"] and entry["detail"] for entry in body["errors"])
    if code is not None:
        assert body["code"] == code
    return body


def post(http, path, content, content_type="application/json", **headers):
    return http.post(path, content=content, headers={"Content-Type": content_type, **headers})


# --- paths and methods ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "/v1/models/",
        "/v1/jobs/job_1/",
        "/v1/models/%ff",
        "/v1/models/a%2Fb",
        "/v1/models/%E6%97%A5%E6%9C%AC",
        "/v1/models/..%2f..%2fetc",
        "/v1/jobs/%F0%9F%92%A9",
        "/v1/datasets/ds_unknown",
        "/v1/datasets/ds_unknown/manifest",
        "/v1/jobs/job_unknown/events",
        "/v1/models/none/versions",
        "/v1/models/none/versions/1",
        "/v1/models/none/versions/1/history",
        "/v1/models/none/versions/1/artifact",
        "/v1/models/none/versions/1/nothing",
        "/v1/models/none/history",
        "/v1/models/none/aliases",
        "/v1/models/shared/aliases/none",
        "/v1/models/shared@none",
        "/v1/models/shared@none/report",
        "/v1/models/shared@none/versions/1",
        "/v1/models/shared@",
        "/v1/models/@shared",
        "/v1/models/none/nothing",
        "/v1//jobs",
    ],
)
def test_an_unknown_path_or_id_is_404(http, path):
    assert_problem(http.get(path), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/jobs", "GET, HEAD, OPTIONS, POST"),
        ("DELETE", "/v1/datasets", "GET, HEAD, OPTIONS, POST"),
        ("POST", "/v1/datasets/ds_1", "DELETE, GET, HEAD, OPTIONS"),
        ("PATCH", "/v1/jobs/job_1", "DELETE, GET, HEAD, OPTIONS"),
        ("PUT", "/v1/models/m/versions/1", "DELETE, GET, HEAD, OPTIONS"),
        ("POST", "/v1/models/m/versions/1", "DELETE, GET, HEAD, OPTIONS"),
        ("DELETE", "/v1/models/m/versions", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/models/m/versions", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/models/m/aliases/a", "DELETE, GET, HEAD, OPTIONS, PUT"),
        ("GET", "/v1/models/m/transform", "OPTIONS, POST"),
        ("DELETE", "/v1/models/m/versions/1/inverse-transform", "OPTIONS, POST"),
        ("PUT", "/v1/algorithms/pca", "GET, HEAD, OPTIONS"),
        ("POST", "/v2/health/live", "GET, HEAD, OPTIONS"),
        ("POST", "/", "GET, HEAD, OPTIONS"),
        ("PROPFIND", "/v1/jobs", "GET, HEAD, OPTIONS, POST"),
        ("GET", "/v1/jobs/job_1:cancel", "OPTIONS, POST"),
        ("DELETE", "/v1/jobs:infer", "OPTIONS, POST"),
    ],
)
def test_a_wrong_method_is_405_with_every_method_of_the_path(http, method, path, allowed):
    response = http.request(method, path)
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize(
    "request_of",
    [
        b"BREW /v1/jobs HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /v1/jobs HTTP/1.1\r\nHost a\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_invalid_http_is_answered_before_the_connection_closes(service, request_of):
    with Raw(service.url, 10) as raw:
        raw.send(request_of)
        answer = raw.file.read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"content-length: {len(body)}".encode() in head


def test_a_slash_at_the_end_redirects_or_is_named(http):
    for path in ("/jobs/?page_size=1", "/models/shared//", "/docs/", "/openapi.json/"):
        bare = path.replace("/?", "?").rstrip("/")
        answer = http.get(path, headers={"Accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (308, bare)
        assert http.get(bare).status_code == 200
    for method, path in (("GET", "/v1/jobs"), ("POST", "/v2/models/shared/infer")):
        answer = http.request(method, f"{path}/")
        assert_problem(answer, 404, "not-found")
        assert f"at {path}, without the slash" in answer.json()["detail"]
    assert "without the slash" not in http.get("/v2/models/").json()["detail"]  # no path either
    for path in ("//evil.example/", "//evil.example/v1/jobs/", "/%2Fevil.example/"):
        assert http.get(httpx.URL(f"{http.base_url}".rstrip("/") + path)).status_code == 404


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", 0, 400), ("1.1", 2, 400), ("1.1", 1, 200), ("1.0", 0, 200)],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/models/shared/transform?task=north"])
def test_a_request_has_one_host(service, model, version, hosts, status, path):
    del model
    body = b"0,0,0,0,0\n" if "transform" in path else b""
    method = "POST" if body else "GET"
    head = [f"{method} {path} HTTP/{version}", *["Host: localhost"] * hosts]
    head += ["Content-Type: text/csv", f"Content-Length: {len(body)}", "Connection: close"]
    with Raw(service.url) as raw:
        raw.send("\r\n".join([*head, "", ""]).encode() + body)
        answer = raw.file.read()
    assert int(answer.split()[1]) == status, answer
    assert (b'"bad-host"' in answer) == (status == 400)


RANGES = {
    "bytes=0-9": (206, slice(0, 10)),
    "bytes=5-": (206, slice(5, None)),
    "bytes=-7": (206, slice(-7, None)),
    "bytes=3-99999999": (206, slice(3, None)),
    "bytes=-99999999": (206, slice(None)),
    "bytes=99999999-": (416, None),
    "bytes=-0": (416, None),
    "bytes=9-3": (200, slice(None)),
    "bytes=0-1,4-5": (200, slice(None)),
    "bytes=-": (200, slice(None)),
    "lines=0-9": (200, slice(None)),
}


def check_ranges(http, path):
    whole = http.get(path)
    assert whole.headers["accept-ranges"] == "bytes"
    for text, (status, part) in RANGES.items():
        answer = http.get(path, headers={"Range": text})
        assert answer.status_code == status, text
        if part is None:
            assert answer.headers["content-range"] == f"bytes */{len(whole.content)}"
            assert answer.json()["code"] == "range-not-satisfiable"
            continue
        assert answer.content == whole.content[part]
        start = part.indices(len(whole.content))[0]
        last = start + len(answer.content) - 1
        expected = f"bytes {start}-{last}/{len(whole.content)}" if status == 206 else None
        assert answer.headers.get("content-range") == expected
    for tag, status in ((whole.headers["etag"], 206), ('"other"', 200)):
        ranged = {"Range": "bytes=0-9", "If-Range": tag}
        assert http.get(path, headers=ranged).status_code == status


def test_a_part_of_an_artifact_can_be_downloaded(http):
    check_ranges(http, "/v1/models/shared/artifact")
    check_ranges(http, "/v1/models/shared/versions/1/artifact")


def test_a_part_of_outputs_can_be_downloaded(http, client, model, dataset):
    job = client.infer(model, "transform", dataset)
    job.wait()
    check_ranges(http, f"/v1/jobs/{job.id}/output")


def test_options_lists_the_methods(http):
    response = http.options("/v1/jobs")
    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert_problem(http.options("/nothing"), 404)


@pytest.mark.parametrize("path", ["/v1/jobs/job_1:cancel", "/v1/jobs:infer"])
def test_options_of_a_custom_verb_does_not_list_methods_of_the_resource(http, path):
    assert http.options(path).headers["allow"] == "OPTIONS, POST"


def test_an_unknown_verb_is_404(http):
    assert_problem(http.post("/v1/jobs/job_1:restart"), 404, "not-found")
    assert_problem(http.options("/v1/jobs/job_1:restart"), 404, "not-found")


@pytest.mark.parametrize("path", ["/", "/v1/jobs", "/v1/algorithms/pca", "/nothing", "/docs"])
def test_head_is_get_without_the_body(http, path):
    head, get = http.head(path), http.get(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.headers["content-length"] == get.headers["content-length"]


def test_head_of_a_stream_ends_at_once(http, client, dataset):
    job = client.train(dataset, "pca", model="conventions")
    path = f"/v1/jobs/{job.id}/events"
    response = http.head(path, headers={"Accept": "text/event-stream"}, timeout=5)
    assert response.headers["content-type"].startswith("text/event-stream")
    job.wait()


# --- request ids ---------------------------------------------------------------------------------


def test_a_request_id_is_echoed_or_generated(http):
    assert http.get(ROOT, headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    made = [http.get("/nothing") for _ in range(2)]
    assert len({response.headers["x-request-id"] for response in made}) == 2


@pytest.mark.parametrize("given", [b"a b", b"", b"x" * 129, b"\xff", b"a\tb", b"%0d%0aA: b c"])
def test_an_invalid_request_id_is_replaced(http, given):
    response = http.get(ROOT, headers={"X-Request-Id": given})
    assert re.fullmatch(r"[0-9a-f]{32}", response.headers["x-request-id"])


# --- bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"seed": NaN}',
        b'{"seed": Infinity}',
        b'{"seed": -Infinity}',
        b'{"seed": 1e999}',
        b'{"model": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"model": "\xff"}',
        b'{"model": "a\x00b"}',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b"[" * 500 + b"]" * 500,
        b'{"params":' * 200 + b"1" + b"}" * 200,
        b"{'seed': 1}",
        b'{"seed": 01}',
        b'{"a": 1} x',
        b" ",
    ],
)
@pytest.mark.parametrize("path", [ROOT, "/v1/models/shared/transform"])
@needs_model
def test_invalid_json_is_400(http, path, body):
    response = post(http, path, body)
    if path != ROOT and response.status_code == 422:
        pytest.skip("nesting is bounded by the shape of the rows")
    assert_problem(response, 400, "malformed-json")


def test_a_route_that_takes_only_json_documents_malformed_json(http):
    document = http.get("/openapi.json").json()
    described = {
        f"{method} {path}": operation["responses"]["400"]["description"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation.get("requestBody", {}).get("content", {}).keys() == {"application/json"}
    }
    assert "post /v1/datasets:combine" in described
    assert set(described.values()) == {"`malformed-json`: Malformed JSON"}, described


@pytest.mark.parametrize(
    ("field", "value"),
    each_once(
        ["seed", "priority", "timeout_s", "memory_mb", "max_attempts"],
        ["true", "false", '"1"', "[]", "{}", "1e400", "-1e308", "1" + "0" * 30, str(-(2**63) - 1)],
    ),
)
def test_a_number_out_of_bounds_or_of_another_type_is_reported_with_its_field(
    http, spec, field, value
):
    text = json.dumps(spec)[:-1] + f', "{field}": {value}}}'
    response = post(http, ROOT, text.encode())
    if value == "1e400":
        assert_problem(response, 400, "malformed-json")
        return
    body = assert_problem(response, 422, "invalid-request")
    assert body["errors"][0]["pointer"] == f"/{field}"


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**64, 10**30, -1, 1.5])
@pytest.mark.sql
def test_a_seed_beyond_the_range_of_the_database_is_rejected(http, spec, value):
    body = assert_problem(http.post(ROOT, json={**spec, "seed": value}), 422, "invalid-request")
    assert body["errors"][0]["pointer"] == "/seed"


@pytest.mark.parametrize("value", [2**63, 2**64, 10**30, True, "2", 1.5, None, 0, -(2**63)])
def test_a_parameter_of_the_algorithm_is_checked_as_strictly(http, spec, value):
    response = http.post(ROOT, json={**spec, "params": {"k": value}})
    body = assert_problem(response, 422, "invalid-params")
    assert body["errors"][0]["pointer"] == "/params/k"


def test_nested_parameters_are_a_problem_and_not_an_internal_error(http, spec):
    for depth in (10, 60, 70, 260, 900):
        value = 1
        for _ in range(depth):
            value = [value]
        response = http.post(ROOT, json={**spec, "params": {"k": value}})
        assert_problem(response, 422 if depth < 62 else 400)


@pytest.mark.parametrize("path", ["/seeed", "/a~1b", "/~0", "/ü"])
def test_an_unknown_field_is_named_by_its_pointer(http, spec, path):
    name = path[1:].replace("~1", "/").replace("~0", "~")
    body = assert_problem(http.post(ROOT, json={**spec, name: 1}), 422, "invalid-request")
    assert [entry["pointer"] for entry in body["errors"]] == [path]


@pytest.mark.parametrize(
    ("algorithm", "name", "detail"),
    [
        ("pca", "dims", "pca: /params/dims: unknown parameter 'dims'; the parameters are: k"),
        (
            "rmt-pca",
            "selecton",
            "rmt-pca: /params/selecton: unknown parameter 'selecton'; did you mean 'selection'?",
        ),
    ],
)
def test_an_unknown_parameter_gets_a_suggestion(http, spec, algorithm, name, detail):
    response = http.post(ROOT, json={**spec, "algorithm": algorithm, "params": {name: 1}})
    assert assert_problem(response, 422, "invalid-params")["detail"].startswith(detail)


def test_an_unknown_name_is_in_the_message(http, spec):
    body = assert_problem(http.post(ROOT, json={**spec, "sede": 1}), 422, "invalid-request")
    assert body["detail"] == "/sede: unknown field 'sede'"
    body = assert_problem(http.get(ROOT, params={"pagesize": 3}), 422, "invalid-request")
    unknown = "query:pagesize: unknown query parameter 'pagesize'; did you mean 'page_size'?"
    assert body["detail"] == unknown


def test_every_invalid_field_is_reported_at_once(http):
    body = assert_problem(http.post(ROOT, json={"seed": -1, "x": 1}), 422, "invalid-request")
    pointers = {entry["pointer"] for entry in body["errors"]}
    assert pointers == {"/seed", "/x", "/dataset_id", "/algorithm", "/model"}


def test_a_malformed_name_is_reported_with_the_form_of_valid_names(http, spec):
    responses = [
        http.post(ROOT, json={**spec, "model": "-a b"}),
        http.post(f"{ROOT}:infer", json={"model": "a@1", "method": "transform", "dataset_id": "x"}),
        http.put("/v1/models/shared/aliases/1.0", json={"version": 1}),
        http.post("/v1/datasets", params={"name": "a\nb"}, content=b"x"),
    ]
    expected = ["a model name has", "NAME@ALIAS", "an alias has", "a name cannot have"]
    for response, words in zip(responses, expected, strict=True):
        body = assert_problem(response, 422, "invalid-request")
        assert words in body["detail"]
        assert "pattern" not in body["detail"]


@pytest.mark.parametrize("body", [b"null", b"[]", b"1", b'"text"'])
@needs_model
def test_json_that_is_not_an_object_is_422(http, body):
    assert_problem(post(http, ROOT, body), 422, "invalid-request")
    assert_problem(post(http, "/v1/models/shared/transform", body), 422, "invalid-request")


@pytest.mark.parametrize("path", [ROOT, f"{ROOT}/job_1:repeat", f"{ROOT}:infer"])
def test_a_missing_body_is_named(http, path):
    body = assert_problem(http.post(path), 422, "invalid-request")
    assert body["detail"].startswith("the body is missing; send a JSON object, or {} if")


@pytest.mark.parametrize(
    "path", ["/v1/models/shared/transform", "/v2/models/shared/infer", "/v2/models/shared/infer?"]
)
@needs_model
def test_a_missing_body_of_inference_is_named(http, path):
    body = assert_problem(post(http, path, b""), 400, "malformed-json")
    assert body["detail"] == "the body is missing; send JSON"


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"class_weight": {"ill": 0}}, "/class_weight/ill", "greater than 0"),
        ({"class_weight": {"ill": 1, "str": "x"}}, "/class_weight/str", "valid number"),
        ({"class_weight": "balance"}, "/class_weight", "'none' or 'balanced'"),
        ({"compare": {"splits": {"n_folds": -1}}}, "/compare/splits/n_folds", ""),
        ({"compare": {"metrics": 1}}, "/compare/metrics", "unknown field 'metrics'"),
        ({"search": {"space": {"k": {"low": 1}}}}, "/search/space/k/high", "Field required"),
        ({"search": {"space": {"k": 3}}}, "/search/space/k", "valid list"),
    ],
)
def test_a_field_that_takes_several_types_is_reported_as_the_one_that_was_sent(
    http, spec, change, pointer, words
):
    body = assert_problem(http.post(ROOT, json={**spec, **change}), 422, "invalid-request")
    assert {entry["pointer"] for entry in body["errors"]} == {pointer}
    assert body["detail"].startswith(f"{pointer}: ")
    assert words in body["detail"]


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/xml", "nonsense", "a/b/c", ""],
)
def test_a_json_route_accepts_only_json(http, spec, content_type):
    response = post(http, ROOT, json.dumps(spec).encode(), content_type)
    body = assert_problem(response, 415, "unsupported-media-type")
    assert "application/json" in body["detail"]


def test_json_with_a_charset_is_read(http, spec):
    response = http.post(
        f"{ROOT}?validate_only=true",
        content=json.dumps(spec),
        headers={"Content-Type": "Application/JSON; charset=utf-8"},
    )
    assert response.status_code == 200


@pytest.fixture(scope="module")
def spare(launch_service):
    """A server of this module's own: with low limits, and a database that tests may harm."""
    limits = {
        "SIBLING_MAX_BODY_BYTES": 2000,
        "SIBLING_MAX_CONTROL_BODY_BYTES": 2000,
        "SIBLING_MAX_UPLOAD_BYTES": 3000,
        "SIBLING_MAX_THREADS": 2,
    }
    with launch_service(**limits) as running:
        yield running


@pytest.mark.parametrize("path", [ROOT, "/v1/models/m/transform", "/v1/datasets?name=x"])
@pytest.mark.parametrize("size", [3_001, 40_000_000])
def test_a_body_over_the_limit_is_413_with_and_without_its_length(spare, path, size):
    kind = "text/csv" if "datasets" in path else "application/json"
    whole = b"1" * size

    def chunks():
        for start in range(0, size, 65536):
            yield whole[start : start + 65536]

    for content in (whole, chunks()):
        with httpx.Client(base_url=spare.url, timeout=240) as http:
            response = post(http, path, content, kind)
            body = assert_problem(response, 413, "body-too-large")
            assert re.search(r"\b[23]000 bytes", body["detail"])
            assert http.get("/v2/health/live").status_code == 200


# --- NUL -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/a%00b",
        "/v1/jobs/%00",
        "/v1/datasets/%00/manifest",
        "/v1/algorithms/%00",
        "/v1/jobs?page_token=%00",
        "/v1/jobs?state=%00",
        "/v1/models?%00=1",
        "/v1/models/shared/transform?task=%00",
    ],
)
@pytest.mark.sql
def test_a_nul_in_a_url_is_rejected(http, path):
    assert_problem(http.request("POST" if "transform" in path else "GET", path), 422)


@pytest.mark.sql
def test_a_nul_in_a_json_string_is_rejected_with_its_location(http, spec):
    response = http.post(ROOT, json={**spec, "dataset_id": "a\0b"})
    assert assert_problem(response, 422)["errors"][0]["pointer"] == "/dataset_id"
    response = http.post(ROOT, json={**spec, "params": {"k\0": [1]}})
    assert_problem(response, 422)
    rows = {"task": "\0", "inputs": []}
    assert_problem(http.post("/v1/models/shared/transform", json=rows), 422)


def test_an_escaped_backslash_before_u0000_is_not_a_nul(http, spec):
    response = http.post(ROOT, json={**spec, "dataset_id": "\\u0000"})
    assert_problem(response, 404, "not-found")


# --- idempotency ---------------------------------------------------------------------------------


@pytest.mark.sql
def test_the_same_key_and_body_give_the_same_job(http, spec):
    headers = {"Idempotency-Key": uuid4().hex}
    first, again = (http.post(ROOT, json=spec, headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert first.headers["location"] == again.headers["location"] == f"{ROOT}/{first.json()['id']}"
    assert int(first.headers["retry-after"]) >= 1


@pytest.mark.sql
def test_the_same_key_with_another_body_is_422(http, spec):
    headers = {"Idempotency-Key": uuid4().hex}
    assert http.post(ROOT, json=spec, headers=headers).status_code == 202
    other = http.post(ROOT, json={**spec, "seed": 1}, headers=headers)
    body = assert_problem(other, 422, "key-reused")
    assert headers["Idempotency-Key"] in body["detail"]


def test_a_fingerprint_tells_where_its_parts_end():
    assert fingerprint("/v1/jobs", b"{}") == fingerprint(b"/v1/jobs", "{}")
    assert fingerprint("ab", "c") != fingerprint("a", "bc")


@pytest.mark.sql
def test_a_rejected_request_releases_its_key(http, spec):
    headers = {"Idempotency-Key": uuid4().hex}
    assert_problem(http.post(ROOT, json={**spec, "params": {"k": 0}}, headers=headers), 422)
    assert http.post(ROOT, json=spec, headers=headers).status_code == 202


@pytest.mark.sql
def test_twenty_concurrent_requests_with_one_key_create_one_job(http, spec):
    headers = {"Idempotency-Key": uuid4().hex}
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: http.post(ROOT, json=spec, headers=headers), range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1


@pytest.mark.parametrize("key", [b"", b"x" * 201])
def test_an_invalid_idempotency_key_is_rejected(http, spec, key):
    response = http.post(ROOT, json=spec, headers={"Idempotency-Key": key})
    body = assert_problem(response, 422, "invalid-request")
    assert body["errors"][0]["parameter"] == "header:idempotency-key"


@pytest.mark.sql
def test_a_key_may_hold_any_text(http, spec):
    key = 'schlüssel; a=b, "c"'.encode("latin-1")
    response = http.post(ROOT, json=spec, headers={"Idempotency-Key": key})
    assert response.status_code == 202


# --- pages ---------------------------------------------------------------------------------------


@pytest.mark.sql
def test_pages_list_every_item_once(http, spec):
    made = {http.post(ROOT, json=spec).json()["id"] for _ in range(5)}
    seen, query = [], {"page_size": 2}
    while True:
        body = http.get(ROOT, params=query).json()
        assert len(body["items"]) <= 2
        seen += [job["id"] for job in body["items"]]
        if body["next_page_token"] is None:
            break
        query["page_token"] = body["next_page_token"]
    assert made <= set(seen)
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen, reverse=True)


@pytest.mark.parametrize(
    ("path", "size"),
    each_once(
        ["/v1/algorithms", "/v1/datasets", ROOT, "/v1/models"],
        ["0", "201", "-1", "x", "1e9", "", str(2**64), "1" * 5000, "1.5"],
    ),
)
def test_a_page_size_out_of_bounds_is_422(http, path, size):
    body = assert_problem(http.get(path, params={"page_size": size}), 422, "invalid-request")
    assert body["errors"][0]["parameter"] == "query:page_size"


def test_the_bounds_of_a_page_size_are_allowed(http):
    for size in (1, 200):
        assert http.get(ROOT, params={"page_size": size}).status_code == 200


@pytest.mark.parametrize(
    ("path", "token"),
    each_once(
        LISTS,
        [
            "garbage",
            "!!!!",
            "%%%",
            "ümlaut",
            "💩",
            "",
            "=",
            base64.urlsafe_b64encode(b"\xff\xfe").decode(),
            base64.urlsafe_b64encode(b"a\0b").decode(),
            base64.urlsafe_b64encode(b"job_0").decode(),
            base64.urlsafe_b64encode("日本".encode()).decode(),
        ],
    ),
)
@needs_model
def test_an_invalid_page_token_is_400(http, path, token):
    assert_problem(http.get(path, params={"page_token": token}), 400, "invalid-page-token")


def forged(key):
    """Return a page token whose checksum is right."""
    return base64.urlsafe_b64encode(sha256(key).digest()[:6] + key).decode()


@pytest.mark.parametrize(
    ("path", "key"), each_once(LISTS, [b"\xff\xfe", b"\xed\xa0\x80", b"a\0b", b"\0"])
)
@needs_model
@pytest.mark.sql
def test_a_forged_page_token_with_the_right_checksum_is_400(http, path, key):
    response = http.get(path, params={"page_token": forged(key)})
    assert_problem(response, 400, "invalid-page-token")


@pytest.mark.parametrize("path", LISTS)  # a key of each list has a form of its own
@pytest.mark.parametrize("key", [b"9" * 200, "日本".encode(), b"x' OR '1'='1"])
@needs_model
@pytest.mark.sql
def test_a_page_token_of_any_text_returns_a_page_or_400(http, path, key):
    response = http.get(path, params={"page_token": forged(key)})
    assert response.status_code == 200 or assert_problem(response, 400, "invalid-page-token")


# --- integers ------------------------------------------------------------------------------------


@needs_model
def test_a_whole_number_may_be_written_as_a_float(http, spec):
    assert http.put("/v1/models/shared/aliases/whole", json={"version": 1.0}).status_code == 201
    splits = {"given": [{"north": [0.0, 1], "süd": [1], "a/b": [2.0]}]}
    job = {**spec, "seed": 3.0, "params": {"k": 1.0}, "evaluate": {"splits": splits}}
    response = http.post(f"{ROOT}?validate_only=true", json=job)
    assert response.status_code == 200, response.text
    assert repr(response.json()["params"]["k"]) == "1"
    rows = {"name": "rows", "shape": [1.0, 5.0], "datatype": "FP64", "data": [0] * 5}
    infer = {"inputs": [rows], "parameters": {"task": "north"}}
    assert http.post("/v2/models/shared/infer", json=infer).status_code == 200


@pytest.mark.parametrize("value", [1.5, True, "1", 1e300, -1.0, None, [1.0]])
@needs_model
def test_other_values_are_not_integers(http, spec, value):
    assert_problem(http.put("/v1/models/shared/aliases/x", json={"version": value}), 422)
    assert_problem(http.post(ROOT, json={**spec, "seed": value}), 422)


#: Probes may add parameters of their own; these operations need no key.
TOLERANT = {"/v2", "/v2/health/live", "/v2/health/ready"}


def test_every_operation_refuses_an_unknown_query_parameter_by_name(http):
    paths = http.get("/openapi.json").json()["paths"]
    operations = [(path, method, of) for path, item in paths.items() for method, of in item.items()]
    assert len(operations) > 90
    for path, method, operation in operations:
        known = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"]
        url = path.format_map(defaultdict(lambda: "1"))
        response = http.request(method, f"{url}?threshhold=1&missing_marker=-999")
        if path in TOLERANT:
            assert response.status_code == 200, path
            continue
        assert response.status_code == (400 if path.startswith("/v2") else 422), (method, path)
        if method != "head":
            named = [error["parameter"] for error in response.json()["errors"]]
            unknown = [n for n in ("threshhold", "missing_marker") if n not in known]
            assert named == [f"query:{name}" for name in unknown], (method, path)


def test_a_page_ignores_unknown_query_parameters(http):
    # links from elsewhere have parameters of their own
    assert http.get("/datasets?utm_source=mail").status_code == 200


# --- versions of a resource ----------------------------------------------------------------------


@pytest.mark.parametrize("part", ["report", "importance"])
def test_a_part_that_does_not_exist_is_404_whatever_the_client_has(http, model, part):
    path = f"/v1/models/{model.name}/versions/{model.version}"
    other = http.get(f"{path}/history").headers["etag"]
    for known in ("*", other):
        response = http.get(f"{path}/{part}", headers={"If-None-Match": known})
        assert (response.status_code, response.json()["code"]) == (404, f"no-{part}")


@pytest.mark.slow  # trains models
def test_each_part_of_a_version_has_its_own_etag(http, client, dataset):
    model = client.train(dataset, "fmtl", model="tagged", evaluate=True).wait()
    path = f"/v1/models/{model.name}/versions/{model.version}"
    parts = ("", "/history", "/report", "/relations", "/plots", "/artifact")
    tags = {http.get(f"{path}{part}").headers["etag"] for part in parts}
    assert len(tags) == len(parts)


def test_a_matching_etag_is_304(http, model, dataset):
    job = model.info["lineage"]["job_id"]
    for path in (
        "/v1/models/shared",
        "/v1/models/shared/versions/1",
        "/v1/models/shared/versions/1/history",
        "/v1/models/shared/versions/1/artifact",
        f"/v1/datasets/{dataset.id}",
        f"/v1/jobs/{job}",
    ):
        tag = http.get(path).headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            response = http.get(path, headers={"If-None-Match": known})
            assert (response.status_code, response.content) == (304, b""), (path, known)
            assert response.headers["etag"] == tag
        for unknown in ('"other"', tag.strip('"')):
            assert http.get(path, headers={"If-None-Match": unknown}).status_code == 200


@pytest.mark.parametrize("tag", ['"other"', 'W/"other"', "other"])
@needs_model
@pytest.mark.sql
def test_a_delete_under_a_wrong_if_match_is_412(http, dataset, tag):
    for path in ("/v1/models/shared/versions/1", f"/v1/datasets/{dataset.id}"):
        response = http.delete(path, headers={"If-Match": tag})
        assert_problem(response, 412, "precondition-failed")
        assert http.get(path).status_code == 200


@needs_model
def test_a_weak_tag_does_not_allow_a_delete(http):
    path = "/v1/models/shared/versions/1"
    tag = http.get(path).headers["etag"]
    assert_problem(http.delete(path, headers={"If-Match": f"W/{tag}"}), 412)


# --- validate_only, wait, traces -----------------------------------------------------------------


def newest_job(http):
    """Return the id of the newest job, which may be of an earlier test and still change."""
    return [job["id"] for job in http.get(ROOT).json()["items"][:1]]


def test_validate_only_creates_nothing_and_returns_the_parameters(http, spec):
    before = newest_job(http)
    response = http.post(f"{ROOT}?validate_only=true", json=spec)
    assert response.status_code == 200
    assert response.json()["params"]["k"] == 1
    refused = http.post(f"{ROOT}?validate_only=true", json={**spec, "params": {"k": 6}})
    assert_problem(refused, 422)
    assert newest_job(http) == before


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "61", "x", "true", "1e999"])
def test_a_wait_out_of_bounds_is_422(http, spec, wait, dataset):
    for path in (f"{ROOT}/job_1", f"/v1/datasets/{dataset.id}"):
        body = assert_problem(http.get(path, params={"wait": wait}), 422, "invalid-request")
        assert body["errors"][0]["parameter"] == "query:wait"
    assert_problem(http.post(ROOT, params={"wait": wait}, json=spec), 422, "invalid-request")


def test_wait_returns_when_the_job_has_ended(http, spec):
    job = http.post(f"{ROOT}?wait=30", json=spec).json()
    assert (job["state"], job["is_final"]) == ("succeeded", True)


@pytest.mark.parametrize("after", [str(2**63), str(10**20), "-1", "x", "1.5", "٣"])
@pytest.mark.sql
def test_an_event_id_out_of_bounds_is_422(http, model, after):
    path = f"/v1/jobs/{model.info['lineage']['job_id']}/events"
    assert_problem(http.get(path, params={"after_id": after}), 422, "invalid-request")
    headers = {"Accept": "text/event-stream", "Last-Event-ID": after.encode()}
    assert_problem(http.get(path, headers=headers), 422, "invalid-request")


@pytest.mark.parametrize("version", ["0", "-1", str(2**31), str(10**30), "x", "1.5", "true"])
@needs_model
@pytest.mark.sql
def test_a_version_out_of_bounds_is_422(http, version):
    path = f"/v1/models/shared/versions/{version}"
    body = assert_problem(http.get(path), 422, "invalid-request")
    assert body["errors"][0]["parameter"] == "path:version"


@pytest.mark.parametrize("given", ["x" * 5000, "", "00-" + "g" * 32 + "-" + "1" * 16 + "-01"])
def test_a_broken_trace_context_does_not_matter(http, spec, given):
    response = http.post(ROOT, json=spec, headers={"traceparent": given})
    assert response.status_code == 202


# --- defects -------------------------------------------------------------------------------------


def test_an_internal_error_is_a_problem_with_its_request_id_and_no_internals(spare):
    with spare.open_database() as database, database.write() as session:
        session.add(dataset_row(owner="local", options="no options"))
    with httpx.Client(base_url=spare.url, timeout=240) as http:
        body = assert_problem(http.get("/v1/datasets/ds_1", headers={"X-Request-Id": "q1"}), 500)
        assert "no options" not in body["detail"]
    defects = [json.loads(line) for line in spare.log().splitlines() if '"request.failed"' in line]
    assert [event["request_id"] for event in defects] == ["q1"]
    assert "Traceback" not in spare.log().replace("\\n", "")


@pytest.mark.sql
def test_a_database_that_does_not_respond_is_503(spare, databases):
    with httpx.Client(base_url=spare.url, timeout=240) as http:
        with databases.away(spare.database_url):
            response = http.get("/v1/models")
            assert_problem(response, 503, "unavailable")
            assert int(response.headers["retry-after"]) >= 1
            assert http.get("/v2/health/live").status_code == 200
        assert http.get("/v1/models").status_code == 200


# --- limits of jobs that the operator sets --------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "setting", "maximum"),
    [
        ("memory_mb", "max_memory_mb", 1024),
        ("threads", "max_threads", 2),
        ("max_attempts", "max_job_attempts", 4),
        ("priority", "max_priority", 0),
        ("timeout_s", "max_timeout_s", 60),
    ],
)
def test_a_job_cannot_exceed_the_limits_of_the_operator(field, setting, maximum):
    settings = Settings(**{setting: maximum})
    check_limits(JobLimits(**{field: maximum}), settings)
    check_limits(JobLimits(), settings)
    with pytest.raises(Problem, match=f"{field} is {maximum + 1}; the maximum is {maximum}") as at:
        check_limits(JobLimits(**{field: maximum + 1}), settings)
    assert at.value.errors[0]["pointer"] == f"/{field}"


def test_the_operator_can_lower_limits_of_jobs_but_not_raise_them():
    properties = JobLimits.model_json_schema()["properties"]
    for name, setting in (
        ("memory_mb", "max_memory_mb"),
        ("threads", "max_threads"),
        ("max_attempts", "max_job_attempts"),
        ("priority", "max_priority"),
    ):
        declared = properties[name]
        maximum = next(
            one["maximum"] for one in (declared, *declared.get("anyOf", ())) if "maximum" in one
        )
        assert getattr(Settings(), setting) == maximum
        with pytest.raises(ValidationError, match=f"less than or equal to {maximum}"):
            Settings(**{setting: maximum + 1})


def test_defaults_of_jobs_do_not_exceed_the_limits_of_the_operator():
    settings = Settings(
        max_timeout_s=60, max_memory_mb=1024, max_job_attempts=2, max_priority=-1,
        default_timeout_s=3600, default_memory_mb=4096, max_attempts=3,
    )  # fmt: skip
    check_limits(JobLimits(), settings)
    expected = {"timeout_s": 60, "memory_mb": 1024, "max_attempts": 2, "priority": -1}
    assert limits_of(JobLimits(), settings) == {**expected, "threads": None}


def test_a_limit_of_the_operator_is_checked_on_submission(spare):
    with httpx.Client(base_url=spare.url, timeout=20) as http:
        body = {"dataset_id": "x", "algorithm": "pca", "model": "m", "threads": 3}
        assert "threads is 3; the maximum is 2" in http.post(ROOT, json=body).json()["detail"]
        body = {"dataset_id": "x", "method": "predict", "model": "m", "threads": 3}
        found = http.post(f"{ROOT}:infer", json=body).json()["detail"]
        assert "threads is 3; the maximum is 2" in found
