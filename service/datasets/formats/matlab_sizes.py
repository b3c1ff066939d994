"""Sizes of the compressed variables of MATLAB files of version 5 to 7, before they are unpacked.

The listing of a file has the shapes of its variables, but not those of the cells and fields in
them.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_HEADER_BYTES: Final = 128
_LITTLE_ENDIAN: Final = b"IM"
_COMPRESSED, _MATRIX = 15, 14
#: Bytes of a value by the type of its element; text has at least one for each letter.
_VALUE_BYTES: Final = {3: 2, 4: 2, 5: 4, 6: 4, 7: 4, 9: 8, 12: 8, 13: 8, 17: 2, 18: 4}
_BLOCK_BYTES: Final = 64 * 1024


def count_packed_values(path: Path, maximum: int) -> int:
    """Return the number of values in compressed variables; or one above the maximum.

    Raises
    ------
    zlib.error, struct.error
        The file is damaged.
    """
    n_values = 0
    with path.open("rb") as file:
        head = file.read(_HEADER_BYTES)
        if 0 in head[:4]:  # of version 4, which does not compress
            return 0
        order = "<" if head.endswith(_LITTLE_ENDIAN) else ">"
        while len(tag := file.read(8)) == len("tag size"):
            kind, size = struct.unpack(f"{order}II", tag)
            if kind != _COMPRESSED:
                file.seek(size + -size % 8, 1)
                continue
            for count in _count(_Inflated(file, size), order):
                n_values += count
                if n_values > maximum:
                    return n_values
    return n_values


def _count(data: "_Inflated", order: str) -> Iterator[int]:
    """Yield the number of values of each element; those in a matrix follow its tag."""
    while len(tag := data.read(8)) == len("tag size"):
        kind, size = struct.unpack(f"{order}II", tag)
        if kind >> 16 or kind == _MATRIX:  # a small element is in its tag
            continue
        yield size // _VALUE_BYTES.get(kind, 1)
        data.skip(size + -size % 8)


class _Inflated:
    """The content of a compressed element, unpacked in blocks."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size
        self._inflate = zlib.decompressobj()
        self._block = b""

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        while len(self._block) < n_bytes and (more := self._next()):
            self._block += more
        content, self._block = self._block[:n_bytes], self._block[n_bytes:]
        return content

    def skip(self, n_bytes: int) -> None:
        """Leave out the next bytes."""
        while len(self._block) < n_bytes:
            n_bytes -= len(self._block)
            self._block = self._next()
            if not self._block:
                return
        self._block = self._block[n_bytes:]

    def _next(self) -> bytes:
        packed = self._inflate.unconsumed_tail
        if not packed:
            packed = self._file.read(min(self._left, _BLOCK_BYTES))
            self._left -= len(packed)
        return self._inflate.decompress(packed, _BLOCK_BYTES)
