"""Fewer system calls for responses."""

import asyncio
from typing import Any, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview


class JoiningTransport(asyncio.Transport):
    """Transport that sends the head of a response together with its body.

    uvicorn writes one after the other, and each write would be a system call that wakes the client.
    Data that no other data follow are sent in the next iteration of the event loop.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._held: Bytes | None = None
        self._loop = asyncio.get_running_loop()

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
        """Send the held data, and close the connection."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once, without sending the held data."""
        self._transport.abort()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the client has not accepted yet."""
        return self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or closing."""
        return self._transport.is_closing()

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
