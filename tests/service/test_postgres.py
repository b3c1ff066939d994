"""What only a server of databases brings: a schema made beforehand, and replicas elsewhere."""

import contextlib

import numpy as np
import psutil
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import InternalError

from service.storage.database import Database, now
from service.storage.tables import IdempotencyRow
from sibling import Client
from tests.waiting import wait_for

pytestmark = pytest.mark.slow  # PostgreSQL

LONG = {"k": 5, "selection": "cv", "n_folds": 10, "starts": "many"}
LEASE_S = 2


@pytest.fixture
def run_service(launch_on):
    """``run_service(database_url, **env)``: a server until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda url, **env: stack.enter_context(launch_on(url, **env))


def test_it_rejects_a_database_without_its_schema_until_it_is_migrated(
    postgres, run_service, forked_command
):
    url = postgres.create(is_migrated=False)
    refused = forked_command("serve", "--port", "0", SIBLING_DATABASE_URL=url)
    assert refused.returncode == 1
    assert "sibling migrate" in refused.stderr
    assert forked_command("migrate", SIBLING_DATABASE_URL=url).returncode == 0
    with Client(run_service(url).url) as client:
        assert list(client.models) == []


def test_times_are_utc_whatever_the_time_zone_of_the_server(postgres):
    url, moment = sa.make_url(postgres.create()), now()
    url = url.update_query_dict({"options": "-c timezone=Asia/Tokyo"})
    database = Database(url.render_as_string(hide_password=False))
    with database.write() as session:
        session.add(IdempotencyRow(owner="a", key="k", fingerprint="f", resource_id="r"))
        session.execute(sa.update(IdempotencyRow).values(created_at=moment))
    with database.read() as session:
        (read,) = session.scalars(sa.select(IdempotencyRow.created_at))
    database.close()
    assert (read, read.utcoffset()) == (moment, moment.utcoffset())


def test_a_session_that_reads_sees_one_snapshot_and_cannot_write(postgres):
    """A file has both; a list of which a row is deleted between two statements failed."""
    database = Database(postgres.create())
    row = {"owner": "a", "key": "k", "fingerprint": "f", "resource_id": "r"}
    rows = sa.select(IdempotencyRow.key)
    with database.read() as reader:
        assert reader.scalars(rows).all() == []
        with database.write() as writer:
            writer.add(IdempotencyRow(**row))
        assert reader.scalars(rows).all() == []
        with pytest.raises(InternalError, match="read-only"):
            reader.execute(sa.insert(IdempotencyRow).values(**row))
    with database.read() as reader:
        assert reader.scalars(rows).all() == ["k"]
    database.close()


def test_of_two_replicas_one_dispatches_and_the_other_takes_over(postgres, run_service):
    """Each has a folder of its own, as on two machines: all that they share is the database."""
    url = postgres.create()
    leader, replica = (
        run_service(url, SIBLING_WORKER_SLOTS=1, SIBLING_LEASE_TIMEOUT_S=LEASE_S) for _ in range(2)
    )
    rng = np.random.default_rng(0)
    rows = {f"task {t}": rng.normal(size=(40, 24)) for t in range(60)}
    with Client(replica.url) as client:
        job = client.train(client.upload(rows), "rmt-pca", **LONG)
        wait_for(lambda: job.refresh().info["progress"])
        assert _trains(leader)
        assert not _trains(replica)
        leader.process.kill()
        leader.process.wait()
        job.wait()
        assert job.info["attempt"] == 2
        assert [m["version"] for m in client.models] == [1]


def _trains(service):
    family = psutil.Process(service.process.pid).children(recursive=True)
    return any("service.jobs.worker.child" in process.cmdline() for process in family)
