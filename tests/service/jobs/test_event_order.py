"""Events of a job that several sessions write at once."""

import threading

import pytest

from service.jobs.queue import queries, store
from service.storage.job_states import JobState

pytestmark = pytest.mark.sql

N_EVENTS = 60


def test_a_reader_that_follows_the_ids_sees_every_event(database, new_job):
    """A heartbeat takes an id, and another session commits a higher one before it."""
    job_id = new_job()
    with database.write() as session:
        store.submit(session, [store.get(session, job_id)])
    with database.write() as session:
        assert store.claim(session, job_id, 1, "w")

    def report(number):
        for step in range(N_EVENTS):
            with database.write() as session:
                progress = {"iteration": step, "loop": str(number)}
                store.record_heartbeat(session, job_id, 1, "w", progress)

    seen = []

    def follow():
        last = 0
        while len(seen) == 0 or seen[-1].data.get("state") != JobState.SUCCEEDED:
            with database.read() as session:
                found = queries.events_after(session, job_id, last, 1000)
            seen.extend(found)
            last = seen[-1].id

    reader = threading.Thread(target=follow)
    writers = [threading.Thread(target=report, args=(number,)) for number in range(4)]
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    with database.write() as session:
        assert store.move(session, job_id, 1, JobState.RUNNING, JobState.SUCCEEDED)
    reader.join()
    with database.read() as session:
        stored = queries.events_after(session, job_id, 0, 10_000)
    assert [event.id for event in seen] == [event.id for event in stored]
    assert len(stored) == 4 * N_EVENTS + 4


def test_an_event_takes_its_id_after_the_row_is_locked(database, new_job):
    """The lower id is committed first, even if its transaction takes longer."""
    job_id = new_job()
    has_id, may_commit = threading.Event(), threading.Event()

    def slow():
        with database.write() as session:
            store.add_event(session, job_id, 0, "progress", {"writer": "slow"})
            session.flush()
            has_id.set()
            may_commit.wait(20)

    def fast():
        with database.write() as session:
            store.add_event(session, job_id, 0, "progress", {"writer": "fast"})

    first, second = threading.Thread(target=slow), threading.Thread(target=fast)
    first.start()
    assert has_id.wait(120)
    second.start()
    second.join(0.5)
    assert second.is_alive()  # it waits for the first
    may_commit.set()
    first.join()
    second.join()
    with database.read() as session:
        found = [e.data.get("writer") for e in queries.events_after(session, job_id, 0, 9)]
    assert found == [None, "slow", "fast"]
