"""Connections of a server process: their number, and limits outside of the application.

uvicorn parses HTTP, but limits neither connections nor the time and the size of a request's head.
:class:`Connection` is the protocol that it creates for each connection. It passes all events on to
uvicorn's own protocol, and checks them. A clock that advances with each check of all connections is
enough for their time limits: a request costs no timer, and a process that was suspended for a while
does not end the requests that arrived meanwhile.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from starlette.types import Message, Receive
from uvicorn.config import Config
from uvicorn.server import ServerState

from service.errors.problems import Problem, error_response
from service.server.joining_transport import JoiningTransport, never
from service.server.upgrades import Http1Protocol
from service.settings import MIB, Settings

#: Maximum size of the head of a request, and of the buffer in which uvicorn keeps a body.
MAX_HEAD_BYTES: Final = 64 * 1024
#: Maximum number of bytes that arrive in a request without any byte of its body for the
#: application: chunk extensions and trailers. A body in chunks of one byte fills uvicorn's buffer
#: with six times as many.
MAX_OVERHEAD_BYTES: Final = 16 * MAX_HEAD_BYTES
#: Maximum number of requests that are sent ahead, without waiting for responses. Each takes some KB
#: of memory, and uvicorn continues to read after each response.
MAX_PIPELINED: Final = 256
#: Share of the connections that can have a request in progress. Others can be closed for new ones.
_BUSY_SHARE: Final = 0.9
#: Time between two checks, in seconds, and its share of the shortest time limit.
_CHECK_INTERVAL_S: Final = 1
_CHECK_SHARE: Final = 0.25
#: Limits of what is read and discarded after a response that ends a connection.
MAX_DISCARDED_BYTES: Final = 256 * MIB
_MAX_DISCARD_S: Final = 30
#: Keys of the state that uvicorn hands from the lifespan to protocols and requests.
CONNECTIONS: Final = "connections"
CONNECTION: Final = "connection"


class Connections:
    """All connections of a process.

    Attributes
    ----------
    max_requests
        Maximum number of requests in progress.
    n_requests
        Number of requests in progress.
    now_s
        Time of the last check.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.max_requests = int(_BUSY_SHARE * settings.resolved_max_connections())
        self.n_requests = 0
        self.now_s = 0.0
        self._max = settings.resolved_max_connections()
        self._all: dict[Connection, None] = {}  # in the order of their opening
        self._timer: asyncio.TimerHandle | None = None
        limits_s = (settings.header_timeout_s, settings.body_timeout_s, settings.send_timeout_s)
        self._interval_s = min(_CHECK_INTERVAL_S, _CHECK_SHARE * min(limits_s))

    def start(self) -> None:
        """Begin to check the time limits."""
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._check)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def add(self, connection: "Connection") -> bool:
        """Add a connection, if necessary in the place of others; return whether there is room."""
        if len(self._all) >= self._max:
            self._close_idle()
        if len(self._all) >= self._max:
            return False
        self._all[connection] = None
        return True

    def remove(self, connection: "Connection") -> None:
        """Remove a connection that is closed."""
        self._all.pop(connection, None)

    def _close_idle(self) -> None:
        """Close the connections that have been idle longest; several, since this takes a while."""
        idle = [connection for connection in self._all if not connection.is_busy()]
        idle.sort(key=Connection.age)
        for connection in idle[: 1 + self._max // 100]:
            connection.abort()

    def _check(self) -> None:
        self.start()  # first, so that an error does not end all later checks
        self.now_s += self._interval_s
        for connection in tuple(self._all):
            connection.check_time()


class Connection(asyncio.Protocol):
    """A connection with limits; it has the parameters of uvicorn's protocols.

    A connection is idle, or busy from the end of a request's head until the application returns.

    Attributes
    ----------
    all
        The connections of the process.
    body
        The body that the application waits for.
    is_starting
        Whether uvicorn has created the task of a request that has not begun.
    n_requests
        Number of tasks that handle requests; the next one may start while the last one ends.
    idle_since_s
        Time of the end of the last request.
    head_bytes
        Number of bytes that arrived since then.
    received_s
        Time of the last byte, or of the moment when the application began to wait for one.
    overhead_bytes
        Number of bytes since the last one of the body.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.all: Connections = app_state[CONNECTIONS]
        self._tasks = server_state.tasks
        state = {**app_state, CONNECTION: self}
        self._http = Http1Protocol(config, server_state, state, _loop)
        self._transport: JoiningTransport
        self.is_starting = False
        self.n_requests = 0
        self.idle_since_s = self.all.now_s
        self._head_since_s: float | None = self.idle_since_s  # None between two requests
        self.head_bytes = 0
        self._max_head_bytes = MAX_HEAD_BYTES
        self._rest = bytearray()  # of data that exceed the limit of a head
        self.overhead_bytes = 0
        self.received_s = 0.0
        self.body: RequestBody | None = None
        self._is_open = True
        self._is_paused = False
        self._unsent_bytes = 0
        self._sent_s = 0.0
        self._is_refused = False
        self._n_discarded = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept the connection if there is room."""
        # uvloop's transports are not subclasses
        self._transport = JoiningTransport(cast("asyncio.Transport", transport))
        self._transport.expects_more = self._expects_more
        self._http.connection_made(self._transport)
        if not self.all.add(self):
            self._refuse(_no_room())

    def data_received(self, data: bytes) -> None:
        """Pass data on, unless they exceed the limits of a head or of trailers."""
        if self._transport.is_ending:
            self._discard(len(data))
            return
        if self.is_starting or self.n_requests:
            self.received_s = self.all.now_s
            self.overhead_bytes += len(data)
            if self.overhead_bytes > MAX_OVERHEAD_BYTES:
                self.abort()
                return
            self._pass(data)
            return
        if self._head_since_s is None:
            self._head_since_s = self.all.now_s
        self.head_bytes += len(data)
        n_tasks = len(self._tasks)
        if self.head_bytes <= self._max_head_bytes:
            self._pass(data)
        else:
            self._pass_head(data)
        if len(self._tasks) > n_tasks:
            self.is_starting = True
            self._begin()

    def eof_received(self) -> None:
        """Pass on that the client sends nothing more."""
        if self._transport.is_ending:
            self._transport.close()
        else:
            self._http.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._is_open = False
        self.all.remove(self)
        self._transport.expects_more = never
        self._http.connection_lost(exc)
        self._http.pipeline.clear()
        del self._http  # which refers to this object; cycles are collected rarely

    def pause_writing(self) -> None:
        """Record that the client reads more slowly than the application writes."""
        self._is_paused = True
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Record that the client has caught up."""
        self._is_paused = False
        self._http.resume_writing()

    def peer(self) -> str:
        """Return the IP address of the other end: of a proxy, if there is one."""
        address = self._transport.get_extra_info("peername")
        return str(address[0]) if isinstance(address, tuple) else ""

    def is_busy(self) -> bool:
        """Return whether a request is in progress."""
        return self.is_starting or self.n_requests > 0

    def age(self) -> tuple[bool, float]:
        """Return a key that is smaller the sooner an idle connection is closed for a new one."""
        return self._is_paused, self.idle_since_s

    def begin_next(self) -> None:
        """Begin a request of which some data arrived while the connection seemed to be idle."""
        self._begin()
        if self._rest and self._is_open:
            self._pass(bytes(self._rest))
            self._rest.clear()

    def expect_rest(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Accept the rest of a body that was not read, within the time limit of a head."""
        if self.is_busy():
            return
        for name, value in headers:
            if name == b"content-length" and value != b"0":
                self._max_head_bytes = MAX_HEAD_BYTES + int(value)
            elif name == b"transfer-encoding":
                self._max_head_bytes = MAX_OVERHEAD_BYTES
            else:
                continue
            self._head_since_s = self.all.now_s

    def abort(self) -> None:
        """Close the connection at once, without sending the remaining data."""
        self._is_open = False
        self.all.remove(self)
        self._transport.abort()

    def check_time(self) -> None:
        """Close the connection, or end its request, after a time without progress."""
        now_s, settings = self.all.now_s, self.all.settings
        unsent = self._transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:
            self._unsent_bytes, self._sent_s = unsent, now_s
        elif unsent and now_s - self._sent_s > settings.send_timeout_s:
            self.abort()
        elif self._transport.is_ending:
            self._discard(0)
        elif self.body is not None:
            if now_s - self.received_s > settings.body_timeout_s:
                self.body.end(_body_too_slow(settings.body_timeout_s))
        elif (
            self._head_since_s is not None
            and not self.is_busy()
            and now_s - self._head_since_s > settings.header_timeout_s
        ):
            self._end_head(_head_too_slow(settings.header_timeout_s))

    def _expects_more(self) -> bool:
        """Return whether the client may still send a part of a request that has its response.

        Closing the connection would reset it, and remove a response that the client has not read.
        """
        self.received_s = self.all.now_s
        cycle = self._http.cycle
        return self._is_refused or (cycle is not None and cycle.more_body)

    def _discard(self, n_bytes: int) -> None:
        """Count data after the last response, and close the connection at the limits."""
        self._n_discarded += n_bytes
        limit_s = min(_MAX_DISCARD_S, self.all.settings.body_timeout_s)
        if self._n_discarded > MAX_DISCARDED_BYTES or self.all.now_s - self.received_s > limit_s:
            self._transport.close()

    def _pass(self, data: bytes) -> None:
        self._http.data_received(data)
        if len(self._http.pipeline) > MAX_PIPELINED:
            self.abort()

    def _pass_head(self, data: bytes) -> None:
        """Pass on as much as a head may have; the rest too if it turns out to be a body."""
        n_tasks = len(self._tasks)
        n_head = max(0, self._max_head_bytes - self.head_bytes + len(data))
        if n_head:
            self._pass(data[:n_head])
        if len(self._tasks) > n_tasks:
            if self._is_open:
                self._pass(data[n_head:])
            return
        # uvicorn may have started a request that was sent ahead, which begins in this iteration
        if not self._rest:
            asyncio.get_running_loop().call_soon(self._end_large_head)
        self._rest += data[n_head:]

    def _end_large_head(self) -> None:
        if self._rest:
            self._rest.clear()
            self._end_head(_head_too_large())

    def _begin(self) -> None:
        self.head_bytes = self.overhead_bytes = 0
        self._head_since_s = None
        self._max_head_bytes = MAX_HEAD_BYTES

    def _end_head(self, problem: Problem) -> None:
        """Close the connection; if a request has begun, send a problem first."""
        self._head_since_s = None
        if self.head_bytes and self._max_head_bytes == MAX_HEAD_BYTES:
            self._is_refused = True
            self._refuse(problem)
        else:
            self._transport.expects_more = never
            self._transport.close()

    def _refuse(self, problem: Problem) -> None:
        response = error_response(problem)
        lines = [b"HTTP/1.1 %d " % response.status_code, b"connection: close"]
        lines += [b"%b: %b" % header for header in response.raw_headers]
        self._transport.write(b"\r\n".join([*lines, b"", response.body]))
        self._transport.close()


class RequestBody:
    """The body of a request, with a time limit."""

    __slots__ = "_connection", "_problem", "_receive", "_task", "is_complete"

    def __init__(self, connection: Connection, receive: Receive) -> None:
        self._connection = connection
        self._receive = receive
        self._task: asyncio.Task[Any] | None
        self._problem: Problem | None = None
        self.is_complete = False

    async def receive(self) -> Message:
        """Receive the next part of the body, then the end of the connection.

        Raises
        ------
        Problem
            No byte of the body arrived for the time limit.
        """
        if self.is_complete:
            return await self._receive()
        connection = self._connection
        self._task = asyncio.current_task()
        connection.body = self
        connection.received_s = connection.all.now_s
        try:
            message = await self._receive()
        except asyncio.CancelledError:
            if self._problem is None or self._task is None or self._task.uncancel():
                raise
            raise self._problem from None
        finally:
            connection.body = None
        if message.get("body"):
            connection.overhead_bytes = 0
        self.is_complete = not message.get("more_body", False)
        return message

    def end(self, problem: Problem) -> None:
        """Raise a problem in the task that waits for the body."""
        if self._task is not None and self._problem is None:
            self._problem = problem
            self._task.cancel()


def _no_room() -> Problem:
    detail = "the service has no room for another connection; retry later"
    return Problem("unavailable", detail, headers={"Retry-After": "1"})


def _head_too_large() -> Problem:
    detail = f"the URL and the headers are larger than the limit of {MAX_HEAD_BYTES} bytes"
    return Problem("headers-too-large", detail)


def _head_too_slow(limit_s: float) -> Problem:
    return Problem("request-timeout", f"the headers were not complete after {limit_s:g} s")


def _body_too_slow(limit_s: float) -> Problem:
    detail = f"no byte of the body arrived for {limit_s:g} s"
    return Problem("request-timeout", detail, headers={"Connection": "close"})
