"""What serves a model is looked up once after each commit, and never told as it was before."""

import sqlalchemy as sa

from service.inference.lookup import Lookup
from service.rows import ModelRow, new_id


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
    for _ in range(5):
        assert lookup.find_any("ada", "none", None) is None
    assert len(queries) == (1 if tells else 5)
    for i in range(3):
        with database.write() as session:
            session.add(ModelRow(id=new_id("mod"), owner="ada", name=f"m{i}", latest_version=0))
        queries.clear()
        for _ in range(5):
            lookup.find_any("ada", "none", None)
        assert len(queries) == (1 if tells else 5)


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
