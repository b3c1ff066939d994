import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from service.jobs.queue import admission, queries, store
from service.jobs.queue.outcome import without_paths
from service.jobs.schemas import Job
from service.storage.blobs import BlobStore
from service.storage.database import now
from service.storage.job_states import (
    ACTIVE,
    FINAL,
    TRANSITIONS,
    AttemptCommand,
    JobState,
    ShownJobState,
)
from service.storage.ordered_pages import PageRequest
from service.storage.tables import BlobRow, JobRow

pytestmark = pytest.mark.sql

LOST = store.AttemptFailure("worker-lost", "gone")


@pytest.fixture
def begin(database):
    """Return a function that starts a queued job, as a worker does."""

    def run(job_id, worker="w"):
        with database.write() as session:
            job = store.get(session, job_id)
            assert store.submit(session, [job])
        with database.write() as session:
            assert store.claim(session, job_id, job.attempt + 1, worker)
        return job.attempt + 1

    return run


def test_a_final_state_can_be_reached_from_every_state():
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


def test_jobs_are_listed_by_the_state_that_they_show(database, new_job, begin):
    new_job()
    running, cancelling, succeeded, cancelled = (new_job() for _ in range(4))
    for job_id in (running, cancelling, succeeded):
        begin(job_id)
    with database.write() as session:
        for job_id in (cancelling, succeeded, cancelled):
            store.request_cancel(session, store.get(session, job_id))
        assert store.move(session, succeeded, 1, JobState.RUNNING, JobState.SUCCEEDED)

    def listed(state):
        with database.read() as session:
            where = queries.JobFilter(state=state)
            rows = queries.list_page(
                session, "ada", where, PageRequest("-created_at", None, 9)
            ).rows
            return {
                row.id: Job.from_row(row, None, [], result=None, child_jobs={}).state
                for (row,) in rows
            }

    shown = listed(None)
    assert set(ShownJobState) == {*JobState, ShownJobState.CANCELLING}
    assert sorted(shown.values()) == ["cancelled", "cancelling", "queued", "running", "succeeded"]
    for state in ShownJobState:
        assert listed(state) == {job_id: own for job_id, own in shown.items() if own == state}


def test_an_illegal_transition_raises_and_changes_nothing(database, new_job, read_job):
    job_id = new_job()
    with pytest.raises(ValueError, match="cannot move"), database.write() as session:
        store.move(session, job_id, 0, JobState.QUEUED, JobState.SUCCEEDED)
    assert read_job(job_id).state == JobState.QUEUED


def test_a_job_that_was_cancelled_since_it_was_read_is_not_submitted(database, new_job, read_job):
    job_id = new_job()
    with database.read() as session:
        read = store.get(session, job_id)
    with database.write() as session:
        store.request_cancel(session, store.get(session, job_id))
    with database.write() as session:
        assert store.submit(session, [read]) == []
    assert read_job(job_id).state == JobState.CANCELLED


@pytest.mark.parametrize("end", sorted(FINAL))
def test_a_running_job_can_end_in_each_final_state(database, new_job, begin, read_job, end):
    job_id = new_job()
    begin(job_id)
    with database.write() as session:
        assert store.move(session, job_id, 1, JobState.RUNNING, end)
    assert (read_job(job_id).state, read_job(job_id).finished_at is None) == (end, False)


def test_only_one_of_many_workers_claims_an_attempt(database, new_job):
    job_id = new_job()
    with database.write() as session:
        assert store.submit(session, [store.get(session, job_id)])
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


def test_a_late_attempt_changes_nothing(database, new_job, read_job, begin):
    job_id = new_job()
    first = begin(job_id, "w1")
    with database.write() as session:
        assert store.mark_lost(session, store.get(session, job_id), LOST)
    second = begin(job_id, "w2")
    assert second == first + 1
    with database.write() as session:
        for attempt in (first, second):  # w2 has claimed the second one
            assert store.record_heartbeat(session, job_id, attempt, "w1", {"iteration": 9}) is None
    with database.write() as session:
        assert not store.move(session, job_id, first, JobState.RUNNING, JobState.SUCCEEDED)
    row = read_job(job_id)
    assert (row.state, row.attempt, row.worker, row.progress) == ("running", second, "w2", None)


