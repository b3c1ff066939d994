"""One connection.

A plain call of a model is answered as it arrives, where it takes little time. All else the server
hands to the application as ever.
"""

import asyncio
from functools import lru_cache
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from service.inference.arrival import Arrival, Calls, written
from service.inference.call import Body
from service.inference.exchange import Exchange, Reply
from service.inference.respond import WAITING
from service.wire.bodies import Bodies, LargeBody
from service.wire.http import HttpProtocol
from service.wire.repeats import Repeats

#: What is read at once; a body that is larger is read into memory of its own.
_ARRIVING: Final = memoryview(bytearray(256 * 1024))
_bodies: Final = Bodies()
#: A body of more is not put together from parts.
_LARGE_BYTES: Final = 65_536
_STATUS_LINE: Final = STATUS_LINE[200]
#: What the event loop tells a protocol.
_EVENTS: Final = (
    "connection_made",
    "get_buffer",
    "buffer_updated",
    "eof_received",
    "pause_writing",
    "resume_writing",
    "connection_lost",
)


class CallProtocol(HttpProtocol):
    """A connection whose plain calls of models are answered as they arrive."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._calls: Calls = cast("Any", config.app).state.calls
        self._arrival: Arrival | None = None
        self._body = b""
        self._large: LargeBody | None = None
        self._lent: bytearray | None = None
        self._repeats = Repeats()
        self._served: Arrival | None = None
        self._exchange: Exchange | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give where to put what arrives."""
        del sizehint
        return _ARRIVING if self._large is None else self._large.free()

    def buffer_updated(self, nbytes: int) -> None:
        """Take what has arrived."""
        if self._large is None:
            self._take(_ARRIVING[:nbytes])
            return
        self._large.fill(nbytes)
        if self._large.is_here():
            self.on_message_complete()
            # that one still waits for a body
            self.renew_parser()

    def _take(self, data: memoryview) -> None:
        """Take a part of a request, or several."""
        was_between = self.is_between
        if was_between and self.is_free():
            found = self._repeats.match(data)
            if found is not None and self._answer_again(*found):
                return
        before = self._served
        self.data_received(cast("bytes", data))
        self._exchange = None
        served = self._served
        if was_between and self.is_between and served is not None and served is not before:
            self._repeats.note(data, served)

    def _answer_again(self, before: Arrival, body: bytes) -> bool:
        """Answer a call whose head came before, where that takes little time."""
        exchange = self._calls.again(before, body)
        reply = None if exchange is None else exchange.here()
        if exchange is None or reply is None:
            self._exchange = exchange  # it is parsed, and goes on from there
            return False
        self._send(exchange, reply)
        return True

    def serve(self) -> None:
        """Keep a plain call until its body is here."""
        if self.is_free() and self._is_plain():
            self._arrival = self._calls.recognise(self.url, self.headers)
        if self._arrival is None:
            super().serve()
        elif self._arrival.n_bytes > _LARGE_BYTES:
            self._lent = _bodies.take()
            self._large = LargeBody(self._lent, self._arrival.n_bytes)

    def _is_plain(self) -> bool:
        parser = self.parser
        return (
            parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
        )

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        if self._arrival is None:
            super().on_body(body)
        elif self._large is None:
            self._body += body
        else:
            self._large.put(body)

    def on_message_complete(self) -> None:
        """Answer a call, or hand it on."""
        self.is_between = True
        arrival, self._arrival = self._arrival, None
        if arrival is None:
            super().on_message_complete()
            return
        self._served = arrival
        body: Body = self._body if self._large is None else self._large.memory
        self._body, self._large = b"", None
        exchange, self._exchange = self._exchange, None
        reply = None
        if exchange is None:
            exchange = self._calls.exchange(arrival.head, body, arrival.clock)
            reply = None if exchange is None or self.is_last else exchange.here()
        if exchange is None or reply is None:
            self._hand_on(body, exchange)
        else:
            self._send(exchange, reply)

    def _send(self, exchange: Exchange, reply: Reply) -> None:
        self.joining.write_now(
            _joined(tuple(self.server_state.default_headers)) + written(exchange, reply)
        )
        # the caller has its answer
        self._calls.count(exchange)
        self._give_back()
        self.answered()

    def _hand_on(self, body: Body, exchange: Exchange | None) -> None:
        """Have the application answer; what is wrong with a head it tells by its own reading."""
        if exchange is not None:
            self.scope["state"][WAITING] = exchange
            cast("dict[str, Any]", self.scope)["route"] = exchange.head
        super().serve()
        if exchange is None:
            super().on_body(bytes(body))
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        self._give_back()
        super().on_response_complete()

    def _give_back(self) -> None:
        if self._lent is not None:
            self.scope["state"].pop(WAITING, None)
            _bodies.give_back(self._lent)
            self._lent = None

    def shutdown(self) -> None:
        """End the connection once what is arriving is answered."""
        if self._arrival is None:
            super().shutdown()
        self.is_last = True


class Connection(asyncio.BufferedProtocol):
    """What the event loop knows of a connection.

    uvloop has a protocol tell where to put what arrives only if it is no ``asyncio.Protocol``, and
    those of the server below are.
    """

    def __init__(self, **parts: Any) -> None:
        protocol = CallProtocol(**parts)
        for event in _EVENTS:
            setattr(self, event, getattr(protocol, event))


@lru_cache(1)
def _joined(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Give the lines that all answers begin with; they change with the date."""
    return b"".join([_STATUS_LINE, *(b"%b: %b\r\n" % pair for pair in headers)])
