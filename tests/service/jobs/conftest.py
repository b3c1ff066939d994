import pytest

from service.jobs.queue import store
from service.storage.tables import JobRow
from tests.service.stored import dataset_row, job_of


@pytest.fixture
def new_job(database):
    """Return a function that queues a job in the database."""
    with database.write() as session:
        session.add(dataset_row())

    def create(owner="ada", *, max_attempts=3, **values) -> str:
        job = job_of(owner=owner, max_attempts=max_attempts, **values)
        with database.write() as session:
            return store.create(session, job).id

    return create


@pytest.fixture
def read_job(database):
    def read(job_id: str) -> JobRow:
        with database.read() as session:
            return session.get_one(JobRow, job_id)

    return read
