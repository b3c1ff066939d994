import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from service.storage.database import Database, begin_exclusive
from service.storage.migration import (
    MigrationTimeout,
    SchemaMismatch,
    _config,
    check_schema,
    current_revision,
    migrate,
)
from service.storage.tables import EventRow, JobRow, KeyRow, Row, VersionRow

pytestmark = pytest.mark.sql

VERSION_0_2_0 = "2026_11_23_job_retry_at"
VERSION_0_3_0 = "2026_11_26_new_tasks"
#: What is compared besides names.
EVERYTHING = {"compare_type": True, "compare_server_default": True}


@pytest.fixture
def database(empty_database):
    return empty_database


def test_migrations_end_at_the_schema_of_the_code(database):
    migrate(database)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=EVERYTHING)
        assert compare_metadata(context, Row.metadata) == []
    check_schema(database)


def test_migrations_can_be_applied_one_by_one(database):
    revisions = [
        r.revision for r in ScriptDirectory.from_config(_config("sqlite://")).walk_revisions()
    ]
    for revision in reversed(revisions):
        migrate(database, revision=revision)
        assert current_revision(database) == revision
    check_schema(database)


def test_inspecting_the_schema_repeatedly_leaves_nothing_behind(database):
    """Readiness looks twice a second: each look left a compiled statement, up to 20 MB of them."""
    migrate(database)
    check_schema(database)
    before = len(database.engine._compiled_cache)
    for _ in range(20):
        check_schema(database)
    assert len(database.engine._compiled_cache) == before


