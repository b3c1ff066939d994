"""Requests that wait for jobs: how many there may be, what they cost, and how they end."""

import asyncio
import contextlib
import json
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from service.access import store
from service.access.keys import new_key
from service.http.waiting import WaitingRequests
from service.jobs.watcher import JobWatcher
from sibling import Client

pytestmark = pytest.mark.slow  # many streams

MISCHIEF = Path(__file__).parent / "mischief"
#: Seed of a job whose steps the mischief delays.
SLOW = 9006
SSE = {"Accept": "text/event-stream"}


def make_key(service, owner):
    key = new_key()
    with service.open_database() as database, database.write() as session:
        store.create(session, key, owner=owner, scopes=["admin"], expires_at=None)
    return key


@pytest.fixture(scope="module")
def guarded(launch_service):
    """A service that requires keys, whose only slot a long job keeps."""
    key = new_key()
    with launch_service(
        SIBLING_WORKER_SLOTS=1,
        SIBLING_REQUIRE_KEYS="true",
        SIBLING_BOOTSTRAP_KEY=key.text(),
        SIBLING_MAX_WAITING_REQUESTS=40,
        PYTHONPATH=os.pathsep.join([str(MISCHIEF), os.environ.get("PYTHONPATH", "")]),
    ) as running:
        yield running


@pytest.fixture
def key(guarded):
    return make_key(guarded, f"owner {time.monotonic_ns()}")


@pytest.fixture
def http(guarded, key):
    headers = {"Authorization": f"Bearer {key.text()}"}
    limits = httpx.Limits(max_connections=200)
    with httpx.Client(
        base_url=guarded.url, headers=headers, timeout=240, limits=limits
    ) as open_http:
        yield open_http


@pytest.fixture
def job(guarded, key):
    """A job that does not end by itself within the test."""
    with Client(guarded.url, api_key=key.text()) as client:
        rng = np.random.default_rng(0)
        rows = {f"t{i}": rng.normal(size=(60, 40)) for i in range(60)}
        options = {"k": 5, "selection": "cv", "n_folds": 20, "starts": "many"}
        data = client.upload(rows, name="long")
        job = client.train(data, "rmt-pca", model="long", seed=SLOW, **options)
        yield job
        with contextlib.suppress(Exception):
            job.cancel()


def open_streams(stack, http, job, n):
    return [
        stack.enter_context(http.stream("GET", f"/v1/jobs/{job.id}/events", headers=SSE))
        for _ in range(n)
    ]


def test_streams_are_bounded_per_owner_and_all_see_the_end(guarded, http, job):
    with contextlib.ExitStack() as stack:
        streams = open_streams(stack, http, job, 40)
        assert {response.status_code for response in streams} == {200}
        lines = [response.iter_lines() for response in streams]  # kept, or they would be closed
        assert all(next(own) for own in lines)
        refused = http.get(f"/v1/jobs/{job.id}/events", headers=SSE)
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-streams")
        assert int(refused.headers["retry-after"]) > 0
        # a long poll does not wait then, and another owner is not concerned
        polled = http.get(f"/v1/jobs/{job.id}", params={"wait": 60})
        assert (polled.status_code, polled.headers["retry-after"]) == (200, "1")
        other = {"Authorization": f"Bearer {make_key(guarded, 'other').text()}"}
        assert httpx.get(f"{guarded.url}/v1/jobs", headers=other, timeout=240).status_code == 200
        assert http.post(f"/v1/jobs/{job.id}:cancel").status_code == 202
    assert http.get(f"/v1/jobs/{job.id}", params={"wait": 60}).json()["is_final"]
    response = http.get(f"/v1/jobs/{job.id}/events", headers=SSE)  # there is room again
    assert '"cancelled"' in response.text


def test_a_client_pauses_between_requests_that_found_no_room_to_wait(http, job):
    n_requests = 0

    def count(_):
        nonlocal n_requests
        n_requests += 1

    job._http._transport._client.event_hooks = {"request": [count]}
    with contextlib.ExitStack() as stack:
        streams = open_streams(stack, http, job, 40)
        lines = [response.iter_lines() for response in streams]  # kept, or they would be closed
        assert all(next(own) for own in lines)
        with pytest.raises(TimeoutError):
            job.wait_for_end(timeout_s=2)
    assert 2 <= n_requests <= 4


def test_a_client_waits_for_longer_than_the_timeout_of_a_request(guarded, key, job):
    with Client(guarded.url, api_key=key.text(), timeout_s=4) as client:
        with pytest.raises(TimeoutError, match="goes on"):
            client.job(job.id).wait(timeout_s=5)
        assert not client.job(job.id).refresh(wait_s=5).info["is_final"]


@pytest.mark.sql
def test_every_long_poll_returns_when_the_job_ends(http, job):
    found = []

    def poll():
        response = http.get(f"/v1/jobs/{job.id}", params={"wait": 60})
        found.append(response.json()["state"])

    threads = [threading.Thread(target=poll) for _ in range(30)]
    for thread in threads:
        thread.start()
    assert http.post(f"/v1/jobs/{job.id}:cancel").status_code == 202
    for thread in threads:
        thread.join()
    assert found == ["cancelled"] * 30


def test_a_stream_ends_when_its_key_is_revoked(guarded, http, key, job):
    with http.stream("GET", f"/v1/jobs/{job.id}/events", headers=SSE) as response:
        lines = response.iter_lines()
        next(lines)
        with guarded.open_database() as database, database.write() as session:
            assert store.revoke(session, key.id)
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    states = [event["data"]["state"] for event in events if event["kind"] == "state"]
    assert "succeeded" not in states
    assert http.get(f"/v1/jobs/{job.id}").status_code == 401


@pytest.mark.sql
def test_one_query_serves_every_request_that_waits(database):
    """Each of 500 streams queried the database five times a second before."""
    n_sessions = 0
    read = database.read

    def counted():
        nonlocal n_sessions
        n_sessions += 1
        return read()

    async def run():
        waiting = WaitingRequests(max_per_owner=500)
        watcher = JobWatcher(SimpleNamespace(read=counted), waiting)
        with contextlib.ExitStack() as stack:
            for i in range(500):
                assert waiting.has_room("a")
                stack.enter_context(watcher.watch(f"job_{i}", "a"))
            assert not waiting.has_room("a")
            assert waiting.has_room("b")
            changes = [watcher.next_change(f"job_{i}", None, 30) for i in range(500)]
            found = await asyncio.gather(*changes)
            assert all(snapshot.is_final() for snapshot in found)  # there are no such jobs
        assert waiting.has_room("a")
        assert watcher._task is not None
        await watcher._task  # ends, since no request waits

    asyncio.run(run())
    assert n_sessions <= 3


def test_equal_reads_at_the_same_time_are_one(database):
    async def run():
        watcher = JobWatcher(database, WaitingRequests(max_per_owner=1))
        calls = []
        read = lambda: calls.append(1) or time.sleep(0.05) or len(calls)  # noqa: E731
        assert await asyncio.gather(*(watcher.share(("k",), read) for _ in range(50))) == [1] * 50
        assert await watcher.share(("k",), read) == 2

    asyncio.run(run())
