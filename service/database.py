"""The database: how it is opened, and the one place that commits."""

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

#: How long a writer waits for another one.
BUSY_TIMEOUT_S = 30
#: A transaction that its owner leaves alone for so long is undone: frozen, or gone without a word,
#: it would keep its locks, and all who need them would stand still with it.
IDLE_TIMEOUT_S = 30
#: How long a server may take to let us in.
CONNECT_TIMEOUT_S = 10
_LOOK_AGAIN_S = 0.5
#: So long at most an answer stands for what it would be after a commit elsewhere. SQLite tells of
#: commits, which takes as long as a third of a call; PostgreSQL does not.
_REMEMBER_S = {"sqlite": 0.005, "postgresql": 0.25}
#: A server that a network no longer reaches is given up, not waited for: by default for hours.
KEEPALIVE = {
    "tcp_user_timeout": 30_000,  # milliseconds, for what was sent
    "keepalives_idle": 10,  # seconds, while an answer is waited for
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


class Database:
    """SQLite or PostgreSQL behind two contexts: ``read`` and ``write``.

    Parameters
    ----------
    url
        SQLAlchemy address: ``sqlite:///path`` or ``postgresql+psycopg://...``.

    Attributes
    ----------
    remember_s
        So long at most a mark stays the same after a commit elsewhere.
    """

    def __init__(self, url: str) -> None:
        self.url = _with_driver(url)
        self.engine = _open(self.url)
        self.is_sqlite = self.engine.dialect.name == "sqlite"
        self.remember_s = _REMEMBER_S[self.engine.dialect.name]
        # on SQLite a writer takes its lock at once: one that reads first could not wait for it
        self._writer = self.engine.execution_options(is_writer=True)
        self._n_writes = 0
        self._n_sessions = 0
        # a mark, sessions that had ended then, and the time until which it stands
        self._known: tuple[int | None, int, float] = (None, -1, 0.0)
        self._marker: sqlite3.Connection | None = None
        self._marker_lock = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Return a session that sees one state of the database and changes nothing."""
        try:
            with Session(self.engine, expire_on_commit=False) as session:
                yield session
        finally:
            self._n_sessions += 1

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Return a session whose changes are committed together at the end, or not at all."""
        try:
            with Session(self._writer, expire_on_commit=False) as session, session.begin():
                yield session
            self._n_writes += 1
        finally:
            self._n_sessions += 1

    def mark(self) -> int | None:
        """Return a number: while it stays the same, what was read before still holds.

        It changes with every commit made here, and with every one that a session opened here could
        have seen. Of commits elsewhere it may be silent for ``remember_s``. None where the file of
        SQLite cannot be read: a query tells why.
        """
        if not self.is_sqlite:
            return (int(time.monotonic() / self.remember_s) << 64) + self._n_writes
        mark, n_sessions, until = self._known
        if n_sessions == self._n_sessions and time.monotonic() < until:
            return mark
        n_sessions = self._n_sessions
        mark = self._data_version()
        self._known = mark, n_sessions, time.monotonic() + self.remember_s
        return mark

    def _data_version(self) -> int | None:
        """Return a number that SQLite changes with every commit of anybody else."""
        with self._marker_lock, suppress(sqlite3.Error):
            if self._marker is None:
                # it stays open, and never writes: its own commits would not count; nor does it
                # wait, for that nothing is known is an answer too
                self._marker = sqlite3.connect(
                    str(self.engine.url.database), timeout=0, check_same_thread=False
                )
            return int(self._marker.execute("PRAGMA data_version").fetchone()[0])
        return None

    def trouble(self) -> str | None:
        """Return what keeps the database from answering; None where it answers."""
        try:
            with self.engine.connect() as connection:
                connection.execute(sa.text("SELECT 1"))
        except SQLAlchemyError as error:
            return type(error).__name__
        return None

    def wait(self, seconds: float) -> None:
        """Wait so long at most for the database to answer."""
        deadline = time.monotonic() + seconds
        while self.trouble() is not None and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)

    def close(self) -> None:
        """Close every connection."""
        if self._marker is not None:
            self._marker.close()
            self._marker = None
        self.engine.dispose()


def lock(session: Session, *name: str) -> None:
    """Have writers that name the same thing go one after another, until their transactions end.

    SQLite has one writer at a time anyway. On PostgreSQL two could both look, find nothing, and
    both create.
    """
    if session.get_bind().dialect.name == "postgresql":
        digest = hashlib.sha256("\0".join(name).encode()).digest()
        key = int.from_bytes(digest[:8], signed=True)
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))


def now() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(UTC)


def _with_driver(url: str) -> str:
    parsed = sa.make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    return parsed.render_as_string(hide_password=False)


def _open(url: str) -> sa.Engine:
    if not url.startswith("sqlite"):
        # said outright, because a server without a locale would have its texts read as bytes
        arguments = {
            "client_encoding": "utf8",
            "connect_timeout": CONNECT_TIMEOUT_S,
            **KEEPALIVE,
        }
        engine = sa.create_engine(url, pool_pre_ping=True, connect_args=arguments)
        event.listen(engine, "connect", _prepare_postgres)
        event.listen(engine, "handle_error", _tell_that_it_is_away)
        event.listen(engine, "before_cursor_execute", _fetch_bytes_as_they_are)
        return engine
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_postgres(connection: Any, _record: object) -> None:
    connection.autocommit = True  # or the first rollback would undo it
    connection.execute(
        f"SET lock_timeout = '{BUSY_TIMEOUT_S}s';"
        f"SET idle_in_transaction_session_timeout = '{IDLE_TIMEOUT_S}s'"
    )
    connection.autocommit = False


def _tell_that_it_is_away(context: ExceptionContext) -> None:
    """Have a connection that the server has ended for its silence look like any that is gone."""
    if context.is_disconnect and isinstance(context.sqlalchemy_exception, InternalError):
        original = context.original_exception
        raise OperationalError(context.statement, context.parameters, original) from original


def _fetch_bytes_as_they_are(
    _connection: sa.Connection,
    cursor: Any,
    _statement: str,
    _parameters: Any,
    context: ExecutionContext | None,
    _is_many: bool,  # noqa: FBT001 - the event calls it by place
) -> None:
    """Have PostgreSQL send a query with the option ``has_bytes`` in binary.

    As text, its default, bytes come in hexadecimal: twice as long, and copied once more to be read.
    """
    if context is not None and context.execution_options.get("has_bytes", False):
        cursor.format = Format.BINARY


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # we begin transactions ourselves, below
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: sa.Connection) -> None:
    is_writer = connection.get_execution_options().get("is_writer", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")


class UtcTime(sa.TypeDecorator[datetime]):
    """A time with zone; SQLite keeps none, so it is written and read as UTC."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Write as UTC."""
        del dialect
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Any) -> datetime | None:
        """Read as UTC."""
        del dialect
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)
