"""Order in which queued jobs of several owners are submitted."""

import random

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from service.jobs.queue import admission, store
from service.storage.job_states import JobState
from service.storage.tables import EventRow, JobRow, TurnRow

pytestmark = pytest.mark.sql

EXAMPLES = {"sqlite": 6, "postgresql": 3}
JOBS_PER_OWNER = 3


def admitted(database, n_free, **options):
    """Submit as many jobs as slots are free; return their ids."""
    with database.write() as session:
        return [job_id for job_id, _ in admission.admit(session, n_free, **options)]


def end(database, job_id):
    with database.write() as session:
        row = store.get(session, job_id)
        assert store.claim(session, job_id, row.attempt, "w")
        store.move(session, job_id, row.attempt, JobState.RUNNING, JobState.SUCCEEDED)


def empty(database):
    with database.write() as session:
        for row in (EventRow, JobRow, TurnRow):
            session.execute(sa.delete(row))


def starts(database, new_job, n_slots, n_owners, *, pick_end):
    """Run all jobs of all owners; return the owners in the order of their starts.

    ``pick_end(running)`` returns the position of the job that ends next. Each start comes with
    the numbers of running and of queued jobs by owner just before it.
    """
    empty(database)
    owner_of = {}
    for owner in range(n_owners):  # one owner after another: the last one is the youngest
        for _ in range(JOBS_PER_OWNER):
            owner_of[new_job(f"owner {owner}")] = owner
    n_queued = [JOBS_PER_OWNER] * n_owners
    running, found = [], []
    while sum(n_queued) or running:
        for job_id in admitted(database, n_slots - len(running)):
            busy = [sum(owner_of[job] == owner for job in running) for owner in range(n_owners)]
            found.append((owner_of[job_id], busy, list(n_queued)))
            n_queued[owner_of[job_id]] -= 1
            running.append(job_id)
        end(database, running.pop(pick_end(running)))
    assert len(found) == n_owners * JOBS_PER_OWNER
    return found


@pytest.mark.slow
@pytest.mark.parametrize("n_slots", [1, 2, 8])
def test_no_owner_waits_longer_than_its_share_and_one_more(database, new_job, n_slots):
    """An owner without a running job starts after at most one start of each other owner.

    An owner with more running jobs never starts before one with fewer.
    """

    @settings(
        max_examples=EXAMPLES[database.engine.dialect.name],
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(n_owners=st.integers(2, 20), seed=st.integers(0, 2**32))
    def check(n_owners, seed):
        rng = random.Random(seed)
        found = starts(
            database, new_job, n_slots, n_owners, pick_end=lambda jobs: rng.randrange(len(jobs))
        )
        waited = [0] * n_owners
        for owner, busy, n_queued in found:
            candidates = [other for other in range(n_owners) if n_queued[other]]
            assert busy[owner] == min(busy[other] for other in candidates)
            for other in candidates:
                waited[other] = 0 if other == owner or busy[other] else waited[other] + 1
                assert waited[other] <= n_owners

    check()


@pytest.mark.slow
@pytest.mark.parametrize("n_slots", [1, 2, 8])
@pytest.mark.parametrize("n_owners", [2, 3, 20])
def test_owners_with_jobs_of_one_length_take_turns(database, new_job, n_slots, n_owners):
    found = starts(database, new_job, n_slots, n_owners, pick_end=lambda _: 0)
    order = [owner for owner, _, _ in found]
    for n in range(n_owners, len(order) + 1):  # any n_owners starts in a row, but for one
        assert len(set(order[n - n_owners : n])) >= n_owners - 1


def test_an_owner_who_submitted_first_does_not_keep_the_slot(database, new_job):
    ada = [new_job("ada") for _ in range(40)]
    bob = new_job("bob")
    order = []
    for _ in range(4):
        order += admitted(database, 1)
        end(database, order[-1])
    assert order == [ada[0], bob, ada[1], ada[2]]


def test_jobs_that_are_submitted_together_count_as_running(database, new_job):
    ended = new_job("bob")
    assert admitted(database, 1) == [ended]
    running = new_job("ada")
    assert admitted(database, 1) == [running]
    end(database, ended)
    bob, ada = [new_job("bob") for _ in range(2)], new_job("ada")
    assert admitted(database, 2) == [bob[0], ada]


def test_priority_orders_the_jobs_of_one_owner_only(database, new_job):
    urgent = [new_job("ada", priority=9) for _ in range(4)]
    later = new_job("ada")
    bob = [new_job("bob", priority=-1), new_job("bob")]
    order = admitted(database, 9)
    assert [job for job in order if job in bob] == bob[::-1]
    assert [job for job in order if job not in bob] == [*urgent, later]
    assert order.index(bob[1]) <= 1
    assert order.index(bob[0]) <= 3


def test_priority_orders_the_jobs_of_all_owners_if_configured(database, new_job):
    ada = [new_job("ada", priority=priority) for priority in (0, 9, 9)]
    bob = [new_job("bob", priority=priority) for priority in (0, 5, 9)]
    order = admitted(database, 6, priority_across_owners=True)
    assert set(order[:3]) == {ada[1], ada[2], bob[2]}
    assert order[3] == bob[1]
    assert set(order[4:]) == {ada[0], bob[0]}


def test_many_queued_jobs_are_read_page_by_page_in_order(database, new_job):
    jobs = [new_job("ada", priority=number % 3) for number in range(2 * admission.PAGE_SIZE + 5)]
    order = admitted(database, len(jobs) + 1)
    assert order == sorted(jobs, key=lambda job: (-(jobs.index(job) % 3), jobs.index(job)))


def test_a_job_that_another_session_has_locked_is_left_for_later(database, new_job):
    if database.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    first, second = new_job(), new_job()
    with database.write() as session:
        assert store.try_lock(session, first)
        assert admitted(database, 2) == [second]
    assert admitted(database, 2) == [first]