def test_a_heartbeat_stores_progress_and_returns_commands(database, new_job, read_job, begin):
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


def test_lost_attempts_are_retried_up_to_the_maximum(database, new_job, read_job, begin):
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


@pytest.mark.parametrize(("requested", "used"), [(None, 2), (3, 3)])
def test_a_retry_on_another_machine_has_the_threads_of_the_first_attempt(
    database, new_job, read_job, requested, used
):
    job_id = new_job(threads=requested)
    for attempt, share in ((1, 2), (2, 5)):
        with database.write() as session:
            assert store.submit(session, [store.get(session, job_id)])
        with database.write() as session:
            assert store.claim(session, job_id, attempt, f"w{attempt}", threads=share)
        assert read_job(job_id).threads == used
        with database.write() as session:
            store.mark_lost(session, store.get(session, job_id), LOST)


def test_a_released_attempt_is_not_counted(database, new_job, read_job, begin):
    job_id = new_job(max_attempts=1)
    begin(job_id)
    released = store.AttemptFailure("requeued", "stopped", is_counted=False)
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), released)
    row = read_job(job_id)
    assert (row.state, row.counted_attempts) == ("queued", 0)


def test_a_submitted_job_that_never_started_is_queued_again_uncounted(database, new_job, read_job):
    job_id = new_job(max_attempts=1)
    with database.write() as session:
        store.submit(session, [store.get(session, job_id)])
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), LOST)
    row = read_job(job_id)
    assert (row.state, row.counted_attempts, row.attempt) == ("queued", 0, 1)


def test_a_lost_job_with_a_cancel_request_is_cancelled_and_not_retried(
    database, new_job, read_job, begin
):
    job_id = new_job()
    begin(job_id)
    with database.write() as session:
        store.request_cancel(session, store.get(session, job_id))
        store.mark_lost(session, store.get(session, job_id), LOST)
    assert read_job(job_id).state == "cancelled"


def test_a_queued_job_is_cancelled_at_once_and_a_submitted_one_before_it_starts(
    database, new_job, read_job
):
    queued, submitted = new_job(), new_job()
    with database.write() as session:
        store.request_cancel(session, store.get(session, queued))
        store.submit(session, [store.get(session, submitted)])
        store.request_cancel(session, store.get(session, submitted))
    assert read_job(queued).state == "cancelled"
    assert read_job(submitted).state == "submitted"
    with database.write() as session:
        assert not store.claim(session, submitted, 1, "w")
    assert read_job(submitted).state == "cancelled"


def test_the_queue_is_ordered_by_priority_then_fairness_then_age(database, new_job):
    ada = [new_job("ada") for _ in range(3)]
    bob = [new_job("bob") for _ in range(2)]
    urgent = new_job("ada", priority=5)
    with database.write() as session:
        order = [job.id for job in admission.next_queued(session, 10)]
    assert order[0] == urgent
    # ada's urgent job counts as her first, so bob's first comes before her others
    assert order[1:] == [bob[0], ada[0], bob[1], ada[1], ada[2]]


def test_an_owner_with_active_jobs_comes_after_one_without(database, new_job):
    first = new_job("ada")
    with database.write() as session:
        store.submit(session, [store.get(session, first)])
    ada, bob = new_job("ada"), new_job("bob")
    with database.write() as session:
        assert [job.id for job in admission.next_queued(session, 2)] == [bob, ada]


def test_every_transition_and_heartbeat_adds_an_event_in_order(database, new_job, begin):
    job_id = new_job()
    attempt = begin(job_id)
    with database.write() as session:
        store.record_heartbeat(session, job_id, attempt, "w", {"iteration": 1})
    with database.write() as session:
        store.move(session, job_id, attempt, JobState.RUNNING, JobState.SUCCEEDED)
    with database.read() as session:
        events = queries.events_after(session, job_id, 0, 100)
    kinds = [e.data.get("state", e.kind) for e in events]
    assert kinds == ["queued", "submitted", "running", "progress", "succeeded"]
    assert [e.attempt for e in events] == [0, 1, 1, 1, 1]


