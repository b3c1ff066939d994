"""What the dispatcher does in one tick."""

import time
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from service.database import Database
from service.job_states import JobState
from service.jobs.queue.dispatcher import Dispatcher
from service.rows import JobRow


class Pool:
    """A pool with a free slot, whose attempts do not end."""

    is_own = True

    def __init__(self):
        self.submitted = []

    def is_closed(self):
        return False

    def free_slots(self):
        return ["worker"]

    def submit(self, job_id, attempt, *, worker, on_done):
        del worker, on_done
        self.submitted.append((job_id, attempt))
        return SimpleNamespace(status="pending", done=lambda: False)


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def dispatcher(database, pool):
    limits = ("heartbeat_timeout_s", "submit_timeout_s", "drain_timeout_s", "stop_timeout_s")
    return Dispatcher(
        database, open_engine=lambda: pool, lease_timeout_s=600, **dict.fromkeys(limits, 60)
    )


def test_without_jobs_it_sends_at_most_one_query_and_submits_a_new_job_at_the_next_tick(
    database, dispatcher, pool, new_job
):
    dispatcher._tick()  # takes the lease
    queries = []
    sa.event.listen(
        database.engine,
        "before_cursor_execute",
        lambda _c, _cursor, statement, *_: "FROM jobs" in statement and queries.append(1),
    )
    dispatcher._tick()
    assert len(queries) <= (0 if database.is_sqlite else 1)  # PostgreSQL reports no changes
    job_id = new_job()
    dispatcher._tick()
    assert pool.submitted == [(job_id, 1)]


def test_a_job_that_another_process_created_is_submitted_at_the_next_tick(
    database, dispatcher, pool, new_job
):
    job_id = new_job()
    queue, unqueue = (
        sa.update(JobRow).where(JobRow.id == job_id).values(state=state)
        for state in (JobState.QUEUED, JobState.CANCELLED)
    )
    other = Database(database.url)
    try:
        for _ in range(3):
            with other.write() as session:
                session.execute(unqueue)
            time.sleep(database.change_token_ttl_s)
            for _ in range(2):
                dispatcher._tick()
            assert not pool.submitted
        with other.write() as session:
            session.execute(queue)
        time.sleep(database.change_token_ttl_s)
        dispatcher._tick()
        assert pool.submitted == [(job_id, 1)]
    finally:
        other.close()
