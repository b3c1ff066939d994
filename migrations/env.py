"""How Alembic reaches the database."""

from alembic import context

from service.database import Database
from service.rows import Row

config = context.config


def run() -> None:
    database = Database(config.get_main_option("sqlalchemy.url") or "")
    with database.engine.connect() as connection:
        context.configure(connection=connection, target_metadata=Row.metadata, render_as_batch=True)
        with context.begin_transaction():
            context.run_migrations()
        connection.commit()
    database.close()


run()
