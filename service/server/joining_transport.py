"""Fewer system calls for responses."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview


def never() -> bool:
    """Return False."""
    return False


class JoiningTransport(asyncio.Transport):
    """Transport that sends the head of a response together with its body.

    uvicorn writes one after the other, and each write would be a system call that wakes the client.
    Data that no other data follow are sent in the next iteration of the event loop.

    Attributes
    ----------
    expects_more
        Called when uvicorn closes the connection: whether the client is still sending. Then only
        the own side is closed, and the owner has to close the rest.
    is_ending
        Whether only the own side is closed.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._held: Bytes | None = None
        self._loop = asyncio.get_running_loop()
        self.expects_more: Callable[[], bool] = never
        self.is_ending = False

    def write(self, data: Bytes) -> None:
        """Send data together with held data; hold them if no data are held."""
        held = self._held
        if held is None:
            self._held = data
            self._loop.call_soon(self._flush)
        else:
            self._held = None
            self._transport.writelines((held, data))

    def close(self) -> None:
        """Send the held data, and close the connection, or its own side first."""
        self._flush()
        if self.is_ending or self._transport.is_closing() or not self.expects_more():
            self._transport.close()
            return
        self.is_ending = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once, without sending the held data."""
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the client has not accepted yet."""
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or closing."""
        return self.is_ending or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Stop receiving."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Receive again."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the connection, such as its addresses."""
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        held, self._held = self._held, None
        if held is not None and not self._transport.is_closing():
            self._transport.write(held)
