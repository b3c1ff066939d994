import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from service.database import Database
from service.rows import Row
from service.schema import SchemaMismatch, _config, check_schema, current_revision, migrate


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'migrated.db'}"
    else:
        url = request.getfixturevalue("new_postgres")()
    database = Database(url)
    yield database
    database.close()


def tables(database):
    with database.engine.connect() as connection:
        return set(inspect(connection).get_table_names()) - {"alembic_version"}


def test_migrations_end_at_the_rows_as_the_code_has_them(database):
    migrate(database)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Row.metadata) == []
    check_schema(database)


def test_every_migration_goes_up_and_down_again(database):
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


def test_an_unknown_schema_is_refused_with_both_revisions(database):
    with pytest.raises(SchemaMismatch, match="none"):
        check_schema(database)
    migrate(database)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    with pytest.raises(SchemaMismatch, match="from-the-future"):
        check_schema(database)
