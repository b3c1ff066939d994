"""The stream of changes of all jobs and datasets of an owner, which pages follow."""

import numpy as np
import pytest

from service.jobs.queue import queries
from service.storage.tables import EventRow
from tests.service.stored import dataset_row, job_row

pytestmark = pytest.mark.sql

PATH = "/v1/jobs:changes"


def test_a_stream_tells_of_jobs_and_of_datasets(client, http, dataset):
    with http.stream("GET", PATH, headers={"Accept": "text/event-stream"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        wait_for(lines, "event: start")
        client.train(dataset, "pca", model="changes", k=1)
        wait_for(lines, "event: jobs")
        rows = np.random.default_rng(8).standard_normal((9, 2))
        uploaded = client.upload({"a": rows, "b": rows + 1}, name="changes")
        wait_for(lines, "event: datasets")
    http.delete(f"/v1/datasets/{uploaded.id}")


def wait_for(lines, line):
    """Read a stream up to a line; the test's time limit ends it where the line does not come."""
    assert line in lines


def test_changes_are_only_a_stream(http):
    refused = http.get(PATH)
    assert (refused.status_code, refused.json()["code"]) == (406, "not-acceptable")


def test_only_events_of_the_owner_above_the_floor_count(database):
    with database.write() as session:
        session.add(dataset_row())
        session.flush()
        session.add_all(job_row(f"job_{owner}", owner=owner) for owner in ("ada", "bob"))
        session.flush()
        for owner in ("ada", "bob", "ada"):
            session.add(EventRow(job_id=f"job_{owner}", attempt=0, kind="state", data={}))
            session.flush()
    with database.read() as session:
        last, n_events = queries.events_of_owner(session, "ada", None)
        assert n_events == 0
        assert queries.events_of_owner(session, "ada", last - 3) == (last, 2)
        assert queries.events_of_owner(session, "bob", last - 3) == (last, 1)
        assert queries.events_of_owner(session, "bob", last - 1) == (last, 0)
