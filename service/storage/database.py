"""Database engine and sessions; the only place that commits."""

import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from psycopg.errors import ConnectionTimeout, LockNotAvailable
from sqlalchemy import event
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from service.storage import postgres

#: Errors of a database that does not respond, is locked, or has no free connection.
UNAVAILABLE: Final = (OperationalError, PoolTimeout)
#: How long a writer waits for a lock.
BUSY_TIMEOUT_S = 30
#: PostgreSQL rolls back a transaction that has been idle for this long, so that a frozen or
#: disconnected client does not keep its locks.
IDLE_TIMEOUT_S = 30
#: How long a thread waits for a connection while all of them are in use.
POOL_TIMEOUT_S = 10
_RETRY_S = 0.5
_WAL_RETRY_S = 0.01
#: How long a change token may miss a commit of another process. SQLite reports commits, but asking
#: takes a third of the time of an inference request; PostgreSQL does not report them.
_CHANGE_TOKEN_TTL_S = {"sqlite": 0.005, "postgresql": 0.25}

T = TypeVar("T")


class LockTimeout(Exception):
    """A lock is held by another process for longer than the caller waits."""


def retry_while_unavailable(
    step: Callable[[bool], T], timeout_s: float, *, is_stopping: Callable[[], bool] = lambda: False
) -> T:
    """Return the result of a step, retried while the database is unavailable.

    Parameters
    ----------
    step
        Is called with whether it is a retry: a failed transaction may have been committed.
    timeout_s
        Time after which the error is raised.
    is_stopping
        Whether the error is raised at once, instead of another try.
    """
    deadline = time.monotonic() + timeout_s
    is_retry = False
    while True:
        try:
            return step(is_retry)
        except UNAVAILABLE:
            if time.monotonic() > deadline or is_stopping():
                raise
            is_retry = True
            time.sleep(_RETRY_S)


class Database:
    """SQLite or PostgreSQL database with two kinds of session: ``read`` and ``write``.

    Parameters
    ----------
    url
        SQLAlchemy URL: ``sqlite:///path`` or ``postgresql+psycopg://...``.
    statement_timeout_s
        Time limit of a statement on PostgreSQL; 0 for none.
    connect_timeout_s
        Timeout of a connection attempt to PostgreSQL.
    max_connections
        Maximum number of open connections. Further sessions wait ``POOL_TIMEOUT_S`` for one.
    max_idle_connections
        Number of connections that stay open while they are not in use.

    Raises
    ------
    OperationalError, TimeoutError
        From every method, while the database is unavailable (:data:`UNAVAILABLE`).

    Attributes
    ----------
    change_token_ttl_s
        How long :meth:`change_token` may stay the same after a commit of another process.
    """

    def __init__(
        self,
        url: str,
        *,
        statement_timeout_s: float = 30,
        connect_timeout_s: float = 10,
        max_connections: int = 15,
        max_idle_connections: int = 5,
    ) -> None:
        self.url = _with_driver(url)
        n_idle = min(max_connections, max_idle_connections)
        self.engine = _open(
            self.url,
            statement_timeout_s,
            connect_timeout_s,
            pool_size=n_idle,
            max_overflow=max_connections - n_idle,
            pool_timeout=POOL_TIMEOUT_S,
        )
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self.change_token_ttl_s = _CHANGE_TOKEN_TTL_S[self.engine.dialect.name]
        # on SQLite a writer locks at once: a transaction that has read cannot wait for a lock
        self._writer = self.engine.execution_options(is_writer=True)
        self._reader = self.engine
        if not self.is_sqlite:  # whose statements would each have a snapshot of their own
            self._reader = self.engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        self._n_writes = 0
        self._n_sessions = 0
        # the last token, the sessions that had ended by then, and when the token expires
        self._last_token: tuple[int | None, int, float] = (None, -1, 0.0)
        self._probe: sqlite3.Connection | None = None
        self._probe_lock = threading.Lock()
        self._is_silent = False
        self._trial = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Yield a read-only session that sees one snapshot of the database."""
        try:
            with self._admitted(), Session(self._reader, expire_on_commit=False) as session:
                yield session
        finally:
            self._n_sessions += 1

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Yield a session; commit its changes at the end, or roll back on an exception."""
        try:
            with (
                self._admitted(),
                Session(self._writer, expire_on_commit=False) as session,
                session.begin(),
            ):
                yield session
            self._n_writes += 1
        finally:
            self._n_sessions += 1

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        """Let only one session at a time try a server that has not responded to the last one.

        The others fail at once. Otherwise each would wait for the timeout, and requests would wait
        for the threads.
        """
        is_trial = self._is_silent
        if is_trial and not self._trial.acquire(blocking=False):
            cause = postgres.ServerSilent("the database did not respond to the last request")
            raise OperationalError(None, None, cause)
        is_silent = False
        try:
            yield
        except OperationalError as error:
            is_silent = isinstance(error.orig, (postgres.ServerSilent, ConnectionTimeout))
            raise
        finally:
            self._is_silent = is_silent
            if is_trial:
                self._trial.release()

    def change_token(self) -> int | None:
        """Return a number that changes when the database changes, for use as a cache key.

        It changes with every commit of this object, and with every commit that an earlier session
        of this object could have seen. It may miss commits of other processes for up to
        ``change_token_ttl_s``. None if the SQLite file cannot be read; a query reports the error.
        """
        if not self.is_sqlite:
            return (int(time.monotonic() / self.change_token_ttl_s) << 64) + self._n_writes
        token, n_sessions, expires = self._last_token
        if n_sessions == self._n_sessions and time.monotonic() < expires:
            return token
        n_sessions = self._n_sessions
        token = self._data_version()
        self._last_token = token, n_sessions, time.monotonic() + self.change_token_ttl_s
        return token

    def _data_version(self) -> int | None:
        """Return SQLite's counter of commits made through other connections."""
        with self._probe_lock, suppress(sqlite3.Error):
            if self._probe is None:
                # a connection that never writes, since its own commits are not counted; no wait
                # for locks, since None is a valid result
                self._probe = sqlite3.connect(
                    str(self.engine.url.database), timeout=0, check_same_thread=False
                )
            return int(self._probe.execute("PRAGMA data_version").fetchone()[0])
        return None

    def connection_error(self) -> str | None:
        """Return the name of the error that a query raises, or None if the database responds."""
        try:
            with self.engine.connect() as connection:
                connection.execute(sa.text("SELECT 1"))
        except SQLAlchemyError as error:
            return type(error).__name__
        return None

    def wait(self, seconds: float) -> None:
        """Wait for the database to respond, for at most so many seconds."""
        deadline = time.monotonic() + seconds
        while self.connection_error() is not None and time.monotonic() < deadline:
            time.sleep(_RETRY_S)

    def release_connections(self) -> None:
        """Close the connections that are not in use; a later session opens another."""
        self.engine.dispose()

    def close(self) -> None:
        """Close every connection."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None
        self.engine.dispose()


def lock(session: Session, *name: str) -> None:
    """Lock a name until the end of the transaction, so that writers of one thing take turns.

    On PostgreSQL two transactions could otherwise both find nothing and both insert. SQLite has
    only one writer at a time.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_key(*name))))


