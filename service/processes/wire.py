"""Messages between a supervisor and its child: lines of JSON over a socket pair."""

import contextlib
import json
import select
import socket
from typing import Any, Final

from algorithms.interface.stored_fields import json_ready

_READ_BYTES: Final = 65536


class Wire:
    """One end of the socket pair between a supervisor and its child."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._poll = select.poll()  # unlike select(), it takes any number of open files
        self._poll.register(sock, select.POLLIN)
        self._buffer = b""
        self.is_closed = False

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, with null for numbers that are not finite.

        Messages to a closed peer are dropped; its exit is detected elsewhere.
        """
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            line = json.dumps(json_ready(message), allow_nan=False).encode() + b"\n"
            self._socket.sendall(line)

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Return the next message; None after the timeout, or once the peer has closed."""
        while b"\n" not in self._buffer:
            if self.is_closed or not self._poll.poll(
                None if timeout_s is None else 1000 * timeout_s
            ):
                return None
            try:
                data = self._socket.recv(_READ_BYTES)
            except ConnectionResetError:
                data = b""
            self.is_closed = not data
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
