"""Model names are resolved once after each commit, and never to an outdated version."""

import asyncio
import contextlib
import sqlite3
import time

import pytest
import sqlalchemy as sa

from service.errors.problems import Problem
from service.inference.pool import ComputePool
from service.models.resolver import ModelResolver, ResolvedModel
from service.models.store import ServableVersion
from service.observability.metrics import Metrics
from service.storage.database import BUSY_TIMEOUT_S, Database
from service.storage.tables import ModelRow, new_id

pytestmark = pytest.mark.sql

TARGET = ("v2", "ada", "none", None)
FOUND = ResolvedModel(
    ServableVersion("none", 1, "v", "pca", ["transform"], "ds", "b", "s", 1), "transform"
)


def count_queries(database):
    """Return a list that collects the queries of a database from now on."""
    queries = []

    def record(_connection, _cursor, statement, *_):
        if statement.startswith("SELECT"):
            queries.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", record)
    return queries


def commit(database, name):
    """Commit as another process would, and wait until cached results have expired."""
    other = Database(database.url)
    with other.write() as session:
        session.add(ModelRow(id=new_id("mod"), owner="ada", name=name, latest_version=0))
    other.close()
    time.sleep(database.change_token_ttl_s)


def test_commits_of_this_process_are_seen_at_once(database):
    for i in range(5):
        before = database.change_token()
        with database.write() as session:
            session.add(ModelRow(id=new_id("mod"), owner="ada", name=f"m{i}", latest_version=0))
        assert database.change_token() != before


def test_a_name_is_queried_once_after_each_commit(database):
    resolver = ModelResolver(database, single_process=True)
    queries = count_queries(database)

    def find():
        assert resolver.find_any("ada", "none", None) is None
        return FOUND

    for i in range(3):
        assert resolver.cached(TARGET) is None
        started = time.monotonic()
        for _ in range(5):
            assert resolver.resolve(TARGET, find) is FOUND
        if database.engine.dialect.name == "sqlite":
            assert resolver.cached(TARGET) is FOUND
            assert len(queries) == 1
        else:
            assert (
                len(queries) <= 1 + (time.monotonic() - started) / database.change_token_ttl_s + 1
            )
        commit(database, f"m{i}")
        queries.clear()


def test_unknown_names_are_not_cached(database):
    resolver = ModelResolver(database, single_process=True)

    def find():
        return ResolvedModel(resolver.find("ada", "none", None), "transform")

    for _ in range(2):
        with pytest.raises(Problem, match="no model 'none'"):
            resolver.resolve(TARGET, find)
        assert resolver.cached(TARGET) is None


def test_results_of_a_query_before_a_commit_are_not_cached(database):
    resolver = ModelResolver(database, single_process=True)

    def find():
        commit(database, "m")  # a version is published while the old one is read
        return FOUND

    assert resolver.resolve(TARGET, find) is FOUND
    assert resolver.cached(TARGET) is None


def test_the_change_token_changes_with_every_commit_and_nothing_else(database):
    if database.engine.dialect.name != "sqlite":
        first = database.change_token()
        time.sleep(database.change_token_ttl_s)
        assert database.change_token() > first
        return
    before = database.change_token()
    with database.read() as session:
        session.scalar(sa.select(sa.func.count()).select_from(ModelRow))
    assert database.change_token() == before
    seen = {before}
    for i in range(5):
        commit(database, f"m{i}")
        seen.add(database.change_token())
    assert len(seen) == 6


def test_a_commit_that_this_process_has_read_changes_the_token_at_once(tmp_path):
    """A client that has seen a new version calls that version, not the previous one."""
    database = Database(f"sqlite:///{tmp_path / 'read.db'}")
    with database.write() as session:
        session.execute(sa.text("CREATE TABLE t (x)"))
    with contextlib.closing(sqlite3.connect(tmp_path / "read.db", isolation_level=None)) as writer:
        for i in range(50):
            before = database.change_token()
            writer.execute("INSERT INTO t VALUES (1)")
            with database.read() as session:
                assert session.scalar(sa.text("SELECT count(*) FROM t")) == i + 1
            assert database.change_token() != before
    database.close()


def test_reading_the_change_token_does_not_wait_for_a_writer(tmp_path, stopwatch):
    """It is read on the event loop, which must not block."""
    path = tmp_path / "locked.db"
    database = Database(f"sqlite:///{path}")
    with database.write() as session:
        session.execute(sa.text("CREATE TABLE t (x)"))
    before = database.change_token()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("INSERT INTO t VALUES (1)")
        elapsed_s = stopwatch()
        assert database.change_token() == before
        assert elapsed_s() < BUSY_TIMEOUT_S / 2
        writer.execute("COMMIT")
        time.sleep(database.change_token_ttl_s)
        assert database.change_token() != before
    database.close()


def test_concurrent_callers_share_one_query(database):
    """After a commit the cache is empty, and all pending requests resolve the name at once."""
    resolver = ModelResolver(database, single_process=True)
    pool = ComputePool(Metrics(), threads=2, queue_size=2, processes=1)
    n_found = 0

    def find():
        nonlocal n_found
        n_found += 1
        time.sleep(0.05)
        return FOUND

    def fail():
        raise Problem("not-found", "there is none")

    async def resolve_all(find):
        await asyncio.gather(*(resolver.resolve_in_pool(TARGET, find, pool.run) for _ in range(50)))

    asyncio.run(resolve_all(find))
    assert n_found == 1
    if database.is_sqlite:  # with other databases the entry expires
        assert resolver.cached(TARGET) is FOUND
    commit(database, "m")
    asyncio.run(resolve_all(fail))
    assert resolver.cached(TARGET) is None
    pool.close()
