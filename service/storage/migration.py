"""Migration and check of the database schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy.exc import OperationalError, ProgrammingError, SQLAlchemyError

import migrations
from service.settings import Settings
from service.storage.database import Database, LockTimeout

#: How long a migration waits for another one of the same database.
DEFAULT_LOCK_TIMEOUT_S = 600.0
#: Readiness checks repeat this query; it is built once.
_REVISIONS: Final = sa.select(sa.column("version_num", sa.String)).select_from(
    sa.table("alembic_version")
)


class SchemaMismatch(RuntimeError):
    """The schema of the database does not match this version of the code."""


class MigrationTimeout(OSError):
    """Another process keeps the database locked, so it could not be migrated."""


@cache
def newest_revision() -> str:
    """Return the revision that this code requires."""
    head = ScriptDirectory.from_config(_config("sqlite://")).get_current_head()
    assert head is not None
    return head


def current_revision(database: Database) -> str | None:
    """Return the revision of the database, or None if it is empty."""
    # Alembic creates a new table object each time, so cached statements would never be reused
    with database.engine.connect().execution_options(compiled_cache=None) as connection:
        return MigrationContext.configure(connection).get_current_revision()


def migrate(
    database: Database, *, revision: str = "head", lock_timeout_s: float = DEFAULT_LOCK_TIMEOUT_S
) -> None:
    """Upgrade the schema to a revision.

    Of several processes that migrate a database at once, one does it, and the others wait for it.

    Raises
    ------
    SchemaMismatch
        The schema is of a newer version, or one that cannot be migrated at once.
    MigrationTimeout
        Another process keeps the database locked for longer than ``lock_timeout_s``.
    """
    check_known(database)
    if revision == "head" and current_revision(database) == newest_revision():
        return
    try:
        command.upgrade(_config(database.url, lock_timeout_s=lock_timeout_s), revision)
    except LockTimeout as error:
        raise MigrationTimeout(
            f"the database has been locked for more than {lock_timeout_s:g} s by another process, "
            "which may be migrating it; run 'sibling migrate' again when that process has ended"
        ) from error
    except CommandError:
        check_known(database)  # a newer version may have migrated it meanwhile
        raise


def check_known(database: Database) -> None:
    """Raise SchemaMismatch if this version cannot migrate the schema."""
    revision = current_revision(database)
    if revision is not None and revision not in _known_revisions():
        raise _mismatch(revision)


def check_schema(database: Database) -> None:
    """Raise SchemaMismatch unless the database has the revision that this code requires."""
    if not _is_newest(database):
        raise _mismatch(current_revision(database))


def _is_newest(database: Database) -> bool:
    """Return whether the schema is of the newest revision; without Alembic, which takes longer."""
    no_such_table = OperationalError if database.is_sqlite else ProgrammingError
    try:
        with database.engine.connect() as connection:
            return list(connection.scalars(_REVISIONS)) == [newest_revision()]
    except no_such_table:
        return False


def database_error(database: Database) -> str | None:
    """Return why the database cannot be used, or None if it can."""
    try:
        check_schema(database)
    except SchemaMismatch as error:
        return str(error)
    except SQLAlchemyError as error:
        return f"the database does not respond ({type(error).__name__})"
    return None


@contextmanager
def reported_errors(failure: str) -> Iterator[None]:
    """Raise OSError with a sentence if the database cannot be used, for commands.

    Parameters
    ----------
    failure
        What is not possible, such as "the database cannot be used".
    """
    try:
        yield
    except (SchemaMismatch, SQLAlchemyError) as error:
        reason = str(getattr(error, "orig", error)).strip()
        raise OSError(f"{failure}: {reason}") from error


def open_database(settings: Settings, *, max_connections: int = 1) -> Database:
    """Open the database and check its schema; on SQLite, migrate it first.

    Parameters
    ----------
    max_connections
        Maximum number of open connections.

    Raises
    ------
    SchemaMismatch, SQLAlchemyError, OSError
        The schema does not match, or the database cannot be reached.
    """
    settings.data_dir.resolve().mkdir(parents=True, exist_ok=True)
    database = Database(
        settings.resolved_database_url(),
        statement_timeout_s=settings.db_statement_timeout_s,
        connect_timeout_s=settings.db_connect_timeout_s,
        max_connections=max_connections,
    )
    try:
        if database.is_sqlite:
            migrate(database)
        check_schema(database)
    except BaseException:
        database.close()
        raise
    return database


def _known_revisions() -> set[str]:
    """Return the revisions from which this code can migrate."""
    scripts = ScriptDirectory.from_config(_config("sqlite://"))
    return {script.revision for script in scripts.walk_revisions()}


def _mismatch(revision: str | None) -> SchemaMismatch:
    if revision is None or revision in _known_revisions():
        return SchemaMismatch(
            f"the database is at schema {revision or 'none'}, this version needs "
            f"{newest_revision()}; run 'sibling migrate', or use the version that created the "
            "database"
        )
    return SchemaMismatch(
        f"the database is at schema {revision}, which this version, of schema {newest_revision()}, "
        "does not know; use the version that created it, or, if that is older than this one, "
        "migrate as 'Other versions' in docs/how-to/upgrade.md says"
    )


def _config(url: str, *, lock_timeout_s: float = DEFAULT_LOCK_TIMEOUT_S) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    config.attributes["lock_timeout_s"] = lock_timeout_s
    return config
