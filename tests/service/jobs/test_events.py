"""What happened to a job, by page and as a stream."""

import json

import numpy as np
import pytest


@pytest.fixture(scope="module")
def job(client):
    rng = np.random.default_rng(0)
    rows = {f"t{i}": rng.normal(size=(40, 24)) for i in range(40)}
    choice = {"k": 5, "selection": "cv", "n_folds": 5, "starts": "many"}
    return client.train(client.upload(rows, name="events"), "rmt-pca", model="events", **choice)


def stream(http, job, **headers):
    """Return the events of a stream that the service ends with the job."""
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


def test_the_stream_tells_everything_once_and_ends_with_the_job(http, job):
    events = stream(http, job)
    states = [e["data"]["state"] for e in events if e["kind"] == "state"]
    assert states == ["queued", "submitted", "running", "succeeded"]
    ids = [e["id"] for e in events]
    assert ids == sorted(set(ids))
    progress = [e["data"] for e in events if e["kind"] == "progress"]
    assert progress
    for told in progress:
        assert told.keys() >= {"iteration", "objective", "elapsed_s", "remaining_s", "fraction"}
    job.wait()
    assert events == list(job.events())  # the pages tell the same


def test_a_stream_that_broke_goes_on_after_the_last_event_seen(http, job):
    job.wait()
    events = stream(http, job)
    middle = events[len(events) // 2]["id"]
    rest = stream(http, job, **{"Last-Event-ID": str(middle)})
    assert rest == [e for e in events if e["id"] > middle]


def test_pages_are_of_the_size_asked_for_and_hold_everything(http, job):
    job.wait()
    found, after = [], 0
    while after is not None:
        query = {"after": after, "page_size": 2}
        page = http.get(f"/v1/jobs/{job.id}/events", params=query).json()
        assert len(page["items"]) <= 2
        found += page["items"]
        after = page["next_after"]
    assert found == list(job.events())
