"""Fast path on a shared server; slow requests are computed in a thread."""

import json

import numpy as np
import pytest

from service.models.latency import LatencyEstimator

ROWS = np.array([[1.0, 2, 3, 4, 5], [6, 7, 8, 9, 10]])
V1 = {"task": "north", "inputs": ROWS.tolist()}
TENSOR = {"name": "rows", "shape": [2, 5], "datatype": "FP64", "data": ROWS.ravel().tolist()}
V2 = {"inputs": [TENSOR], "parameters": {"task": "north"}}
#: Ordinary URLs, and unusual ones for the same resource.
EQUIVALENT = [
    ("/v1/models/shared/transform", "/v1/models/shared/transform?task=north", V1),
    ("/v1/models/shared/transform", "/v1/models/%73hared/transform", V1),
    ("/v1/models/shared/versions/1/transform", "/v1/models/shared/versions/01/transform", V1),
    ("/v2/models/shared/infer", "/v2/models/shared/infer?&", V2),
    ("/v2/models/shared/versions/1/infer", "/v2/models/shared/versions/+1/infer", V2),
]


@pytest.mark.parametrize(("plain", "other", "body"), EQUIVALENT)
def test_fast_path_and_routes_return_the_same_response(http, plain, other, body):
    first, second = http.post(plain, json=body), http.post(other, json=body)
    assert first.status_code == 200
    assert (second.status_code, second.content) == (200, first.content)
    assert second.headers["content-type"] == first.headers["content-type"]


@pytest.mark.parametrize("query", ["", "?&"])
@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/models/none/transform", V1, 404, "not-found"),
        ("/v1/models/shared/predict", V1, 422, "unsupported-method"),
        ("/v1/models/shared/transform", {**V1, "task": "none"}, 422, "unknown-task"),
        ("/v1/models/shared/transform", {**V1, "inputs": [[1]]}, 422, "invalid-data"),
        ("/v2/models/none/infer", V2, 404, "not-found"),
        ("/v2/models/shared/infer", {"inputs": 1}, 400, "invalid-request"),
    ],
)
def test_fast_path_and_routes_return_the_same_errors(http, path, query, body, status, code):
    response = http.post(path + query, json=body, headers={"X-Request-Id": "mine"})
    assert response.status_code == status
    found = response.json()
    assert (found["code"], found["status"], found["request_id"]) == (code, status, "mine")
    assert response.headers["x-request-id"] == "mine"


@pytest.mark.parametrize("version", ["0", "x", "1.5", "4294967296", "9" * 30])
def test_an_invalid_version_is_rejected_by_the_framework(http, version):
    response = http.post(f"/v1/models/shared/versions/{version}/transform", json=V1)
    assert (response.status_code, response.json()["code"]) == (422, "invalid-request")


def test_successful_calls_are_not_logged(service, http, wait_until):
    def logged():
        events = (json.loads(line) for line in service.log().splitlines() if line.startswith("{"))
        return [e for e in events if e["event"] == "request" and e.get("request_id") == "watched"]

    headers = {"X-Request-Id": "watched"}
    assert http.post("/v2/models/shared/infer", json=V2, headers=headers).status_code == 200
    assert http.post("/v2/models/none/infer", json=V2, headers=headers).status_code == 404
    wait_until(logged)  # after the response
    (event,) = logged()
    assert (event["status"], event["route"]) == (404, "/v2/models/{name}/infer")


def test_results_are_the_same_in_a_thread_and_on_the_event_loop(http, client, dataset):
    """The first requests are computed in a thread, later ones on the event loop."""
    remote = client.train(dataset, "common-pca", model="many", k=2).wait()
    width = remote.transform(np.zeros((0, 5)), task="north").shape[1]
    body = {"task": "north", "inputs": ROWS.tolist()}
    contents = {http.post("/v1/models/many/transform", json=body).content for _ in range(100)}
    assert width == 2
    assert len(contents) == 1


def test_a_slow_call_raises_the_estimate_for_several_calls():
    estimator = LatencyEstimator()
    assert estimator.estimate_ns("transform", 5) is None  # not measured yet
    estimator.observe("transform", 5, 50_000)
    assert estimator.estimate_ns("transform", 5) == 50_000
    assert estimator.estimate_ns("transform", 5000) == 50_000_000
    assert estimator.estimate_ns("predict", 5) is None
    estimator.observe("transform", 5, 50_000_000)
    n_fast = 0
    while estimator.estimate_ns("transform", 5) > 300_000:
        estimator.observe("transform", 5, 50_000)
        n_fast += 1
    assert 10 < n_fast < 100
    estimator.observe("transform", 0, 10)
    assert estimator.estimate_ns("transform", 0) == 0


def test_an_invalidated_estimate_is_measured_again_once():
    """Only by a call of at most the same size, as a larger one may be slow for its size."""
    estimator = LatencyEstimator()
    estimator.observe("transform", 100, 1000)
    estimator.invalidate("transform", 5)
    assert estimator.estimate_ns("transform", 100) == 1000
    assert estimator.estimate_ns("predict", 1) is None
    assert estimator.estimate_ns("transform", 5) is None
    assert estimator.estimate_ns("transform", 5) == 50
    estimator.observe("transform", 5, 5_000_000)
    assert estimator.estimate_ns("transform", 5) == 5_000_000
