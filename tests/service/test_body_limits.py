"""JSON bodies of control routes: limits that hold before the body is parsed."""

import json
import threading

import httpx
import pytest

from service.errors.problems import MAX_ENTRIES, MAX_TEXT_LENGTH, Problem
from service.http.bodies import MAX_DEPTH, MAX_VALUES, parse_bounded_json

MIB = 1024 * 1024
#: Routes that read JSON, none of which needs more than a megabyte.
ROUTES = [
    ("POST", "/v1/jobs"),
    ("POST", "/v1/jobs:infer"),
    ("PUT", "/v1/models/shared/aliases/limits"),
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/shared/load"),
    ("POST", "/v2/repository/models/shared/unload"),
]
#: What held the event loop for seconds.
EMPTY_LISTS = b"[[[" + b"[]," * (MIB // 3 - 10) + b"[]]]]"
NUMBERS = b"[" + b"1," * (MIB // 2 - 10) + b"1]"
DEEP = b"[" * MIB


def send(http, method, path, content):
    return http.request(method, path, content=content, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_control_route_reads_at_most_a_megabyte(http, method, path):
    response = send(http, method, path, b" " * (MIB + 1))
    assert (response.status_code, response.json()["code"]) == (413, "body-too-large")
    assert f"{MIB} bytes" in response.json()["detail"]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    ("content", "status", "limit"), [(EMPTY_LISTS, 413, MAX_VALUES), (DEEP, 400, MAX_DEPTH)]
)
def test_a_control_route_rejects_bodies_of_many_values(http, method, path, content, status, limit):
    response = send(http, method, path, content)
    assert (response.status_code, str(limit) in response.json()["detail"]) == (status, True)


def test_an_inference_body_may_be_larger(http):
    response = send(http, "POST", "/v1/models/shared/transform", b" " * (2 * MIB))
    assert response.status_code == 400


@pytest.mark.parametrize("body", [EMPTY_LISTS, NUMBERS, DEEP])
@pytest.mark.quick(1)
def test_other_requests_are_answered_while_large_bodies_are_parsed(service, stopwatch, body):
    """The event loop was held for 1.5 s by each body on an idle machine."""
    stop = threading.Event()

    def attack():
        with httpx.Client(base_url=service.url, timeout=240) as http:
            while not stop.is_set():
                assert send(http, "POST", "/v1/jobs", body).status_code in (400, 413)

    attacker = threading.Thread(target=attack)
    attacker.start()
    times = []
    with httpx.Client(base_url=service.url, timeout=240) as http:
        for _ in range(20):
            elapsed_s = stopwatch()
            assert http.get("/v2/health/live").status_code == 200
            times.append(elapsed_s())
    stop.set()
    attacker.join()
    assert sorted(times)[len(times) // 2] < 1


def test_a_response_lists_a_limited_number_of_errors(http):
    body = {f"field_{i}": i for i in range(MAX_VALUES - 10)}
    response = http.post("/v1/jobs", json=body)
    assert response.status_code == 422
    assert len(response.json()["errors"]) == MAX_ENTRIES
    # the missing fields count too
    assert f"(and {len(body) + 3 - 1} more)" in response.json()["detail"]
    assert len(response.content) < 50_000


def test_a_response_repeats_a_limited_length_of_a_name(http):
    response = http.post("/v1/jobs", json={"x" * 500_000: 1})
    assert response.status_code == 422
    assert len(response.content) < 20 * MAX_TEXT_LENGTH
    assert "500001 characters" in response.json()["errors"][0]["pointer"] + response.text


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nesting_is_measured_outside_of_strings(opening):
    closing = {"[": "]", '{"a":': "}"}[opening]
    text = json.dumps('[[{{"\\"[' * 100)
    nested = opening * MAX_DEPTH + text + closing * MAX_DEPTH
    assert parse_bounded_json(nested.encode()) == json.loads(nested)
    with pytest.raises(Problem, match="nested deeper"):
        parse_bounded_json((opening + nested + closing).encode())


def test_values_are_counted_outside_of_strings():
    values = [",[{" * 3, *range(MAX_VALUES - 2)]
    assert parse_bounded_json(json.dumps(values).encode()) == values
    with pytest.raises(Problem, match="more values than"):
        parse_bounded_json(json.dumps([*values, 1]).encode())


def test_a_nul_is_found_at_any_place_in_linear_time():
    value = json.dumps([[{"a": "x\0"}, 1], {"b\0": 1}]).encode()
    with pytest.raises(Problem) as caught:
        parse_bounded_json(value)
    assert caught.value.errors[0]["pointer"] == "/0/0/a"
    with pytest.raises(Problem) as caught:
        parse_bounded_json(b'[[], {"c": {}, "b\\u0000": 1}]')
    assert caught.value.errors[0]["pointer"] == "/1/b\0"
    assert parse_bounded_json(b'[[], {"c": "\\\\u0000"}, []]') == [[], {"c": "\\u0000"}, []]
