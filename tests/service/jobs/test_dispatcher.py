"""What the dispatcher does in one tick."""

from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from service.jobs.queue.dispatcher import Dispatcher


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


def test_without_jobs_it_sends_one_query_and_a_new_job_is_submitted_at_the_next_tick(
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
    assert len(queries) == 1
    job_id = new_job()
    dispatcher._tick()
    assert pool.submitted == [(job_id, 1)]