def begin_exclusive(connection: sa.Connection, name: str, *, timeout_s: float) -> None:
    """Begin a transaction that excludes others of this name; on SQLite, that excludes all writers.

    Raises
    ------
    LockTimeout
        Another process holds the lock for longer than the timeout.
    """
    milliseconds = max(int(timeout_s * 1000), 1)  # 0 would be no limit
    try:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {milliseconds}")
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_key(name))))
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_TIMEOUT_S}s'")
        else:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute(f"PRAGMA busy_timeout = {milliseconds}").close()
            connection.execution_options(is_writer=True).begin()
    except OperationalError as error:
        if _is_lock_timeout(error):
            raise LockTimeout from error
        raise


def _is_lock_timeout(error: OperationalError) -> bool:
    """Return whether the database gave up waiting for a lock."""
    if isinstance(error.orig, sqlite3.OperationalError):
        return _is_busy(error.orig)
    return isinstance(error.orig, LockNotAvailable)


def _is_busy(error: sqlite3.OperationalError) -> bool:
    """Return whether another connection has the lock; the low byte of a code is its kind."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _lock_key(*name: str) -> int:
    digest = hashlib.sha256("\0".join(name).encode()).digest()
    return int.from_bytes(digest[:8], signed=True)


def contains(text: str, *columns: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a column contains a text, in lower or upper case."""
    return sa.or_(*(column.icontains(text, autoescape=True) for column in columns))


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def _with_driver(url: str) -> str:
    parsed = sa.make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    return parsed.render_as_string(hide_password=False)


def _open(url: str, statement_timeout_s: float, connect_timeout_s: float, **pool: Any) -> sa.Engine:
    if not url.startswith("sqlite"):
        return postgres.create_engine(
            url,
            statement_timeout_s=statement_timeout_s,
            lock_timeout_s=BUSY_TIMEOUT_S,
            idle_timeout_s=IDLE_TIMEOUT_S,
            connect_timeout_s=connect_timeout_s,
            **pool,
        )
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S}, **pool)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin in _begin_sqlite
    _use_write_ahead_log(connection)
    # SQLite's own function knows the letters of ASCII only
    connection.create_function("lower", 1, _lower, deterministic=True)
    for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _lower(text: Any) -> Any:
    """Return a text in lower case, as PostgreSQL's function does."""
    return text.lower() if isinstance(text, str) else text


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to the write-ahead log, if it does not have one yet.

    Where another connection switches a new file at the same time, SQLite fails at once instead of
    waiting for the lock.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(_WAL_RETRY_S)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    is_writer = connection.get_execution_options().get("is_writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")


class UtcTime(sa.TypeDecorator[datetime]):
    """A time in UTC; SQLite stores no time zone, and PostgreSQL answers in that of the session."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Convert to UTC before storing."""
        del dialect
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Return the time in UTC."""
        del dialect
        if value is None or value.tzinfo is UTC:
            return value
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
