"""What the dispatcher does in one tick."""

import math
import threading
import time
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from service.jobs.queue.dispatcher import Dispatcher
from service.jobs.queue.lease import LEASE_NAME
from service.processes.lifetime import ProcessIdentity
from service.storage.database import Database
from service.storage.job_states import JobState
from service.storage.tables import JobRow, LeaseRow

pytestmark = pytest.mark.sql


class Pool:
    """A pool with a free slot, whose attempts end with ``has_ended``."""

    is_own = True

    def __init__(self):
        self.submitted = []
        self.has_ended = False
        self.n_closed = 0

    def is_closed(self):
        return False

    def close(self):
        self.n_closed += 1

    def free_slots(self):
        return ["worker"]

    def submit(self, job_id, attempt, *, worker, on_done):
        del worker, on_done
        self.submitted.append((job_id, attempt))
        return SimpleNamespace(status="pending", done=lambda: self.has_ended)


@pytest.fixture
def pool():
    return Pool()


def new_dispatcher(database, open_engine, *, lease_timeout_s=600):
    limits = ("heartbeat_timeout_s", "submit_timeout_s", "drain_timeout_s", "stop_timeout_s")
    return Dispatcher(
        database,
        open_engine=open_engine,
        lease_timeout_s=lease_timeout_s,
        **dict.fromkeys(limits, 60),
    )


@pytest.fixture
def dispatcher(database, pool):
    return new_dispatcher(database, lambda: pool)


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


def n_renewals(database):
    with database.read() as session:
        lease = session.get(LeaseRow, LEASE_NAME)
        return 0 if lease is None else lease.renewals


def test_the_lease_is_renewed_while_a_pool_is_opened(database, pool, new_job, wait_until):
    """Or another process would open a pool beside it."""
    may_open = threading.Event()

    def open_engine():
        assert may_open.wait(600)
        return pool

    dispatcher = new_dispatcher(database, open_engine, lease_timeout_s=1)
    job_id = new_job()
    tick = threading.Thread(target=dispatcher._tick)
    tick.start()
    try:
        wait_until(lambda: n_renewals(database) >= 4)
        assert dispatcher.is_leader()
        assert not pool.submitted
    finally:
        may_open.set()
        tick.join()
    assert pool.submitted == [(job_id, 1)]


def test_a_dispatcher_that_loses_its_lease_while_it_opens_a_pool_submits_nothing(
    database, pool, new_job, wait_until
):
    def open_engine():
        lose_lease(database)
        wait_until(lambda: not dispatcher.is_leader())
        return pool

    dispatcher = new_dispatcher(database, open_engine, lease_timeout_s=1)
    new_job()
    dispatcher._tick()
    assert not pool.submitted
    lose_lease(database)  # the other one renews it
    dispatcher._tick()
    assert pool.n_closed == 1


def test_a_pool_is_closed_once_the_lease_is_lost_and_its_jobs_have_ended(
    database, dispatcher, pool, new_job
):
    new_job()
    dispatcher._tick()
    dispatcher._lease._renewed_at = -math.inf  # it is time to renew
    lose_lease(database)
    for _ in range(2):
        dispatcher._tick()
    assert not dispatcher.is_leader()
    assert pool.n_closed == 0
    pool.has_ended = True
    for _ in range(2):
        dispatcher._tick()
    assert pool.n_closed == 1


def lose_lease(database):
    """Have a process of another machine take the lease, or renew it."""
    far = ProcessIdentity("far", "boot", "pid:[1]", 1, 0)
    with database.write() as session:
        lease = session.get(LeaseRow, LEASE_NAME)
        lease.holder, lease.renewals = far.to_text(), lease.renewals + 1
