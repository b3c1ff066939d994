"""What serves a model is looked up once after each commit, and never told as it was before."""

import pytest
import sqlalchemy as sa

from service.errors import Problem
from service.inference.lookup import Found, Lookup, Target
from service.models.store import Served
from service.rows import ModelRow, new_id

TARGET = Target("v2", "ada", "none", None)
FOUND = Found(Served("none", 1, "v", "pca", ["transform"], "ds", "b", "s", 1), "transform")


def count_queries(database):
    """Give the queries of a database from now on, as they come."""
    queries = []

    def note(_connection, _cursor, statement, *_):
        if statement.startswith("SELECT"):
            queries.append(statement)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    return queries


def test_a_name_is_looked_up_once_after_each_commit(database):
    lookup = Lookup(database)
    tells = database.mark() is not None
    queries = count_queries(database)

    def find():
        assert lookup.find_any("ada", "none", None) is None
        return FOUND

    for i in range(3):
        assert lookup.known(TARGET) is None
        for _ in range(5):
            assert lookup.find_target(TARGET, find) is FOUND
            assert lookup.known(TARGET) is (FOUND if tells else None)
        assert len(queries) == (1 if tells else 5)
        with database.write() as session:
            session.add(ModelRow(id=new_id("mod"), owner="ada", name=f"m{i}", latest_version=0))
        queries.clear()


def test_that_there_is_none_is_not_remembered(database):
    lookup = Lookup(database)

    def find():
        return Found(lookup.find("ada", "none", None), "transform")

    for _ in range(2):
        with pytest.raises(Problem, match="no model 'none'"):
            lookup.find_target(TARGET, find)
        assert lookup.known(TARGET) is None


def test_what_was_found_before_a_commit_is_not_remembered_after_it(database):
    lookup = Lookup(database)
    if database.mark() is None:
        return  # nothing is remembered there

    def find():
        with database.write() as session:  # a version is published while the old one is read
            session.add(ModelRow(id=new_id("mod"), owner="ada", name="m", latest_version=0))
        return FOUND

    assert lookup.find_target(TARGET, find) is FOUND
    assert lookup.known(TARGET) is None


def test_the_mark_changes_with_every_commit_and_with_nothing_else(database):
    if database.mark() is None:
        assert database.engine.dialect.name == "postgresql"
        return
    before = database.mark()
    with database.read() as session:
        session.scalar(sa.select(sa.func.count()).select_from(ModelRow))
    assert database.mark() == before
    seen = {before}
    for i in range(5):
        with database.write() as session:
            session.add(ModelRow(id=new_id("mod"), owner="ada", name=f"m{i}", latest_version=0))
        seen.add(database.mark())
    assert len(seen) == 6
