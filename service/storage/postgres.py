"""Connections to PostgreSQL that wait for the server for a limited time.

The server ends a statement that takes too long, but only while it works. A frozen server, a paused
connection pooler or a lost network route sends neither a result nor an error, and TCP detects only
the last of these: the kernel of a frozen server still acknowledges received data.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.abc import PQGen
from psycopg.pq import Format
from sqlalchemy import event
from sqlalchemy.engine.interfaces import ExceptionContext, ExecutionContext
from sqlalchemy.exc import InternalError, InvalidatePoolError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry

#: How long a pooled connection has to respond before it is used.
PING_TIMEOUT_S: Final = 5.0
#: Time for the network, in addition to the time limit of a statement.
RESPONSE_MARGIN_S: Final = 5.0
#: TCP keepalive: detects an unreachable server within a minute, instead of hours by default.
KEEPALIVE: Final = {
    "tcp_user_timeout": 30_000,  # milliseconds until sent data must be acknowledged
    "keepalives_idle": 10,  # seconds of silence before the first probe
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_FRESH: Final = "is_fresh"

Result = TypeVar("Result")


class ServerSilent(psycopg.OperationalError):
    """The server has sent nothing for longer than any statement may take."""


class BoundedConnection(psycopg.Connection[Any]):
    """Connection that is closed when the server has been silent for too long.

    Attributes
    ----------
    max_silence_s
        Maximum time between two responses of the server; None for no limit.
    """

    max_silence_s: float | None = PING_TIMEOUT_S

    def wait(self, gen: PQGen[Result], *args: Any, **options: Any) -> Result:
        """Wait for the server; raise ServerSilent after ``max_silence_s`` without a response."""
        if self.max_silence_s is None:
            return super().wait(gen, *args, **options)
        try:
            return super().wait(_bounded(gen, self.max_silence_s), *args, **options)
        except ServerSilent:
            self.close()  # its state is unknown, and a late response belongs to this statement
            raise

    @contextmanager
    def limited(self, seconds: float) -> Iterator[Self]:
        """Lower the maximum silence until the end of the block."""
        before = self.max_silence_s
        self.max_silence_s = seconds if before is None else min(seconds, before)
        try:
            yield self
        finally:
            self.max_silence_s = before


def _bounded(gen: PQGen[Result], max_silence_s: float) -> PQGen[Result]:
    """Pass events of the connection's socket on to a generator of psycopg, unless there are none.

    psycopg reports an event of 0 every tenth of a second in which the socket is not ready.
    """
    try:
        wanted = next(gen)
        last_s = time.monotonic()
        while True:
            ready = yield wanted
            now_s = time.monotonic()
            if ready:
                last_s = now_s
            elif now_s - last_s > max_silence_s:
                raise ServerSilent(f"the database has not responded for {max_silence_s:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: Result = end.value
        return result


def create_engine(
    url: str,
    *,
    statement_timeout_s: float,
    lock_timeout_s: float,
    idle_timeout_s: float,
    connect_timeout_s: float,
    **pool: Any,
) -> sa.Engine:
    """Return an engine of bounded connections.

    Parameters
    ----------
    statement_timeout_s
        Time limit of a statement; 0 for none.
    lock_timeout_s
        How long a statement waits for a lock.
    idle_timeout_s
        The server rolls back a transaction that has been idle for this long, so that a frozen or
        disconnected client does not keep its locks.
    connect_timeout_s
        Timeout of a connection attempt.
    pool
        Options of the connection pool.
    """
    arguments = {
        # explicit, since psycopg returns text as bytes if the server has no locale
        "client_encoding": "utf8",
        "connect_timeout": max(2, round(connect_timeout_s)),  # less than 2 is 2 for libpq
        **KEEPALIVE,
    }
    engine = sa.create_engine(url, connect_args=arguments, **pool)

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: sa.Dialect, _record: object, args: list[Any], options: dict[str, Any]
    ) -> BoundedConnection:
        return BoundedConnection.connect(*args, **options)

    @event.listens_for(engine, "connect")
    def prepare(connection: BoundedConnection, record: ConnectionPoolEntry) -> None:
        connection.autocommit = True  # otherwise the first rollback would undo the settings
        connection.execute(
            f"SET lock_timeout = '{_ms(lock_timeout_s)}';"
            f"SET idle_in_transaction_session_timeout = '{_ms(idle_timeout_s)}';"
            f"SET statement_timeout = '{_ms(statement_timeout_s)}'"
        )
        connection.autocommit = False
        connection.max_silence_s = (
            statement_timeout_s + RESPONSE_MARGIN_S if statement_timeout_s else None
        )
        record.info[_FRESH] = True

    event.listen(engine, "checkout", _ping)
    event.listen(engine, "handle_error", _report_as_disconnected)
    event.listen(engine, "before_cursor_execute", _fetch_binary)
    return engine


def _ms(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


def _ping(connection: BoundedConnection, record: ConnectionPoolEntry, _proxy: object) -> None:
    """Replace a pooled connection that does not respond, as ``pool_pre_ping`` does, but soon."""
    if record.info.pop(_FRESH, False):
        return
    try:
        with connection.limited(PING_TIMEOUT_S):
            connection.autocommit = True  # one round trip instead of three
            connection.execute("SELECT 1")
            connection.autocommit = False
    except psycopg.Error as error:
        raise InvalidatePoolError from error


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
