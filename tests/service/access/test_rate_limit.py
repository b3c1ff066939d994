"""The limit of requests per second of an owner."""

import contextlib
import re
import time
from timeit import timeit

import httpx
import pytest

from service.access import store
from service.access.keys import new_key
from service.access.rate_limit import RateLimiter
from service.errors.problems import Problem
from service.processes import token_buckets
from sibling import Client
from tests.service.raw import Raw, head

PER_S = 0.1
BURST = 10


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def test_an_owner_can_send_a_burst_and_then_the_rate(clock):
    limiter = RateLimiter(5, clock=clock)
    for _ in range(BURST):
        limiter.check("ada")
    for _ in range(3):
        with pytest.raises(Problem) as caught:
            limiter.check("ada")
        clock.now_s += 0.2 + 1e-5
        limiter.check("ada")
    assert caught.value.status_code == 429
    assert caught.value.headers == {
        "Retry-After": "1",
        "RateLimit-Policy": '"requests";q=10;w=2',
        "RateLimit": '"requests";r=0;t=1',
    }
    assert "the limit is 5 requests per second" in caught.value.detail


def test_a_refused_request_costs_no_token(clock):
    limiter = RateLimiter(1, clock=clock)
    for _ in range(BURST):
        limiter.check("ada")
    for _ in range(100):
        with pytest.raises(Problem, match="retry after 1 s"):
            limiter.check("ada")
    clock.now_s += 1.0 + 1e-5
    limiter.check("ada")


def test_an_idle_owner_saves_up_no_more_than_a_burst(clock):
    limiter = RateLimiter(1, clock=clock)
    limiter.check("ada")
    clock.now_s += 1000
    for _ in range(BURST):
        limiter.check("ada")
    with pytest.raises(Problem):
        limiter.check("ada")


def test_owners_do_not_limit_each_other(clock):
    limiter = RateLimiter(1, clock=clock)
    for _ in range(BURST):
        limiter.check("ada")
    limiter.check("bob")
    with pytest.raises(Problem):
        limiter.check("ada")


def test_the_memory_of_many_owners_is_bounded(clock, monkeypatch):
    monkeypatch.setattr(token_buckets, "_MAX_BUCKETS", 50)
    limiter = RateLimiter(1, clock=clock)
    for number in range(40):
        limiter.check(f"early {number}")
    clock.now_s += 60  # their buckets are full again
    for _ in range(BURST):
        limiter.check("ada")
    for number in range(20):
        limiter.check(f"late {number}")
    with pytest.raises(Problem):
        limiter.check("ada")
    for number in range(1000):
        limiter.check(f"many {number}")
    assert len(limiter._buckets._full_at) <= 50


def test_a_check_takes_little_time():
    limiter = RateLimiter(1e9)
    assert min(timeit(lambda: limiter.check("ada"), number=2000) for _ in range(5)) / 2000 < 20e-6


# --- over HTTP -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def limited(launch_service):
    with launch_service(
        SIBLING_REQUIRE_KEYS="true",
        SIBLING_BOOTSTRAP_KEY=new_key().text(),
        SIBLING_MAX_REQUESTS_PER_S=PER_S,
    ) as running:
        yield running


@pytest.fixture
def headers(limited):
    key = new_key()
    owner = f"owner {time.monotonic_ns()}"
    with limited.open_database() as database, database.write() as session:
        store.create(session, key, owner=owner, scopes=["admin"], expires_at=None)
    return {"Authorization": f"Bearer {key.text()}"}


def use_up(service, headers, method="GET", path="/v1/datasets", **request):
    """Send requests until one is refused, and return that response."""
    with httpx.Client(base_url=service.url, timeout=60) as http:
        for _ in range(1000):
            response = http.request(method, path, headers=headers, **request)
            if response.status_code == 429:
                return response
    raise AssertionError("no request was refused")


def assert_refused(response):
    body = response.json()
    assert (response.status_code, body["code"], body["title"]) == (
        429,
        "rate-limited",
        "Too many requests",
    )
    assert 1 <= int(response.headers["retry-after"]) <= 1 / PER_S
    assert response.headers["ratelimit-policy"] == f'"requests";q={BURST};w={BURST / PER_S:.0f}'
    assert re.fullmatch(r'"requests";r=0;t=[0-9]+', response.headers["ratelimit"])


def test_an_owner_over_the_limit_gets_429_and_others_do_not(limited, headers):
    refused = use_up(limited, headers)
    assert_refused(refused)
    assert refused.headers["content-type"] == "application/problem+json"
    with httpx.Client(base_url=limited.url, timeout=60) as http:
        for path in ("/v2/health/live", "/v2/health/ready", "/login", "/openapi.json"):
            assert http.get(path).status_code == 200
        for _ in range(2 * BURST):
            assert http.get("/metrics", headers=headers).status_code == 200


def test_a_refused_body_is_not_read(limited, headers):
    """The answer comes although the body does not."""
    about = ("Content-Type: text/csv", "Content-Length: 1000000")
    key = f"Authorization: {headers['Authorization']}"
    request = head("POST", "/v1/datasets?name=d", key, *about)
    for _ in range(10):  # a token may have been added meanwhile: then the body is awaited
        use_up(limited, headers)
        with Raw(limited.url, 5) as connection:
            connection.send(request)
            with contextlib.suppress(TimeoutError):
                assert connection.response()[0] == 429
                return
    raise AssertionError("no request was refused before its body")


def test_the_fast_path_has_the_same_limit(limited, headers):
    """Also for a request that it passes on: it must count once, and the answers must be equal."""
    inputs = {"task": "a", "inputs": [[1.0, 2.0]]}
    path = "/v1/models/none/transform"
    plain = use_up(limited, headers, "POST", path, json=inputs)
    other = use_up(limited, headers, "POST", f"{path}?task=%61", json=inputs)
    for response in (plain, other):
        assert_refused(response)
    v2 = use_up(limited, headers, "POST", "/v2/models/none/infer", json={"inputs": []})
    assert_refused(v2)
    assert v2.json()["error"] == v2.json()["detail"]


def test_every_request_counts_once(limited, headers):
    with httpx.Client(base_url=limited.url, headers=headers, timeout=60) as http:
        started = time.monotonic()
        answers = [http.get("/v1/datasets").status_code for _ in range(BURST + 1)]
    assert answers[:BURST] == [200] * BURST
    if time.monotonic() - started < 1 / PER_S:
        assert answers[BURST] == 429


@pytest.mark.slow  # waits for the limit
def test_the_client_waits_and_succeeds(limited, headers):
    use_up(limited, headers)
    key = headers["Authorization"].split()[1]
    with Client(limited.url, api_key=key) as client:
        assert list(client.datasets) == []
