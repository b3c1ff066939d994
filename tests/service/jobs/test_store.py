import threading

import pytest
import sqlalchemy as sa

from service.blobs import BlobStore
from service.jobs.queue import queries, store
from service.jobs.queue.states import ACTIVE, FINAL, TRANSITIONS, AttemptCommand, JobState
from service.rows import BlobRow

LOST = store.AttemptFailure("worker-lost", "gone")


@pytest.fixture
def begin(database):
    """Return a function that brings a queued job to running, as a worker would."""

    def run(job_id, worker="w"):
        with database.write() as session:
            job = store.get(session, job_id)
            assert store.submit(session, job)
        with database.write() as session:
            assert store.claim(session, job_id, job.attempt + 1, worker)
        return job.attempt + 1

    return run


def test_every_state_is_final_or_leads_on_and_every_move_ends_in_a_state():
    assert set(TRANSITIONS) == set(JobState)
    assert {s for moves in TRANSITIONS.values() for s in moves} <= set(JobState)
    assert not FINAL & ACTIVE
    # from every state a final one can be reached
    for state in JobState:
        seen, edge = {state}, {state}
        while edge:
            edge = {n for s in edge for n in TRANSITIONS[s]} - seen
            seen |= edge
        assert seen & FINAL


def test_an_illegal_move_is_a_defect_and_changes_nothing(database, new_job, read_job):
    job_id = new_job()
    with pytest.raises(ValueError, match="cannot move"), database.write() as session:
        store.move(session, job_id, 0, JobState.QUEUED, JobState.SUCCEEDED)
    assert read_job(job_id).state == JobState.QUEUED


def test_only_one_of_many_claimants_begins_an_attempt(database, new_job):
    job_id = new_job()
    with database.write() as session:
        assert store.submit(session, store.get(session, job_id))
    claimed = []

    def claim(worker):
        with database.write() as session:
            claimed.append(store.claim(session, job_id, 1, worker))

    threads = [threading.Thread(target=claim, args=(f"w{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == [False] * 7 + [True]


def test_a_late_attempt_can_neither_beat_nor_end_the_job(database, new_job, read_job, begin):
    job_id = new_job()
    first = begin(job_id, "w1")
    with database.write() as session:
        assert store.mark_lost(session, store.get(session, job_id), LOST)
    second = begin(job_id, "w2")
    assert second == first + 1
    with database.write() as session:
        assert store.record_heartbeat(session, job_id, first, "w1", {"iteration": 9}) is None
    with database.write() as session:
        assert not store.move(session, job_id, first, JobState.RUNNING, JobState.SUCCEEDED)
    row = read_job(job_id)
    assert (row.state, row.attempt, row.worker, row.progress) == ("running", second, "w2", None)


def test_a_beat_carries_progress_out_and_the_cancel_flag_in(database, new_job, read_job, begin):
    job_id = new_job()
    attempt = begin(job_id)
    with database.write() as session:
        assert (
            store.record_heartbeat(session, job_id, attempt, "w", {"iteration": 1})
            == AttemptCommand.CONTINUE
        )
    with database.write() as session:
        store.request_cancel(session, store.get(session, job_id))
    with database.write() as session:
        assert store.record_heartbeat(session, job_id, attempt, "w", None) == AttemptCommand.CANCEL
    row = read_job(job_id)
    assert row.heartbeat == 2
    assert row.progress == {"iteration": 1}


def test_lost_attempts_are_tried_again_until_they_are_used_up(database, new_job, read_job, begin):
    job_id = new_job(max_attempts=2)
    begin(job_id)
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), LOST)
    assert read_job(job_id).state == "queued"
    begin(job_id)
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), LOST)
    row = read_job(job_id)
    assert row.state == "failed"
    assert row.error == {"code": "worker-lost", "detail": "gone", "attempt": 2}


@pytest.mark.parametrize(("asked", "had"), [(None, 2), (3, 3)])
def test_a_retry_on_another_machine_has_the_threads_of_the_first_attempt(
    database, new_job, read_job, asked, had
):
    job_id = new_job(threads=asked)
    for attempt, share in ((1, 2), (2, 5)):
        with database.write() as session:
            assert store.submit(session, store.get(session, job_id))
        with database.write() as session:
            assert store.claim(session, job_id, attempt, f"w{attempt}", threads=share)
        assert read_job(job_id).threads == had
        with database.write() as session:
            store.mark_lost(session, store.get(session, job_id), LOST)


def test_a_released_attempt_is_not_charged(database, new_job, read_job, begin):
    job_id = new_job(max_attempts=1)
    begin(job_id)
    released = store.AttemptFailure("released", "stopped", is_counted=False)
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), released)
    row = read_job(job_id)
    assert (row.state, row.counted_attempts) == ("queued", 0)


def test_a_submitted_job_that_never_began_is_queued_again_uncharged(database, new_job, read_job):
    job_id = new_job(max_attempts=1)
    with database.write() as session:
        store.submit(session, store.get(session, job_id))
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), LOST)
    row = read_job(job_id)
    assert (row.state, row.counted_attempts, row.attempt) == ("queued", 0, 1)


