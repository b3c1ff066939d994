"""What a submission reads and writes."""

from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sa

from algorithms.interface.tasks import Task
from service.datasets.canonical import write_tasks
from service.jobs.reading import read_job
from service.jobs.spec_schemas import JobSpec
from service.jobs.submission import Origin, submit
from service.settings import Settings
from service.storage.tables import JobRow
from tests.service.stored import dataset_row

pytestmark = pytest.mark.sql

ORIGIN = Origin("ada", None, "request", None)


@pytest.fixture
def dataset(database, tmp_path):
    rng = np.random.default_rng(0)
    tasks = [Task(name, rng.standard_normal((20, 3)), y=np.arange(20.0)) for name in "ab"]
    manifest = write_tasks(tmp_path / "content", tasks)
    with database.write() as session:
        session.add(dataset_row(manifest=manifest))


@contextmanager
def counted(database):
    """Yield the list of SQL statements until the end of the block, without those of locks."""
    statements = []

    def note(_connection, _cursor, statement, *_):
        statements.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    yield statements
    sa.event.remove(database.engine, "before_cursor_execute", note)


def n_of(statements, start):
    return sum(statement.startswith(start) for statement in statements)


@pytest.mark.parametrize(
    "spec",
    [
        {"algorithm": "ridge"},
        {"algorithm": "mtfl", "compare": True, "evaluate": True},
        {"algorithm": "auto"},
    ],
)
@pytest.mark.usefixtures("dataset")
def test_a_submission_reads_its_dataset_once_and_its_jobs_never(database, spec):
    spec = JobSpec(dataset_id="ds_1", model="m", **spec)
    with counted(database) as statements, database.write() as session:
        job = submit(session, spec, ORIGIN, settings=Settings())
    assert n_of(statements, "SELECT datasets.id") == 1
    assert n_of(statements, "SELECT jobs.id") == 0
    # the job, and all its child jobs at once
    n_inserts = 2 if job.child_jobs else 1
    assert n_of(statements, "INSERT INTO jobs") == n_of(statements, "INSERT INTO events")
    assert n_of(statements, "INSERT INTO jobs") == n_inserts
    with database.read() as session:
        assert job == read_job(session, session.get_one(JobRow, job.id))


@pytest.mark.usefixtures("dataset")
def test_a_request_that_is_sent_again_gets_the_job_as_it_is_now(database):
    origin = Origin("ada", "key", "request", None)
    spec = JobSpec(dataset_id="ds_1", model="m", algorithm="ridge")
    with database.write() as session:
        first = submit(session, spec, origin, settings=Settings())
        session.get_one(JobRow, first.id).attempt = 1
    with database.write() as session:
        again = submit(session, spec, origin, settings=Settings())
    assert again == first.model_copy(update={"attempt": 1})
