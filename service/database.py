"""Database engine and sessions; the only place that commits."""

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from psycopg.pq import Format
from sqlalchemy import event
from sqlalchemy.engine.interfaces import ExceptionContext, ExecutionContext
from sqlalchemy.exc import InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

#: How long a writer waits for a lock.
BUSY_TIMEOUT_S = 30
#: PostgreSQL rolls back a transaction that has been idle for this long, so that a frozen or
#: disconnected client does not keep its locks.
IDLE_TIMEOUT_S = 30
#: Timeout of a connection attempt.
CONNECT_TIMEOUT_S = 10
_RETRY_S = 0.5
#: How long a change token may miss a commit of another process. SQLite reports commits, but asking
#: takes a third of the time of an inference request; PostgreSQL does not report them.
_CHANGE_TOKEN_TTL_S = {"sqlite": 0.005, "postgresql": 0.25}
#: TCP keepalive: detects an unreachable server within a minute, instead of hours by default.
KEEPALIVE = {
    "tcp_user_timeout": 30_000,  # milliseconds until sent data must be acknowledged
    "keepalives_idle": 10,  # seconds of silence before the first probe
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


class Database:
    """SQLite or PostgreSQL database with two kinds of session: ``read`` and ``write``.

    Parameters
    ----------
    url
        SQLAlchemy URL: ``sqlite:///path`` or ``postgresql+psycopg://...``.

    Attributes
    ----------
    change_token_ttl_s
        How long :meth:`change_token` may stay the same after a commit of another process.
    """

    def __init__(self, url: str) -> None:
        self.url = _with_driver(url)
        self.engine = _open(self.url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self.change_token_ttl_s = _CHANGE_TOKEN_TTL_S[self.engine.dialect.name]
        # on SQLite a writer locks at once: a transaction that has read cannot wait for a lock
        self._writer = self.engine.execution_options(is_writer=True)
        self._n_writes = 0
        self._n_sessions = 0
        # the last token, the sessions that had ended by then, and when the token expires
        self._last_token: tuple[int | None, int, float] = (None, -1, 0.0)
        self._probe: sqlite3.Connection | None = None
        self._probe_lock = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Yield a read-only session that sees one snapshot of the database."""
        try:
            with Session(self.engine, expire_on_commit=False) as session:
                yield session
        finally:
            self._n_sessions += 1

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Yield a session; commit its changes at the end, or roll back on an exception."""
        try:
            with Session(self._writer, expire_on_commit=False) as session, session.begin():
                yield session
            self._n_writes += 1
        finally:
            self._n_sessions += 1

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
        digest = hashlib.sha256("\0".join(name).encode()).digest()
        key = int.from_bytes(digest[:8], signed=True)
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def _with_driver(url: str) -> str:
    parsed = sa.make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    return parsed.render_as_string(hide_password=False)


def _open(url: str) -> sa.Engine:
    if not url.startswith("sqlite"):
        # explicit, since psycopg returns text as bytes if the server has no locale
        arguments = {
            "client_encoding": "utf8",
            "connect_timeout": CONNECT_TIMEOUT_S,
            **KEEPALIVE,
        }
        engine = sa.create_engine(url, pool_pre_ping=True, connect_args=arguments)
        event.listen(engine, "connect", _prepare_postgres)
        event.listen(engine, "handle_error", _report_as_disconnected)
        event.listen(engine, "before_cursor_execute", _fetch_binary)
        return engine
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_postgres(connection: Any, _record: object) -> None:
    connection.autocommit = True  # otherwise the first rollback would undo the settings
    connection.execute(
        f"SET lock_timeout = '{BUSY_TIMEOUT_S}s';"
        f"SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_S}s'"
    )
    connection.autocommit = False


def _report_as_disconnected(context: ExceptionContext) -> None:
    """Report a connection that the server closed for idleness as an OperationalError."""
    if context.is_disconnect and isinstance(context.sqlalchemy_exception, InternalError):
        original = context.original_exception
        raise OperationalError(context.statement, context.parameters, original) from original


def _fetch_binary(
    _connection: sa.Connection,
    cursor: Any,
    _statement: str,
    _parameters: Any,
    context: ExecutionContext | None,
    _is_many: bool,  # noqa: FBT001 - positional argument of the event
) -> None:
    """Fetch results of queries with the option ``has_bytes`` in PostgreSQL's binary format.

    The default text format is hexadecimal: twice as long, and copied once more.
    """
    if context is not None and context.execution_options.get("has_bytes", False):
        cursor.format = Format.BINARY


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin in _begin_sqlite
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    is_writer = connection.get_execution_options().get("is_writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")


class UtcTime(sa.TypeDecorator[datetime]):
    """A time with zone, stored as UTC, since SQLite stores no time zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Convert to UTC before storing."""
        del dialect
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Add the UTC time zone after reading."""
        del dialect
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)
