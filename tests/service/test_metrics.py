"""Numbers for Prometheus: they are true, their labels few, and not for everybody."""

import re

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families


def read(http, **headers):
    response = http.get("/metrics", headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(response.text)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_requests_are_counted_by_template_and_never_by_id(http):
    path = "/v1/models/{name}"
    before = read(http).get(("sibling_http_requests_total", "GET", path, "200"), 0)
    for _ in range(3):
        http.get("/v1/models/shared")
    http.get("/v1/models/none-of-this-name")
    http.request("BREW-NOT", "/v1/jobs")
    http.get("/nothing/of/the/kind")
    found = read(http)
    assert found["sibling_http_requests_total", "GET", path, "200"] >= before + 3
    assert found["sibling_http_requests_total", "GET", path, "404"] >= 1
    assert found["sibling_http_requests_total", "GET", "other", "404"] >= 1
    assert found["sibling_http_request_seconds_count", "GET", path] >= before + 4
    routes = {name[2] for name in found if name[0] == "sibling_http_requests_total"}
    assert not any("shared" in route or "none-of" in route or "kind" in route for route in routes)
    assert not any(re.search(r"/(ds|job|mdl)_", route) for route in routes)


def test_calls_rows_and_failures_of_inference_are_counted(http):
    before = read(http)
    rows = [[1.0] * 5] * 4
    http.post("/v1/models/shared/transform", json={"task": "north", "inputs": rows})
    http.post("/v1/models/shared/transform", json={"task": "none", "inputs": rows})
    after = read(http)

    def grown(name):
        # labels by name: method, model, owner, version
        key = (f"sibling_inference_{name}", "transform", "shared", "local", "1")
        return after.get(key, 0) - before.get(key, 0)

    assert grown("seconds_count") >= 1
    assert grown("seconds_sum") > 0
    assert grown("rows_total") >= 4
    assert grown("failure_seconds_count") >= 1
    assert after["sibling_model_cache_bytes",] > 0
    assert after["sibling_ready",] == 1


@pytest.mark.slow  # a service of its own
@pytest.mark.sql
def test_the_queue_is_read_from_the_database(start_service):
    """A job that waits for its parts is not ended, and not queued."""
    import numpy as np

    from sibling import Client

    service = start_service()
    with Client(service.url) as client, httpx.Client(base_url=service.url, timeout=240) as http:
        assert read(http)["sibling_jobs", "queued"] == 0
        data = client.upload({"a": np.random.default_rng(0).standard_normal((30, 4))})
        jobs = [client.train(data, "pca", model="queued", k=1) for _ in range(6)]
        during = read(http)
        assert sum(value for name, value in during.items() if name[0] == "sibling_jobs") >= 3
        assert during["sibling_queue_age_seconds",] >= 0
        for job in jobs:
            job.wait()
        after = read(http)
        assert {
            name[1]: after[name] for name in after if name[0] == "sibling_jobs"
        } == dict.fromkeys(("waiting", "queued", "submitted", "running"), 0)


def test_it_needs_a_key_of_its_own_scope_where_keys_are_required(keyed_service, first_key):
    with httpx.Client(base_url=keyed_service.url, timeout=240) as http:
        assert http.get("/metrics").status_code == 401
        assert read(http, Authorization=f"Bearer {first_key}")["sibling_ready",] == 1
