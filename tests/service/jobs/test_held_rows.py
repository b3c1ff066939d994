"""Rows of PostgreSQL locked by a worker that was frozen or cut off during a write."""

import pytest
import sqlalchemy as sa

import service.storage.database
from service.jobs.queue import store
from service.jobs.queue.dispatcher import Dispatcher
from service.storage.database import Database
from service.storage.tables import JobRow

pytestmark = pytest.mark.slow  # PostgreSQL


@pytest.fixture
def databases(postgres):
    """SQLite has one writer at a time."""
    return postgres


@pytest.fixture
def running(database, new_job):
    job_id = new_job()
    with database.write() as session:
        store.submit(session, [store.get(session, job_id)])
    with database.write() as session:
        store.claim(session, job_id, 1, "w")
    return job_id


def lock(session, job_id):
    session.execute(sa.update(JobRow).where(JobRow.id == job_id).values(heartbeat=7))


def test_the_dispatcher_does_not_wait_for_a_locked_row(database, running, read_job):
    dispatcher = Dispatcher(
        database,
        open_engine=lambda: None,
        lease_timeout_s=1,
        heartbeat_timeout_s=1,
        submit_timeout_s=1,
        drain_timeout_s=1,
        stop_timeout_s=1,
    )
    failure = store.AttemptFailure("worker-lost", "gone")
    with database.write() as session:
        lock(session, running)
        dispatcher._mark_lost(read_job(running), failure)
        lock(session, running)  # fails if the dispatcher has waited until this one was rolled back
    assert read_job(running).state == "running"
    dispatcher._mark_lost(read_job(running), failure)
    assert read_job(running).state == "queued"


def test_an_idle_transaction_is_rolled_back(database, running, read_job, monkeypatch):
    monkeypatch.setattr(service.storage.database, "IDLE_TIMEOUT_S", 1)
    idle = Database(database.url)

    def lock_and_idle():
        with idle.write() as session:
            lock(session, running)
            with database.write() as other:
                store.request_cancel(other, store.get(other, running))
            session.execute(sa.text("SELECT 1"))

    with pytest.raises(sa.exc.OperationalError, match="idle-in-transaction"):
        lock_and_idle()
    idle.close()
    row = read_job(running)
    assert (row.is_cancel_requested, row.heartbeat) == (True, 0)


def test_a_writer_waits_for_another_until_its_lock_timeout(database, running, monkeypatch):
    monkeypatch.setattr(service.storage.database, "BUSY_TIMEOUT_S", 1)
    second = Database(database.url)
    with database.write() as session:
        lock(session, running)
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), second.write() as other:
            lock(other, running)
    second.close()
