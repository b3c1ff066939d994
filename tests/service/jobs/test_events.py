"""Events of a job, as pages and as a stream."""

import json

import numpy as np
import pytest

from service.http.paging import _write_token

pytestmark = pytest.mark.sql


@pytest.fixture(scope="module")
def job(client):
    rng = np.random.default_rng(0)
    # so many that the job has progress on a fast machine
    rows = {f"t{i}": rng.normal(size=(40, 24)) for i in range(160)}
    choice = {"k": 5, "selection": "cv", "n_folds": 5, "starts": "many"}
    return client.train(client.upload(rows, name="events"), "rmt-pca", model="events", **choice)


def stream(http, job, **headers):
    """Return the events of a stream, which ends with the job."""
    path = f"/v1/jobs/{job.id}/events"
    events = []
    with http.stream("GET", path, headers={"Accept": "text/event-stream", **headers}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
            elif line.startswith("id: "):
                assert int(line.removeprefix("id: ")) == events[-1]["id"]
    return events


def test_the_stream_has_every_event_once_and_ends_with_the_job(http, job):
    events = stream(http, job)
    states = [e["data"]["state"] for e in events if e["kind"] == "state"]
    assert states == ["queued", "submitted", "running", "succeeded"]
    ids = [e["id"] for e in events]
    assert ids == sorted(set(ids))
    progress = [e["data"] for e in events if e["kind"] == "progress"]
    assert progress
    for step in progress:
        assert step.keys() >= {"iteration", "objective", "elapsed_s", "remaining_s", "fraction"}
    job.wait()
    assert events == list(job.events())  # the pages have the same events


def test_a_broken_stream_continues_after_the_last_event(http, job):
    job.wait()
    events = stream(http, job)
    middle = events[len(events) // 2]["id"]
    rest = stream(http, job, **{"Last-Event-ID": str(middle)})
    assert rest == [e for e in events if e["id"] > middle]


def test_pages_have_the_requested_size_and_every_event(http, job):
    job.wait()
    found, query = [], {"page_size": 2}
    while "page_token" not in query or query["page_token"] is not None:
        page = http.get(f"/v1/jobs/{job.id}/events", params=query).json()
        assert len(page["items"]) <= 2
        found += page["items"]
        query["page_token"] = page["next_page_token"]
    assert found == list(job.events())
    middle = found[len(found) // 2]["id"]
    assert list(job.events(after_id=middle)) == [event for event in found if event["id"] > middle]


@pytest.mark.parametrize("key", ["x", "-1", "1.5", "9" * 19, "\N{SUPERSCRIPT TWO}"])
def test_a_token_of_another_collection_is_refused(http, job, key):
    params = {"page_token": _write_token(key)}
    refused = http.get(f"/v1/jobs/{job.id}/events", params=params)
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-page-token")
