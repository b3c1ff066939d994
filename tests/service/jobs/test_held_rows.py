"""Rows of PostgreSQL that a worker keeps locked: it was frozen, or cut off, while it wrote."""

import time

import pytest
import sqlalchemy as sa

import service.database
from service.database import Database
from service.jobs.queue import store
from service.jobs.queue.dispatcher import Dispatcher
from service.rows import JobRow


@pytest.fixture
def databases(postgres):
    """SQLite has one writer at a time anyway."""
    return postgres


@pytest.fixture
def running(database, new_job):
    job_id = new_job()
    with database.write() as session:
        store.submit(session, store.get(session, job_id))
    with database.write() as session:
        store.claim(session, job_id, 1, "w")
    return job_id


def lock(session, job_id):
    session.execute(sa.update(JobRow).where(JobRow.id == job_id).values(heartbeat=7))


def test_the_dispatcher_does_not_wait_for_a_row_that_is_held(database, running, read_job):
    dispatcher = Dispatcher(
        database,
        open_engine=lambda: None,
        lease_timeout_s=1,
        heartbeat_timeout_s=1,
        drain_timeout_s=1,
        stop_timeout_s=1,
    )
    failure = store.AttemptFailure("worker-lost", "gone")
    with database.write() as session:
        lock(session, running)
        began = time.monotonic()
        dispatcher._mark_lost(read_job(running), failure)
        assert time.monotonic() - began < 1
    assert read_job(running).state == "running"
    dispatcher._mark_lost(read_job(running), failure)
    assert read_job(running).state == "queued"


def test_a_transaction_that_is_left_alone_is_undone(database, running, read_job, monkeypatch):
    monkeypatch.setattr(service.database, "IDLE_TIMEOUT_S", 1)
    forgetful = Database(database.url)

    def forget():
        with forgetful.write() as session:
            lock(session, running)
            began = time.monotonic()
            with database.write() as other:
                store.request_cancel(other, store.get(other, running))
            assert time.monotonic() - began < 5
            session.execute(sa.text("SELECT 1"))

    with pytest.raises(sa.exc.OperationalError, match="idle-in-transaction"):
        forget()
    forgetful.close()
    row = read_job(running)
    assert (row.is_cancel_requested, row.heartbeat) == (True, 0)


def test_a_writer_waits_for_another_no_longer_than_it_says(database, running, monkeypatch):
    monkeypatch.setattr(service.database, "BUSY_TIMEOUT_S", 1)
    hasty = Database(database.url)
    with database.write() as session:
        lock(session, running)
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), hasty.write() as other:
            lock(other, running)
    hasty.close()