def test_a_cancelled_job_that_is_lost_is_cancelled_and_not_tried_again(
    database, new_job, read_job, begin
):
    job_id = new_job()
    begin(job_id)
    with database.write() as session:
        store.request_cancel(session, store.get(session, job_id))
        store.mark_lost(session, store.get(session, job_id), LOST)
    assert read_job(job_id).state == "cancelled"


def test_a_waiting_job_is_cancelled_at_once_and_a_submitted_one_before_it_begins(
    database, new_job, read_job
):
    waiting, submitted = new_job(), new_job()
    with database.write() as session:
        store.request_cancel(session, store.get(session, waiting))
        store.submit(session, store.get(session, submitted))
        store.request_cancel(session, store.get(session, submitted))
    assert read_job(waiting).state == "cancelled"
    assert read_job(submitted).state == "submitted"
    with database.write() as session:
        assert not store.claim(session, submitted, 1, "w")
    assert read_job(submitted).state == "cancelled"


def test_the_queue_goes_by_priority_then_fairness_then_age(database, new_job):
    ada = [new_job("ada") for _ in range(3)]
    bob = [new_job("bob") for _ in range(2)]
    urgent = new_job("ada", priority=5)
    with database.read() as session:
        order = [job.id for job in queries.next_queued(session, 10)]
    assert order[0] == urgent
    # ada's urgent one counts as her first turn, so bob goes before her others
    assert order[1:] == [bob[0], ada[0], bob[1], ada[1], ada[2]]


def test_an_owner_with_busy_workers_waits_behind_one_without(database, new_job):
    first = new_job("ada")
    with database.write() as session:
        store.submit(session, store.get(session, first))
    ada, bob = new_job("ada"), new_job("bob")
    with database.read() as session:
        assert [job.id for job in queries.next_queued(session, 2)] == [bob, ada]


def test_every_move_and_beat_leaves_an_event_in_order(database, new_job, begin):
    job_id = new_job()
    attempt = begin(job_id)
    with database.write() as session:
        store.record_heartbeat(session, job_id, attempt, "w", {"iteration": 1})
    with database.write() as session:
        store.move(session, job_id, attempt, JobState.RUNNING, JobState.SUCCEEDED)
    with database.read() as session:
        events = queries.events_after(session, job_id, 0, 100)
    told = [e.data.get("state", e.kind) for e in events]
    assert told == ["queued", "submitted", "running", "progress", "succeeded"]
    assert [e.attempt for e in events] == [0, 1, 1, 1, 1]


def test_the_attempts_tell_who_tried_and_how_it_ended(database, new_job, begin):
    job_id = new_job()
    begin(job_id, "w1")
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), LOST)
    begin(job_id, "w2")
    released = store.AttemptFailure("released", "stopped", is_counted=False)
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), released)
    attempt = begin(job_id, "w3")
    with database.write() as session:
        store.move(session, job_id, attempt, JobState.RUNNING, JobState.SUCCEEDED)
    with database.read() as session:
        told = queries.attempts_of(session, [job_id])[job_id]
    assert [(a.attempt, a.worker, a.outcome) for a in told] == [
        (1, "w1", "lost"),
        (2, "w2", "released"),
        (3, "w3", "succeeded"),
    ]
    assert told[0].error == {"code": "worker-lost", "detail": "gone", "attempt": 1}
    assert told[2].error is None
    assert all(a.finished_at >= a.started_at for a in told)


def test_a_release_is_asked_of_one_worker_and_forgotten_by_the_next_attempt(
    database, new_job, begin
):
    job_id, other = new_job(), new_job()
    attempt = begin(job_id, "w1")
    begin(other, "w2")
    with database.write() as session:
        store.request_release(session, worker="w1")
    with database.write() as session:
        assert (
            store.record_heartbeat(session, job_id, attempt, "w1", None) == AttemptCommand.RELEASE
        )
        assert store.record_heartbeat(session, other, 1, "w2", None) == AttemptCommand.CONTINUE
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), LOST)
    attempt = begin(job_id, "w3")
    with database.write() as session:
        assert (
            store.record_heartbeat(session, job_id, attempt, "w3", None) == AttemptCommand.CONTINUE
        )


def test_a_checkpoint_replaces_the_one_before_and_ends_with_the_job(
    database, new_job, read_job, begin, tmp_path
):
    blobs = BlobStore(database, tmp_path / "cache", cache_bytes=10**9)

    def stored():
        with database.read() as session:
            return session.scalar(sa.select(sa.func.count()).select_from(BlobRow))

    job_id = new_job()
    attempt = begin(job_id)
    for content in (b"first", b"second"):
        (tmp_path / "state").write_bytes(content)
        with database.write() as session:
            blob = blobs.put_file(session, tmp_path / "state")
            store.set_checkpoint(session, job_id, blob.id)
        assert stored() == 1
    blobs.copy(read_job(job_id).checkpoint_blob_id, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"second"
    with database.write() as session:
        store.move(session, job_id, attempt, JobState.RUNNING, JobState.SUCCEEDED)
    assert read_job(job_id).checkpoint_blob_id is None
    assert stored() == 0
