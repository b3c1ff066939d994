"""Memory for large bodies, used again: fresh memory takes longer to get than to fill."""

from typing import Final

#: A body is given no more than this, and what it has filled, before it is here.
_FIRST_BYTES: Final = 256 * 1024
#: Larger ones, or more in all, are given back to the system.
_MOST_BYTES_EACH: Final = 16 * 1024 * 1024
_MOST_BYTES: Final = 64 * 1024 * 1024


class LargeBody:
    """A body that is received where it stays.

    Parameters
    ----------
    memory
        Of any length; it has that of the body once that is here.
    """

    def __init__(self, memory: bytearray, n_bytes: int) -> None:
        self.memory = memory
        self._n_bytes = n_bytes
        self._n_filled = 0
        del memory[n_bytes:]

    def free(self) -> memoryview:
        """Give where to put some of what is still to come."""
        n_more = min(self._n_filled, self._n_bytes - self._n_filled)
        if self._n_filled == len(self.memory):
            self.memory.extend(bytes(n_more))
        return memoryview(self.memory)[self._n_filled :]

    def fill(self, n_bytes: int) -> None:
        """Note that so many more are here."""
        self._n_filled += n_bytes

    def put(self, part: bytes) -> None:
        """Take a part that came with the head."""
        self.memory[self._n_filled : self._n_filled + len(part)] = part
        self._n_filled += len(part)

    def is_here(self) -> bool:
        """Tell whether all of it is."""
        return self._n_filled == self._n_bytes


class Bodies:
    """Lends memory; for one thread, which is that of the event loop."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self) -> bytearray:
        """Give memory that nobody looks at."""
        while self._free:
            memory = self._free.pop()
            try:
                memory.append(0)
            except BufferError:  # an array still does, and will be its last owner
                continue
            return memory
        return bytearray(_FIRST_BYTES)

    def give_back(self, memory: bytearray) -> None:
        """Take memory that nobody reads any more."""
        kept = sum(map(len, self._free))
        if len(memory) <= _MOST_BYTES_EACH and kept + len(memory) <= _MOST_BYTES:
            self._free.append(memory)
