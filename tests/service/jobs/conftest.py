import pytest

from service.jobs.queue import store
from service.storage.tables import DatasetRow, JobRow


@pytest.fixture
def new_job(database):
    """Return a function that queues a job in the database."""
    with database.write() as session:
        session.add(
            DatasetRow(
                id="ds_1",
                owner="ada",
                name="d",
                state="ready",
                media_type="text/csv",
                options={},
                fingerprint="f",
                upload_sha256="0",
                size_bytes=1,
            )
        )

    def create(owner="ada", *, priority=0, max_attempts=3, threads=None) -> str:
        job = store.NewJob(
            owner=owner,
            dataset_id="ds_1",
            algorithm="pca",
            params={},
            seed=0,
            model_name="m",
            priority=priority,
            timeout_s=60,
            memory_mb=1024,
            max_attempts=max_attempts,
            threads=threads,
            traceparent=None,
        )
        with database.write() as session:
            return store.create(session, job).id

    return create


@pytest.fixture
def read_job(database):
    def read(job_id: str) -> JobRow:
        with database.read() as session:
            return session.get_one(JobRow, job_id)

    return read
