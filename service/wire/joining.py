"""A transport that sends at once what belongs together."""

import asyncio
from typing import Any, Final

_MOST_HELD_BYTES: Final = 65_536


class Joining:
    """Sends at once what is written in one turn of the event loop.

    The head of an answer and its body come one after the other; sent apart they wake the caller
    twice, and the kernel is asked twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._n_held = 0

    def __getattr__(self, name: str) -> Any:
        """Give what the transport itself has."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send, soon."""
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)
        self._n_held += len(data)
        if self._n_held > _MOST_HELD_BYTES:
            self._flush()

    def write_now(self, data: bytes) -> None:
        """Send what is held, and this."""
        if self._held:
            self._flush()
        self._transport.write(data)

    def write_eof(self) -> None:
        """Tell that nothing more comes, once everything is sent."""
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Close once everything is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held, self._n_held = self._held, [], 0
        if held and not self._transport.is_closing():  # else nobody reads it
            self._transport.writelines(held)
