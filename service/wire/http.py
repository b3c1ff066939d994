"""One connection as the server below has it, and what that leaves open.

Heads are bounded; upgrades are not heeded; what is no HTTP is refused in its turn, after what was
asked for before it.
"""

import asyncio
from typing import Any, Final, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from service.errors import Problem, problem_response
from service.logs import log
from service.metrics import Metrics
from service.wire.joining import Joining

#: Method, address and headers of a request; some more where they come in pieces.
MOST_HEAD_BYTES: Final = 64 * 1024
#: Who is refused has so long to read why, and to end.
_LINGER_S: Final = 2.0
_OF_UPGRADE: Final = frozenset({b"upgrade", b"connection", b"http2-settings"})


class HttpProtocol(HttpToolsProtocol):
    """One connection.

    Attributes
    ----------
    is_between
        The parser waits for a request to begin.
    is_last
        After what is arriving, the connection ends.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._metrics: Metrics = cast("Any", config.app).state.metrics
        self.is_between = True
        self.is_last = False
        self._is_in_head = self._has_begun = False
        self._n_head_bytes = 0
        self._n_open = 0
        self._answered_s = 0.0
        self._refusal: Problem | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        self.joining = Joining(cast("asyncio.Transport", transport), self.loop)
        super().connection_made(cast("asyncio.Transport", self.joining))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was asked for on a connection that is gone."""
        super().connection_lost(exc)
        self.pipeline.clear()  # each refers to this one, so they would wait for a collection

    def renew_parser(self) -> None:
        """Have the next byte begin a request."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        try:
            if self._is_in_head:
                _check_head(self._n_head_bytes)
            self._has_begun = False
            self.parser.feed_data(data)
            # where in the data one begins is not told: what comes later counts
            if self._is_in_head and not self._has_begun:
                self._n_head_bytes += len(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._is_upgrade():
                self._take_again(bytes(data[upgrade.args[0] :]))
        except httptools.HttpParserCallbackError as error:
            self._refuse(_problem_of(error.__context__))
        except httptools.HttpParserError:
            self._refuse(Problem("malformed-request", "Invalid HTTP request received."))
        except Problem as problem:
            self._refuse(problem)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.is_between = False
        self._is_in_head = self._has_begun = True
        self._n_head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin to serve a request, unless it comes again without an upgrade."""
        _check_head(len(self.url) + sum(len(name) + len(value) for name, value in self.headers))
        self._is_in_head = False
        if not self._is_upgrade():
            self.serve()

    def serve(self) -> None:
        """Have the application answer a request whose head is here."""
        self._n_open += 1
        super().on_headers_complete()
        if self.is_last:
            self.cycle.keep_alive = False

    def is_free(self) -> bool:
        """Tell whether a request could be answered at once."""
        is_idle = self._n_open == 0 and self._refusal is None
        return is_idle and not self.flow.write_paused and not self.is_last

    def on_message_complete(self) -> None:
        """Tell the application that a body is here."""
        self.is_between = True
        if not self._is_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        self._n_open -= 1
        super().on_response_complete()
        if self._refusal is not None and not self._n_open:
            self._send_refusal(self._refusal)

    def answered(self) -> None:
        """Wait for the next request after an answer that was given at once.

        The timer that ends a silent connection is not set anew with each.
        """
        self.server_state.total_requests += 1
        self._answered_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        """End a connection that was silent for so long, unless a request is arriving or served."""
        self.timeout_keep_alive_task = None
        if self._n_open or not self.is_between:
            return  # once that is answered, time begins anew
        left_s = self._answered_s + self.timeout_keep_alive - self.loop.time()
        if left_s <= 0:
            super().timeout_keep_alive_handler()
        else:
            self._wait(left_s)

    def _wait(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def _is_upgrade(self) -> bool:
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def _take_again(self, rest: bytes) -> None:
        """Take a request that asks for another protocol as one that does not."""
        kept = (pair for pair in self.headers if pair[0] not in _OF_UPGRADE)
        lines = [b"%b %b HTTP/1.1" % (self.parser.get_method(), self.url)]
        lines += [b"%b: %b" % pair for pair in kept]
        self.renew_parser()
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    def _refuse(self, problem: Problem) -> None:
        """Read nothing more: where the next request would begin is not known."""
        self._refusal = problem
        if not (self._n_open or self._is_in_head or self.is_between):
            self.transport.close()  # a body, to which the answer is out
            return
        broken = self.cycle
        if broken is not None and broken.more_body and not broken.response_complete:
            # its body does not come to an end
            self._n_open -= 1
            if self.pipeline and self.pipeline[0][0] is broken:
                self.pipeline.popleft()
            else:
                broken.disconnected = True
                broken.message_event.set()
                if broken.response_started:
                    self.transport.close()
        if not self._n_open:
            self._send_refusal(problem)

    def _send_refusal(self, problem: Problem) -> None:
        response = problem_response(problem)
        self._metrics.observe(method="", route=None, status=response.status_code, elapsed_s=0.0)
        reason = f"HTTP/1.1 {response.status_code} Refused".encode()
        headers = [*response.raw_headers, (b"connection", b"close")]
        lines = [reason, *(b": ".join(pair) for pair in headers)]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        # closed with bytes that nobody read, a connection ends before its answer is read
        self.transport.write_eof()
        self.loop.call_later(_LINGER_S, self.transport.close)


def _check_head(n_bytes: int) -> None:
    if n_bytes > MOST_HEAD_BYTES:
        detail = f"the head of the request is larger than {MOST_HEAD_BYTES} bytes, the limit here"
        raise Problem("head-too-large", detail)


def _problem_of(error: BaseException | None) -> Problem:
    if isinstance(error, Problem):
        return error
    log.error("defect", exc_info=error)
    return Problem("internal", "the service failed; the defect is in its log")
