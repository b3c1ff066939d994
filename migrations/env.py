"""Database connection and settings of Alembic."""

from contextlib import closing

import sqlalchemy as sa
from alembic import context

from service.storage.database import Database, begin_exclusive
from service.storage.tables import Row

config = context.config


def run() -> None:
    # without a time limit: a new index of a large table takes as long as it takes
    url = config.get_main_option("sqlalchemy.url") or ""
    opened = closing(Database(url, statement_timeout_s=0))
    with opened as database, database.engine.connect() as connection:
        _suspend_foreign_keys(connection)
        # processes that migrate at once take turns; the later ones read the new revision
        begin_exclusive(connection, "migration", timeout_s=config.attributes["lock_timeout_s"])
        context.configure(connection=connection, target_metadata=Row.metadata, render_as_batch=True)
        context.run_migrations()
        connection.commit()


def _suspend_foreign_keys(connection: sa.Connection) -> None:
    """Switch off SQLite's foreign keys, so that rebuilding a table does not delete other rows.

    SQLite alters a table by creating a new one and dropping the old one, which would cascade.
    """
    if connection.dialect.name == "sqlite":
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("PRAGMA foreign_keys=OFF").close()


run()
