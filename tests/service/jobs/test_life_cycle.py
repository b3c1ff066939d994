"""A stateful test: operations on jobs in any order, compared with a small model."""

from dataclasses import dataclass, field
from itertools import count

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from service.jobs.queue import admission, child_store, queries, store
from service.storage.job_states import ACTIVE, FINAL, AttemptCommand, JobState
from service.storage.tables import AttemptRow, BlobRow, EventRow, JobRow, Row
from tests.service.stored import dataset_row, job_of

pytestmark = pytest.mark.sql

WORKERS = ("w1", "w2")
ENDS = (JobState.SUCCEEDED, JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED)
#: Number of examples, and of steps in each.
EXAMPLES = {"sqlite": 10, "postgresql": 4}
STEPS = 40
#: Rounds of a dispatcher and its workers after which every job has ended.
MAX_ROUNDS = 8


@dataclass
class Job:
    """Expected state of a job."""

    max_attempts: int = 1
    child_jobs: list[str] = field(default_factory=list)
    state: JobState = JobState.QUEUED
    attempt: int = 0
    counted_attempts: int = 0
    worker: str | None = None
    wants_cancel: bool = False
    wants_release: bool = False
    checkpoint: bool = False
    states: list[str] = field(default_factory=list)
    outcomes: dict[int, str] = field(default_factory=dict)

    def go(self, state, outcome=None):
        if self.state == JobState.RUNNING:
            self.outcomes[self.attempt] = outcome or state
        self.state = state
        self.states.append(state)
        if state in FINAL:
            self.checkpoint = False


