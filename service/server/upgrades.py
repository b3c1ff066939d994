"""Requests that ask for another protocol, such as HTTP/2 or WebSocket."""

from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Headers that say where the body of a request ends.
_FRAMING: Final = {b"content-length", b"transfer-encoding"}


class Http1Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which reads a request for an upgrade like any other (RFC 9110, 7.8).

    httptools ends such a request after its head, and uvicorn would take its body for the next one.
    So a new parser gets another head with the same framing, which the application does not see.
    The old one would read nothing more where the connection closes after the request.
    """

    parser: "_Parser"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.parser = _Parser(self)

    def on_headers_complete(self) -> None:
        """Begin a request, unless it has begun before."""
        if not self.parser.is_resuming:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request, unless it ends for the parser only."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def resume(self) -> "_Parser":
        """Return a new parser, which goes on after the head of a request for an upgrade."""
        head = [b"%b: %b\r\n" % header for header in self.headers if header[0] in _FRAMING]
        if not self.cycle.keep_alive:
            head.append(b"connection: close\r\n")
        self.parser = _Parser(self)
        self.parser.is_resuming = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(head))
        self.parser.is_resuming = False
        return self.parser


class _Parser(httptools.HttpRequestParser):
    """Parser that goes on after a request for an upgrade.

    Attributes
    ----------
    is_resuming
        Whether the parser reads the head that takes the place of the upgrade.
    """

    def __init__(self, protocol: Http1Protocol) -> None:
        super().__init__(protocol)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's parser
        self._protocol = protocol
        self.is_resuming = False

    def feed_data(self, data: Any) -> None:
        """Parse data, also behind requests for an upgrade."""
        remainder = self.feed_to_upgrade(data)
        while remainder is not None:
            remainder = self._protocol.resume().feed_to_upgrade(remainder)

    def feed_to_upgrade(self, data: Any) -> Any:
        """Parse data; return the data after a request for an upgrade, or None."""
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return memoryview(data)[upgrade.args[0] :]
        return None
