"""Database connection and settings of Alembic."""

import sqlalchemy as sa
from alembic import context

from service.database import Database
from service.rows import Row

config = context.config


def run() -> None:
    # without a time limit: a new index of a large table takes as long as it takes
    url = config.get_main_option("sqlalchemy.url") or ""
    database = Database(url, statement_timeout_s=0)
    with database.engine.connect() as connection:
        _suspend_foreign_keys(connection)
        context.configure(connection=connection, target_metadata=Row.metadata, render_as_batch=True)
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()
    database.close()


def _suspend_foreign_keys(connection: sa.Connection) -> None:
    """Switch off SQLite's foreign keys, so that rebuilding a table does not delete other rows.

    SQLite alters a table by creating a new one and dropping the old one, which would cascade.
    """
    if connection.dialect.name == "sqlite":
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("PRAGMA foreign_keys=OFF").close()


run()
