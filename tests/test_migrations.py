import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from service.storage.database import Database, begin_exclusive
from service.storage.rows import AttemptRow, DatasetRow, EventRow, JobRow, Row
from service.storage.schema import (
    MigrationTimeout,
    SchemaMismatch,
    _config,
    check_schema,
    current_revision,
    migrate,
)


@pytest.fixture
def database(empty_database):
    return empty_database


def tables(database):
    with database.engine.connect() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_migrations_end_at_the_schema_of_the_code(database):
    migrate(database)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Row.metadata) == []
    check_schema(database)


def test_every_migration_can_be_applied_and_reverted(database):
    revisions = [
        r.revision for r in ScriptDirectory.from_config(_config("sqlite://")).walk_revisions()
    ]
    for revision in reversed(revisions):
        migrate(database, revision=revision)
        assert current_revision(database) == revision
        command.downgrade(_config(database.url), "-1")
        migrate(database, revision=revision)
    command.downgrade(_config(database.url), "base")
    assert tables(database) == set()


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


def test_codes_and_plans_of_stored_jobs_are_renamed_and_back(database):
    before = "2026_11_23_validation_issues"
    migrate(database, revision=before)
    moment = "2026-01-01 00:00:00+00:00"
    study = {
        "kind": "study",
        "n_parts": 3,
        "search": {"asked": {}, "tried": [{"k": 1}], "least": 2},
        "comparison": {"asked": {}, "least": 2},
    }
    score = {"kind": "score", "of": "search", "tried": [{"tried": 1}], "least": 2, "search": None}
    failed = {"code": "out_of_memory", "detail": "d", "attempt": 1}
    crashed = {"code": "crashed: SIGSEGV", "detail": "killed by SIGSEGV", "attempt": 1}
    jobs = {
        "job_1": (study, None, failed),
        "job_2": (score, {"scores": [], "plan": score, "failed": None}, crashed),
        "job_3": (None, None, None),
    }
    rows = sa.table(
        "jobs",
        *(sa.column(name) for name in ("id", "owner", "dataset_id", "algorithm", "seed", "state")),
        *(sa.column(name) for name in ("model_name", "priority", "timeout_s", "memory_mb")),
        *(sa.column(name) for name in ("max_attempts", "attempt", "charged", "heartbeat")),
        sa.column("is_cancel_requested", sa.Boolean),
        sa.column("is_release_requested", sa.Boolean),
        sa.column("created_at", sa.DateTime(timezone=True)),
        *(sa.column(n, sa.JSON) for n in ("params", "plan", "result", "error", "warnings")),
    )
    common = {
        "owner": "ada",
        "dataset_id": "ds_1",
        "algorithm": "pca",
        "seed": 0,
        "state": "failed",
        "model_name": "m",
        "priority": 0,
        "timeout_s": 60,
        "memory_mb": 512,
        "attempt": 1,
        "max_attempts": 3,
        "charged": 1,
        "heartbeat": 0,
        "params": {},
        "warnings": [],
        "is_cancel_requested": False,
        "is_release_requested": False,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO datasets (id, owner, name, state, media_type, options, fingerprint, "
            "upload_sha256, size_bytes, issues, created_at, updated_at) VALUES ('ds_1', 'ada', "
            f"'d', 'ready', 'text/csv', '{{}}', 'f', '0', 1, '[]', '{moment}', '{moment}')"
        )
        for job_id, (plan, result, error) in jobs.items():
            values = {"id": job_id, "plan": plan, "result": result, "error": error}
            connection.execute(sa.insert(rows).values(**common, **values))
        connection.exec_driver_sql(
            "INSERT INTO attempts (job_id, attempt, worker, outcome, error, started_at) VALUES "
            f"('job_1', 1, 'w', 'lost', '{{\"code\": \"worker_lost\"}}', '{moment}')"
        )
        connection.exec_driver_sql(
            "INSERT INTO events (job_id, attempt, kind, data, created_at) VALUES ('job_1', 1, "
            f"'state', '{{\"error\": {{\"code\": \"timed_out\"}}}}', '{moment}')"
        )
    migrate(database)
    with database.read() as session:
        first, second, third = (session.get_one(JobRow, job_id) for job_id in jobs)
        assert first.error == {**failed, "code": "out-of-memory"}
        assert first.counted_attempts == 1
        assert first.plan["n_child_jobs"] == 3
        assert first.plan["search"] == {"options": {}, "param_sets": [{"k": 1}], "min_rows": 2}
        assert first.plan["comparison"] == {"options": {}, "min_rows": 2}
        assert second.error == {**crashed, "code": "crashed"}
        assert second.plan == second.result["plan"]
        assert second.plan["param_sets"] == [{"tried": 1}]  # values stay
        assert (third.plan, third.result, third.error) == (None, None, None)
        assert session.scalars(sa.select(AttemptRow)).one().error["code"] == "worker-lost"
        assert session.scalars(sa.select(EventRow)).one().data["error"]["code"] == "timed-out"
    command.downgrade(_config(database.url), before)
    with database.engine.connect() as connection:
        found = connection.execute(sa.select(rows).order_by(rows.c.id)).all()
        assert [(row.plan, row.result) for row in found] == [one[:2] for one in jobs.values()]
        assert found[0].error == failed
        assert found[0].charged == 1


def test_rows_of_the_first_schema_survive_every_later_one(database):
    revisions = [
        r.revision for r in ScriptDirectory.from_config(_config("sqlite://")).walk_revisions()
    ]
    migrate(database, revision=revisions[-1])
    moment = "2026-01-01 00:00:00+00:00"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO datasets (id, owner, name, state, media_type, options, fingerprint, "
            "upload_sha256, size_bytes, complaints, created_at, updated_at) VALUES ('ds_1', 'ada', "
            f"'d', 'ready', 'text/csv', '{{}}', 'f', '0', 1, '[]', '{moment}', '{moment}')"
        )
        connection.exec_driver_sql(
            "INSERT INTO jobs (id, owner, dataset_id, algorithm, params, seed, model_name, "
            "priority, timeout_s, memory_mb, max_attempts, state, attempt, charged, "
            "is_cancel_requested, heartbeat, created_at) VALUES ('job_1', 'ada', 'ds_1', 'pca', "
            f"'{{}}', 0, 'm', 0, 60, 512, 3, 'queued', 0, 0, false, 0, '{moment}')"
        )
        connection.exec_driver_sql(
            "INSERT INTO events (job_id, attempt, kind, data, created_at) "
            f"VALUES ('job_1', 0, 'state', '{{}}', '{moment}')"
        )
    migrate(database)
    with database.read() as session:
        assert session.get_one(JobRow, "job_1").is_release_requested is False
        assert len(session.scalars(sa.select(EventRow)).all()) == 1
    command.downgrade(_config(database.url), revisions[-1])
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM events").scalar() == 1


def test_jobs_of_a_model_version_get_its_id_from_their_plan(database):
    migrate(database, revision="2026_11_24_quotas")
    moment = "2026-01-01 00:00:00+00:00"
    plans = {"job_1": '{"kind": "adapt", "version_id": "mdl_1"}', "job_2": '{"kind": "score"}'}
    plans["job_3"] = "null"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO datasets (id, owner, name, state, media_type, options, fingerprint, "
            "upload_sha256, size_bytes, issues, created_at, updated_at) VALUES ('ds_1', 'ada', "
            f"'d', 'ready', 'text/csv', '{{}}', 'f', '0', 1, '[]', '{moment}', '{moment}')"
        )
        for job_id, plan in plans.items():
            connection.exec_driver_sql(
                "INSERT INTO jobs (id, root_id, owner, dataset_id, algorithm, params, seed, "
                "model_name, priority, timeout_s, memory_mb, max_attempts, state, attempt, "
                "counted_attempts, is_cancel_requested, is_release_requested, heartbeat, warnings, "
                f"plan, created_at) VALUES ('{job_id}', '{job_id}', 'ada', 'ds_1', 'pca', '{{}}', "
                "0, 'm', 0, 60, 512, 3, 'queued', 0, 0, false, false, 0, '[]', "
                f"'{plan}', '{moment}')"
            )
    migrate(database)
    with database.read() as session:
        found = dict(session.execute(sa.select(JobRow.id, JobRow.base_version_id)).all())
    assert found == {"job_1": "mdl_1", "job_2": None, "job_3": None}


def test_issues_of_rejected_datasets_survive_the_renaming_of_their_codes(database):
    before = "2026_11_22_job_warnings"
    migrate(database, revision=before)
    stored = '[{"code": "damaged-array", "detail": "d"}, {"code": "no-rows", "detail": "e"}]'
    moment = "2026-01-01 00:00:00+00:00"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO datasets (id, owner, name, state, media_type, options, fingerprint, "
            "upload_sha256, size_bytes, complaints, created_at, updated_at) VALUES ('ds_1', 'ada', "
            f"'d', 'rejected', 'text/csv', '{{}}', 'f', '0', 1, '{stored}', '{moment}', "
            f"'{moment}')"
        )
    migrate(database)
    with database.read() as session:
        issues = session.get_one(DatasetRow, "ds_1").issues
    assert [issue["code"] for issue in issues] == ["corrupt-array", "no-rows"]
    command.downgrade(_config(database.url), before)
    with database.engine.connect() as connection:
        assert "damaged-array" in str(
            connection.exec_driver_sql("SELECT complaints FROM datasets").scalar()
        )


#: Imports the command, runs it in as many processes at once as asked, and prints their exit codes.
STARTER = """
import os
import sys
import alembic.command
from service.cli import main
from service import (settings)
from service.storage import database
from service.storage import schema
pids = []
for _ in range(int(sys.argv.pop(1))):
    pids.append(os.fork())
    if pids[-1] == 0:
        main()
for pid in pids:
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
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


def test_processes_that_migrate_at_once_take_turns(database):
    url = database.url
    assert run_at_once(4, url) == ([0] * 4, "")
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
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