class LifeCycle(RuleBasedStateMachine):
    jobs = Bundle("jobs")
    numbers = count()

    def __init__(self, database):
        super().__init__()
        self.database = database
        self.model: dict[str, Job] = {}
        #: Rows read some time ago, with the state and attempt of the model then.
        self.seen: dict[str, tuple[JobRow, JobState, int]] = {}

    @initialize()
    def empty_the_database(self):
        with self.database.write() as session:
            for table in reversed(Row.metadata.sorted_tables):
                session.execute(sa.delete(table))
            session.add(dataset_row())

    @rule(target=jobs, max_attempts=st.integers(1, 3))
    def create(self, max_attempts):
        with self.database.write() as session:
            job_id = store.create(session, job_of(max_attempts=max_attempts)).id
        return self.add(job_id, Job(max_attempts))

    @rule(target=jobs, n_children=st.integers(1, 3))
    def create_with_child_jobs(self, n_children):
        children = [job_of(plan={"kind": "score", "position": n}) for n in range(n_children)]
        with self.database.write() as session:
            parent_id = child_store.create_with_child_jobs(session, job_of(), children).id
            child_ids = [child.id for child in child_store.child_jobs_of(session, parent_id)]
        self.add(parent_id, Job(child_jobs=child_ids, state=JobState.WAITING))
        return multiple(parent_id, *(self.add(child_id, Job()) for child_id in child_ids))

    @rule(job_id=jobs)
    def read(self, job_id):
        """Read a row now, to use it after other operations."""
        with self.database.read() as session:
            row = store.get(session, job_id)
        self.seen[job_id] = (row, self.model[job_id].state, self.model[job_id].attempt)

    @rule(job_id=jobs)
    def submit(self, job_id):
        row, _, attempt = self.recall(job_id)
        job = self.model[job_id]
        is_due = job.state == JobState.QUEUED and attempt == job.attempt
        with self.database.write() as session:
            assert bool(store.submit(session, [row])) == is_due
        if is_due:
            job.attempt += 1
            job.worker, job.wants_release = None, False
            job.go(JobState.SUBMITTED)

    @rule(job_id=jobs, is_late=st.booleans(), worker=st.sampled_from(WORKERS))
    def claim(self, job_id, is_late, worker):
        job = self.model[job_id]
        is_due = job.state == JobState.SUBMITTED and not is_late
        with self.database.write() as session:
            began = store.claim(session, job_id, job.attempt - is_late, worker)
        assert began == (is_due and not job.wants_cancel)
        if began:
            job.worker, job.counted_attempts = worker, job.counted_attempts + 1
            job.go(JobState.RUNNING)
            job.outcomes[job.attempt] = JobState.RUNNING
        elif is_due:
            job.go(JobState.CANCELLED)

    @rule(job_id=jobs, is_late=st.booleans(), worker=st.sampled_from(WORKERS))
    def heartbeat(self, job_id, is_late, worker):
        job = self.model[job_id]
        with self.database.write() as session:
            command = store.record_heartbeat(
                session, job_id, job.attempt - is_late, worker, {"fraction": 0.5}
            )
        if (job.state, job.worker, is_late) != (JobState.RUNNING, worker, False):
            assert command is None
        elif job.wants_cancel:
            assert command == AttemptCommand.CANCEL
        else:
            assert command == (
                AttemptCommand.RELEASE if job.wants_release else AttemptCommand.CONTINUE
            )

    @rule(job_id=jobs, is_late=st.booleans())
    def store_checkpoint(self, job_id, is_late):
        job = self.model[job_id]
        owns_row = job.state == JobState.RUNNING and not is_late
        with self.database.write() as session:
            assert store.lock_attempt(session, job_id, job.attempt - is_late) == owns_row
            if owns_row:
                blob_id = f"blob_{next(self.numbers)}"
                session.add(BlobRow(id=blob_id, sha256=blob_id))
                session.flush()
                store.set_checkpoint(session, job_id, blob_id)
                job.checkpoint = True

    @rule(job_id=jobs, is_counted=st.booleans())
    def mark_lost(self, job_id, is_counted):
        row, state, attempt = self.recall(job_id)
        job = self.model[job_id]
        if state not in ACTIVE:
            return  # only active jobs can be lost
        is_current = (state, attempt) == (job.state, job.attempt)
        with self.database.write() as session:
            assert (
                store.mark_lost(session, row, store.AttemptFailure("code", "detail", is_counted))
                == is_current
            )
        if not is_current:
            return
        if row.is_cancel_requested:
            job.go(JobState.CANCELLED)
        elif state == JobState.SUBMITTED:
            job.go(JobState.QUEUED)
        elif not is_counted:
            job.counted_attempts -= 1
            job.go(JobState.QUEUED, "released")
        elif job.counted_attempts < job.max_attempts:
            job.go(JobState.QUEUED, "lost")
        else:
            job.go(JobState.FAILED, "lost")

    @rule(worker=st.sampled_from(WORKERS))
    def release(self, worker):
        with self.database.write() as session:
            store.request_release(session, worker=worker)
        for job in self.model.values():
            if (job.state, job.worker) == (JobState.RUNNING, worker):
                job.wants_release = True

    @rule(job_id=jobs)
    def cancel(self, job_id):
        with self.database.write() as session:
            store.request_cancel(session, store.get(session, job_id))
        self.cancel_in_model(self.model[job_id])

    @rule(job_id=jobs, is_late=st.booleans(), state=st.sampled_from(ENDS))
    def end(self, job_id, is_late, state):
        job = self.model[job_id]
        owns_row = job.state == JobState.RUNNING and not is_late
        attempt = job.attempt - is_late
        with self.database.write() as session:
            assert store.move(session, job_id, attempt, JobState.RUNNING, state) == owns_row
        if owns_row:
            job.go(state)

    @rule()
    def update_parents(self):
        with self.database.write() as session:
            for job_id in child_store.child_progress(session):
                child_store.update_parent(
                    session, store.get(session, job_id), child_store.child_jobs_of(session, job_id)
                )
        for job in list(self.model.values()):
            if job.state != JobState.WAITING:
                continue
            children = [self.model[child_id] for child_id in job.child_jobs]
            ends = {child.state for child in children}
            if job.wants_cancel:
                if ends <= FINAL:
                    job.go(JobState.CANCELLED)
            elif ends & {JobState.FAILED, JobState.TIMED_OUT}:
                job.go(JobState.FAILED)
                for child in children:
                    self.cancel_in_model(child)
            elif ends == {JobState.SUCCEEDED}:
                job.go(JobState.QUEUED)
            elif ends <= FINAL:
                job.wants_cancel = True
                job.go(JobState.CANCELLED)

    @invariant()
    def the_rows_equal_the_model(self):
        with self.database.write() as session:
            rows = {row.id: row for row in session.scalars(sa.select(JobRow))}
            states = {job_id: [] for job_id in rows}
            outcomes = {job_id: {} for job_id in rows}
            for event in session.scalars(sa.select(EventRow).order_by(EventRow.id)):
                if event.kind == "state":
                    states[event.job_id].append(event.data["state"])
            for attempt in session.scalars(sa.select(AttemptRow)):
                outcomes[attempt.job_id][attempt.attempt] = attempt.outcome
            n_blobs = session.scalar(sa.select(sa.func.count()).select_from(BlobRow))
            queued = {row.id for row in admission.next_queued(session, 1000)}
            active = {row.id for row in queries.active(session)}
        assert rows.keys() == self.model.keys()
        for job_id, job in self.model.items():
            row = rows[job_id]
            assert (row.state, row.attempt, row.counted_attempts) == (
                job.state,
                job.attempt,
                job.counted_attempts,
            )
            assert row.is_cancel_requested == job.wants_cancel
            assert row.worker == job.worker or job.state not in ACTIVE
            assert (row.finished_at is not None) == (job.state in FINAL)
            assert (row.checkpoint_blob_id is not None) == job.checkpoint
            assert states[job_id] == job.states
            assert outcomes[job_id] == job.outcomes
            assert 0 <= job.counted_attempts <= job.max_attempts
            assert list(job.outcomes.values()).count(JobState.SUCCEEDED) <= 1
        assert n_blobs == sum(job.checkpoint for job in self.model.values())
        assert queued == {i for i, job in self.model.items() if job.state == JobState.QUEUED}
        assert active == {i for i, job in self.model.items() if job.state in ACTIVE}

    def teardown(self):
        """Dispatch and run what is left: every job ends."""
        for _ in range(MAX_ROUNDS):
            self.update_parents()
            self.seen.clear()
            for job_id in list(self.model):
                self.submit(job_id)
                self.claim(job_id, is_late=False, worker=WORKERS[0])
                self.end(job_id, is_late=False, state=JobState.SUCCEEDED)
        self.the_rows_equal_the_model()
        assert {job.state for job in self.model.values()} <= FINAL

    def add(self, job_id, job):
        job.states.append(job.state)
        self.model[job_id] = job
        return job_id

    def recall(self, job_id):
        """Return a row read earlier, or the current one."""
        if job_id not in self.seen:
            self.read(job_id)
        return self.seen.pop(job_id)

    def cancel_in_model(self, job):
        if job.state == JobState.QUEUED:
            job.go(JobState.CANCELLED)
        elif job.state not in FINAL and not job.wants_cancel:
            job.wants_cancel = True
            for child_id in job.child_jobs:
                self.cancel_in_model(self.model[child_id])


@pytest.mark.slow
def test_rows_equal_the_model_after_any_operations(database):
    run_state_machine_as_test(
        lambda: LifeCycle(database),
        settings=settings(
            max_examples=EXAMPLES[database.engine.dialect.name],
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
