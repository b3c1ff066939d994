"""The schema of the database: brought up to date, or refused."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

import migrations
from service.database import Database


class SchemaMismatch(RuntimeError):
    """The database has a schema that this version of the code does not know."""


@cache
def newest_revision() -> str:
    """Give the revision that this code needs."""
    head = ScriptDirectory.from_config(_config("sqlite://")).get_current_head()
    assert head is not None
    return head


def current_revision(database: Database) -> str | None:
    """Give the revision that the database is at; None where it is empty."""
    # Alembic makes its table anew each time, so what is compiled of it is never used again
    with database.engine.connect().execution_options(compiled_cache=None) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def migrate(database: Database, *, revision: str = "head") -> None:
    """Bring the schema to a revision, upwards; one that a newer version made is a mismatch."""
    found = current_revision(database)
    scripts = ScriptDirectory.from_config(_config(database.url))
    if found is not None and found not in {script.revision for script in scripts.walk_revisions()}:
        raise _mismatch(found)
    command.upgrade(_config(database.url), revision)


def check_schema(database: Database) -> None:
    """Raise SchemaMismatch unless the database is at the revision that this code needs."""
    found = current_revision(database)
    if found != newest_revision():
        raise _mismatch(found)


def _mismatch(found: str | None) -> SchemaMismatch:
    return SchemaMismatch(
        f"the database is at schema {found or 'none'}, this version needs {newest_revision()}; "
        "run 'sibling migrate', or use the version that made the database"
    )


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config