def test_attempts_have_their_worker_and_outcome(database, new_job, begin):
    job_id = new_job()
    begin(job_id, "w1")
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), LOST)
    begin(job_id, "w2")
    released = store.AttemptFailure("requeued", "stopped", is_counted=False)
    with database.write() as session:
        store.mark_lost(session, store.get(session, job_id), released)
    attempt = begin(job_id, "w3")
    with database.write() as session:
        store.move(session, job_id, attempt, JobState.RUNNING, JobState.SUCCEEDED)
    with database.read() as session:
        attempts = queries.attempts_of(session, [job_id])[job_id]
    assert [(a.attempt, a.worker, a.outcome) for a in attempts] == [
        (1, "w1", "lost"),
        (2, "w2", "released"),
        (3, "w3", "succeeded"),
    ]
    assert attempts[0].error == {"code": "worker-lost", "detail": "gone", "attempt": 1}
    assert attempts[2].error is None
    assert all(a.finished_at >= a.started_at for a in attempts)


def test_a_release_request_is_for_one_worker_and_one_attempt(database, new_job, begin):
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


def test_a_checkpoint_replaces_the_previous_one_and_is_deleted_with_the_end(
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


def test_a_postponed_job_waits_longer_each_time_and_counts_no_attempt(
    database, new_job, read_job, begin
):
    job_id, other = new_job(max_attempts=1, priority=9), new_job()
    delays = []
    for _ in range(3):
        begin(job_id)
        requested_at = now()
        with database.write() as session:
            row = store.get(session, job_id)
            assert store.postpone(session, row, "resource-shortage", "No space left on device")
        row = read_job(job_id)
        delays.append(round((row.retry_at - requested_at).total_seconds()))
        assert (row.state, row.counted_attempts) == ("queued", 0)
        assert row.error["code"] == "resource-shortage"
        with database.write() as session:
            assert [job.id for job in admission.next_queued(session, 9)] == [other]
        assert queries.shortage(database) == "1 jobs will be tried again: No space left on device"
    assert delays == [2, 4, 8]
    with database.write() as session:
        session.execute(sa.update(JobRow).where(JobRow.id == job_id).values(retry_at=now()))
    with database.write() as session:
        assert {job.id for job in admission.next_queued(session, 9)} == {job_id, other}
    begin(job_id)
    assert read_job(job_id).retry_at is None
    assert queries.shortage(database) is None


def test_a_postponed_job_does_not_wait_for_a_clock_that_was_set_back(database, new_job, begin):
    job_id = new_job()
    begin(job_id)
    with database.write() as session:
        row = store.get(session, job_id)
        assert store.postpone(session, row, "resource-shortage", "No space left on device")

    def is_due(after_s):
        at = now() + timedelta(seconds=after_s)
        with database.write() as session:
            session.execute(sa.update(JobRow).where(JobRow.id == job_id).values(retry_at=at))
        with database.write() as session:
            return [job.id for job in admission.next_queued(session, 9)] == [job_id]

    assert not is_due(store.MAX_DELAY_S - 60)
    assert is_due(3600)  # the clock was an hour ahead when the job was postponed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/srv/app/service/x.py", line 3', 'File "x.py", line 3'),
        (
            "[Errno 2] No such file: '/data/job_1.model'",
            "[Errno 2] No such file: 'job_1.model'",
        ),
        ("task 'a/b' has 3 of 4 features, see http://host/a/b", None),
        ("1/2 of /proc/self", "1/2 of self"),
    ],
)
def test_texts_keep_the_names_of_files_only(text, expected):
    assert without_paths(text) == (text if expected is None else expected)


def test_a_claim_whose_commit_was_cut_off_is_recognised(database, new_job):
    job_id = new_job()
    with database.write() as session:
        store.submit(session, [store.get(session, job_id)])
    with database.write() as session:
        assert not store.owns(session, job_id, 1, "w")
        assert store.claim(session, job_id, 1, "w")
    with database.read() as session:
        assert store.owns(session, job_id, 1, "w")
        assert not store.owns(session, job_id, 1, "another")
        assert not store.owns(session, job_id, 2, "w")
