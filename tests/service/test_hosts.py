"""Requests of pages of other sites are refused, whatever the browser lets them send."""

import httpx
import pytest

from service.errors.problems import Problem
from service.server.hosts import HostPolicy
from service.settings import Settings


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/v1/datasets"),
        ("POST", "/v1/datasets?name=x"),
        ("DELETE", "/v1/datasets/ds_1"),
        ("POST", "/v2/models/shared/infer"),
        ("GET", "/v2/health/live"),
    ],
)
def test_a_rebound_name_is_rejected_on_loopback(http, method, path):
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.x", ""):
        response = http.request(method, path, headers={"Host": host})
        assert (response.status_code, response.json()["code"]) == (421, "unknown-host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8000", "[::1]"])
def test_names_of_loopback_are_accepted(http, host):
    assert http.get("/v1/datasets", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost.evil", ""])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/datasets?name=x"),
        ("POST", "/v1/jobs/job_1:cancel"),
        ("PUT", "/v1/models/shared/aliases/foreign"),
        ("DELETE", "/v1/models/shared/versions/1"),
        ("POST", "/v2/models/shared/infer"),
        ("POST", "/v2/repository/models/shared/unload"),
    ],
)
def test_a_page_of_another_site_cannot_change_anything(http, method, path, origin):
    response = http.request(method, path, headers={"Origin": origin})
    assert (response.status_code, response.json()["code"]) == (403, "foreign-origin")


def test_a_page_of_this_service_may_send_changes(http):
    own = {"Origin": f"http://{http.base_url.host}:{http.base_url.port}"}
    assert http.post("/v1/jobs/job_1:cancel", headers=own).status_code == 404
    assert http.get("/v1/jobs", headers={"Origin": "http://evil.example"}).status_code == 200


def test_configured_hosts_are_accepted(start_replica):
    service = start_replica(SIBLING_ALLOWED_HOSTS="api.example, b.example")
    for host, status in (("api.example:8000", 200), ("localhost", 200), ("evil.example", 421)):
        response = httpx.get(f"{service.url}/v1/datasets", headers={"Host": host}, timeout=240)
        assert response.status_code == status
    for origin, status in (("https://b.example", 404), ("https://evil.example", 403)):
        response = httpx.post(
            f"{service.url}/v1/jobs/x:cancel", headers={"Origin": origin}, timeout=240
        )
        assert response.status_code == status


@pytest.mark.parametrize(
    ("settings", "host", "is_allowed"),
    [
        ({"host": "0.0.0.0"}, "anything", True),
        ({"host": "0.0.0.0", "allowed_hosts": "a.example"}, "b.example", False),
        ({"host": "0.0.0.0", "allowed_hosts": "a.example"}, "A.example.:80", True),
        ({"host": "127.0.0.1", "allowed_hosts": "*"}, "b.example", True),
        ({"host": "127.0.0.5"}, "127.0.0.5:8000", True),
        ({"host": "::1"}, "[::1]:8000", True),
        ({"host": "127.0.0.1"}, "x" * 100_000, False),
        ({"host": "127.0.0.1"}, None, True),
    ],
)
def test_which_hosts_are_allowed(settings, host, is_allowed):
    assert HostPolicy(Settings(**settings)).allows(host) == is_allowed


@pytest.mark.parametrize(
    ("allowed", "host", "origin", "is_allowed"),
    [
        ("", "localhost:8000", "http://localhost:8000", True),
        ("", "127.0.0.1:8000", "http://localhost:8000", True),
        ("", "localhost:8000", "http://localhost:9000", False),  # another program here
        ("", "127.0.0.1:8000", "http://localhost", False),
        ("", "localhost:8000", "http://[::1]:8000", True),
        ("a.example", "127.0.0.1:8000", "https://a.example", True),  # of a proxy
        ("a.example", "127.0.0.1:8000", "https://a.example:8443", True),
        ("a.example", "a.example", "https://a.example:8443", False),
        ("a.example:8443", "a.example", "https://a.example:8443", True),
        ("a.example:8443", "a.example", "https://a.example:9000", False),
        ("a.example", "a.example:8000", "http://a.example:8000", True),
        ("a.example", "127.0.0.1:8000", "http://localhost:9000", False),
        ("*", "b.example", "https://b.example", True),
        ("*", "b.example", "https://c.example", False),
    ],
)
def test_the_port_of_a_page_counts(allowed, host, origin, is_allowed):
    policy = HostPolicy(Settings(allowed_hosts=allowed))
    headers = [(b"host", host.encode()), (b"origin", origin.encode())]
    scope = {"method": "POST", "http_version": "1.1", "headers": headers}
    if is_allowed:
        policy.check(scope)
    else:
        with pytest.raises(Problem) as caught:
            policy.check(scope)
        assert caught.value.code == "foreign-origin"