def test_an_unknown_schema_is_rejected_with_both_revisions(database):
    with pytest.raises(SchemaMismatch, match="none"):
        check_schema(database)
    migrate(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    with pytest.raises(SchemaMismatch, match="from-the-future"):
        check_schema(database)


NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = {
    "owner": "ada",
    "dataset_id": "ds_1",
    "algorithm": "pca",
    "params": {},
    "seed": 0,
    "model_name": "m",
    "priority": 0,
    "timeout_s": 60,
    "memory_mb": 512,
    "max_attempts": 3,
    "state": "queued",
    "attempt": 0,
    "counted_attempts": 0,
    "is_cancel_requested": False,
    "heartbeat": 0,
    "warnings": [],
    "created_at": NOW,
}
VERSION = {
    "id": "mdl_1",
    "model_id": "m_1",
    "version": 1,
    "job_id": "job_1",
    "dataset_id": "ds_1",
    "dataset_sha256": "0",
    "algorithm": "pca",
    "params": {},
    "seed": 0,
    "software": {},
    "methods": [],
    "tasks": [],
    "metrics": {},
    "history": {},
    "warnings": [],
    "classes": {},
    "artifact_blob_id": "blob_1",
    "artifact_sha256": "s",
    "artifact_bytes": 1,
    "created_at": NOW,
}
DATASET = {
    "id": "ds_1",
    "owner": "ada",
    "name": "d",
    "state": "ready",
    "media_type": "text/csv",
    "options": {},
    "fingerprint": "f",
    "upload_sha256": "0",
    "size_bytes": 1,
    "issues": [],
    "created_at": NOW,
    "updated_at": NOW,
}
KEY = {"id": "key_1", "owner": "ada", "secret_sha256": "s", "scopes": [], "created_at": NOW}
#: Rows of version 0.2.0: some of each table that later versions change, or that refers to one.
ROWS_OF_0_2_0 = {
    "blobs": [{"id": "blob_1", "sha256": "s", "size_bytes": 1, "created_at": NOW}],
    "blob_chunks": [{"blob_id": "blob_1", "position": 0, "data": b"x"}],
    "datasets": [DATASET],
    "jobs": [
        {**JOB, "id": "job_1", "root_id": "job_1", "plan": {"kind": "adapt", "version_id": "v"}},
        {**JOB, "id": "job_2", "root_id": "job_2", "plan": {"kind": "score"}},
        {**JOB, "id": "job_3", "root_id": "job_3", "plan": None},
    ],
    "events": [{"job_id": "job_1", "attempt": 0, "kind": "state", "data": {}, "created_at": NOW}],
    "models": [{"id": "m_1", "owner": "ada", "name": "m", "latest_version": 1, "created_at": NOW}],
    "model_versions": [VERSION],
    "api_keys": [KEY],
}


ROWS_OF_0_3_0 = {
    **ROWS_OF_0_2_0,
    "sessions": [{"token_sha256": "t", "key_id": "key_1", "created_at": NOW, "expires_at": NOW}],
    "audit_events": [{"id": "aud_1", "operation": "create-job", "status": 201, "created_at": NOW}],
}


@pytest.mark.parametrize(
    ("revision", "rows_by_table"),
    [(VERSION_0_2_0, ROWS_OF_0_2_0), (VERSION_0_3_0, ROWS_OF_0_3_0)],
    ids=["0.2.0", "0.3.0"],
)
def test_rows_of_earlier_versions_survive_the_upgrade(database, revision, rows_by_table):
    migrate(database, revision=revision)
    with database.engine.begin() as connection:
        found = reflected(connection)
        for name, rows in rows_by_table.items():
            connection.execute(sa.insert(found[name]), rows)
        before = contents(connection, found)
    migrate(database)
    with database.engine.connect() as connection:
        assert contents(connection, found) == before
    with database.read() as session:
        jobs = {job.id: job for job in session.scalars(sa.select(JobRow))}
        for job in jobs.values():
            assert (job.new_tasks, job.ties) == ("refuse", "auto")
            assert (job.is_release_requested, job.is_finish_requested) == (False, False)
            assert job.is_challenger is False
        assert len(session.scalars(sa.select(EventRow)).all()) == 1
        if revision == VERSION_0_2_0:
            # of those that adapt or apply a version, which was in their plan only
            versions = {name: job.base_version_id for name, job in jobs.items()}
            assert versions == {"job_1": "v", "job_2": None, "job_3": None}
        version = session.get_one(VersionRow, "mdl_1")
        assert (version.task_column, version.preparation) == ("task", None)
        assert (version.new_tasks, version.is_challenger) == ("refuse", False)
        assert session.get_one(KeyRow, "key_1").creator_id is None


def reflected(connection):
    schema = sa.MetaData()
    schema.reflect(connection)
    return {table.name: table for table in schema.sorted_tables if table.name != "alembic_version"}


def contents(connection, tables):
    return {
        name: sorted(map(repr, connection.execute(sa.select(table)).all()))
        for name, table in tables.items()
    }


@pytest.mark.parametrize(
    "revision",
    # the last of 0.1, and one of the development of 0.3.0 and of 0.4.0
    ["2026_11_23_job_indexes", "2026_12_06_expected_time", "2026_11_27_webhooks"],
)
def test_an_earlier_database_is_refused_unchanged_with_the_way_to_upgrade_it(database, revision):
    migrate(database, revision=VERSION_0_3_0)
    set_revision(database, revision)
    with database.engine.connect() as connection:
        before = list(reflected(connection))
    for attempt in (migrate, check_schema):
        with pytest.raises(SchemaMismatch, match=rf"{revision}.*docs/how-to/upgrade\.md"):
            attempt(database)
    assert current_revision(database) == revision
    with database.engine.connect() as connection:
        assert list(reflected(connection)) == before


def set_revision(database, revision):
    with database.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{revision}'")


#: Imports the command, runs it in as many processes at once as asked, and prints their exit codes.
STARTER = """
import os
import sys
import alembic.command
from service.cli import main
from service import (settings)
from service.storage import database
from service.storage import migration
pids = []
for _ in range(int(sys.argv.pop(1))):
    pids.append(os.fork())
    if pids[-1] == 0:
        main()
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
for code in codes:  # after what the last of them prints
    print(code)
"""


def run_at_once(n: int, url: str, *options: str) -> tuple[list[int], str]:
    """Run 'sibling migrate' in several processes; return their exit codes and their errors."""
    done = subprocess.run(
        [sys.executable, "-c", STARTER, str(n), "migrate", *options],
        env={**os.environ, "SIBLING_DATABASE_URL": url},
        capture_output=True,
        check=True,
        text=True,
    )
    codes = done.stdout.splitlines()[-n:]  # after what the command prints
    return [int(code) for code in codes], done.stderr


@pytest.mark.slow
def test_processes_that_migrate_at_once_take_turns(database):
    url = database.url
    assert run_at_once(4, url) == ([0] * 4, "")
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=EVERYTHING)
        assert compare_metadata(context, Row.metadata) == []
    check_schema(database)


def test_a_new_file_that_another_connection_uses_is_waited_for(tmp_path):
    path = tmp_path / "new.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    is_released = threading.Event()

    def release() -> None:
        is_released.set()
        other.execute("CREATE TABLE other (x)")
        other.execute("COMMIT")

    timer = threading.Timer(0.5, release)
    with closing(Database(f"sqlite:///{path}")) as database, closing(other):
        timer.start()
        with database.read() as session:
            assert session.scalar(sa.text("PRAGMA journal_mode")) == "wal"
        assert is_released.is_set()
        timer.join()


@pytest.mark.slow
def test_a_migration_that_waits_too_long_for_another_says_so(database):
    with database.engine.connect() as connection:
        begin_exclusive(connection, "migration", timeout_s=5)
        with pytest.raises(
            MigrationTimeout, match=r"locked for more than 0\.2 s by another process"
        ):
            migrate(database, lock_timeout_s=0.2)
        codes, errors = run_at_once(1, database.url, "--lock-timeout", "0.2")
        assert codes == [1]
        assert errors.splitlines()[-1].startswith("error: the database has been locked for")
    migrate(database)
    check_schema(database)


def test_a_migrated_database_is_not_locked_again(database):
    migrate(database)
    with database.engine.connect() as connection:
        begin_exclusive(connection, "migration", timeout_s=5)
        migrate(database, lock_timeout_s=0.2)
        assert connection.in_transaction()  # the lock was held all the time
