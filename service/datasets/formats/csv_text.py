"""The text of a CSV file: unpacked, and in UTF-8."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from service.datasets.formats.options import Limits
from service.datasets.formats.text_encoding import LEGACY, UTF8, detect_encoding
from service.datasets.issues import reject

#: Compressions that are unpacked, by the first bytes of a file.
_COMPRESSIONS: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC_BYTES: Final = max(map(len, _COMPRESSIONS))
#: Bytes by which the encoding is recognised.
_SAMPLE_BYTES: Final = 4 * 1024 * 1024
#: A file is read in parts if they have at least as many bytes.
_MIN_PART_BYTES: Final = 1024 * 1024
_MAX_LINE_BYTES: Final = 4 * 1024 * 1024
#: Blocks stay in the CPU cache.
_BLOCK_BYTES: Final = 256 * 1024

_BLANK, _QUOTE, _ZERO, _NINE = b' "09'
#: Bytes that show a code: two before it, 0, a digit, and one after it; all but the last one.
_CODE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class CsvText:
    """A CSV file in UTF-8, with its original encoding and compression.

    Attributes
    ----------
    n_quotes
        Number of quotes; it is odd if one is not closed.
    """

    path: Path
    encoding: str
    compression: str | None
    n_quotes: int

    @property
    def has_quotes(self) -> bool:
        """Whether a value can contain line ends."""
        return self.n_quotes > 0

    @property
    def has_odd_quotes(self) -> bool:
        """Whether a quote is not closed."""
        return self.n_quotes % 2 == 1


def read_text(path: Path, encoding: str | None, limits: Limits) -> CsvText:
    """Return a CSV file unpacked and in UTF-8; other files are copied next to it.

    Parameters
    ----------
    encoding
        The declared encoding; None to detect it.

    Raises
    ------
    Rejected
        It cannot be unpacked, is too large, or does not have this encoding.
    """
    with path.open("rb") as file:
        compression = compression_of(file.read(_MAGIC_BYTES))
    if compression is not None:
        path = _unpacked(path, compression, limits)
    with path.open("rb") as file:
        source_encoding = encoding or detect_encoding(file.read(_SAMPLE_BYTES))
    if source_encoding == UTF8:
        n_quotes = _check_utf8(path, is_declared=encoding is not None)
        if n_quotes is not None:
            return CsvText(path, UTF8, compression, n_quotes)
        source_encoding = LEGACY
    path, n_quotes = _recoded(path, source_encoding, limits)
    return CsvText(path, source_encoding, compression, n_quotes)


def split_at_lines(path: Path, n_parts: int) -> list[tuple[int, int]]:
    """Return the first and the last byte + 1 of each part of a large file.

    Each part begins with a line, which may be inside a quoted value.
    """
    size = path.stat().st_size
    if size < n_parts * _MIN_PART_BYTES:
        return [(0, size)]
    starts = [0]
    with path.open("rb") as file:
        for k in range(1, n_parts):
            file.seek(k * size // n_parts)
            if file.readline(_MAX_LINE_BYTES).endswith(b"\n"):
                starts.append(file.tell())
    return [(start, end) for start, end in pairwise([*starts, size]) if start < end]


def has_codes(path: Path, delimiter: str, start: int, end: int) -> bool:
    """Return whether a cell in some bytes of a file may be a code of digits that begins with 0.

    Few operations on all bytes find the candidates, so that this takes much less time than reading
    the cells. Dates and times are not among those that are left.
    """
    mark = delimiter.encode()[-1]
    with path.open("rb") as file:
        file.seek(max(0, start - 2))
        while file.tell() < end and len(block := file.read(_BLOCK_BYTES)) > _CODE_BYTES:
            block = block if len(block) == _BLOCK_BYTES else block + b"\n"
            text = np.frombuffer(block, np.uint8)
            may_be = _is_edge(text[1:-3], mark)
            may_be &= text[2:-2] == _ZERO
            may_be &= text[3:-1] >= _ZERO
            if may_be.any() and _are_codes(text, np.flatnonzero(may_be) + 2, mark).any():
                return True
            file.seek(-_CODE_BYTES, 1)  # a code may begin at the end of the block
    return False


def _are_codes(text: NDArray[np.uint8], at: NDArray[np.intp], mark: int) -> NDArray[np.bool_]:
    """Return which zeros begin a cell of digits, of which two are looked at."""
    before, second, third = text[at - 1], text[at + 1], text[at + 2]
    begins = (before != _BLANK) | (before == mark) | _is_edge(text[at - 2], mark)
    is_digit = (third >= _ZERO) & (third <= _NINE)
    are_codes = begins & (second <= _NINE) & (is_digit | _is_edge(third, mark))
    return np.asarray(are_codes)


def _is_edge(text: NDArray[np.uint8], mark: int) -> NDArray[np.bool_]:
    """Return which characters are delimiters, line ends, quotes or blanks."""
    return np.asarray((text == mark) | (text <= _QUOTE))


def compression_of(head: bytes | bytearray) -> str | None:
    """Return the compression that the first bytes of a file show; None if they show none."""
    return next((name for magic, name in _COMPRESSIONS.items() if head.startswith(magic)), None)


def _unpacked(path: Path, compression: str, limits: Limits) -> Path:
    """Return a file with the unpacked bytes."""
    limit = min(
        limits.decompressed_bytes, int(limits.decompression_ratio * path.stat().st_size) + 1024
    )
    target = path.with_name(f"{path.name}.unpacked")
    n_bytes = 0
    try:
        with path.open("rb") as packed, target.open("wb") as file:
            for block in _blocks(_unpacker(packed, compression)):
                n_bytes += len(block)
                if n_bytes > limit:
                    detail = f"the unpacked table has more than {limit} bytes, the limit for a file"
                    size = path.stat().st_size
                    reject("decompression-limit", f"{detail} of {size} bytes in {compression}")
                file.write(block)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reject("corrupt-file", f"the file is not complete {compression}: {error}")
    return target


def _unpacker(packed: BinaryIO, compression: str) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=packed)
    return pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), compression)


def _check_utf8(path: Path, *, is_declared: bool) -> int | None:
    """Return the number of quotes, or None if no part of the file is UTF-8 beyond ASCII.

    Raises
    ------
    Rejected
        Some parts are UTF-8 and others are not, or it was declared to be UTF-8.
    """
    decoder = codecs.getincrementaldecoder(UTF8)()
    n_quotes, n_bytes, is_ascii = 0, 0, True
    with path.open("rb") as file:
        for block in _blocks(file, ends=True):
            try:
                # most files are ASCII, which is checked ten times faster than it is decoded
                is_plain = is_ascii and block.isascii() and not decoder.getstate()[0]
                is_ascii = is_plain or decoder.decode(block, final=not block).isascii()
            except UnicodeDecodeError as error:
                decoded = error.object.decode(UTF8, "ignore")
                if is_ascii and decoded.isascii() and not is_declared:
                    return None
                n_carried = len(error.object) - len(block)
                _reject_byte(path, n_bytes - n_carried + error.start)
            n_quotes += _count_quotes(block)
            n_bytes += len(block)
    return n_quotes


def _reject_byte(path: Path, position: int) -> NoReturn:
    """Raise Rejected with the place of a byte that is not UTF-8."""
    line, start = 1, 0
    with path.open("rb") as file:
        for text in file:
            if start + len(text) > position:
                break
            line, start = line + 1, start + len(text)
    detail = f"line {line} is not UTF-8 at byte {position - start}"
    reject("not-utf8", f"{detail}; save the table as CSV in UTF-8, or declare encoding=NAME")


def _recoded(path: Path, encoding: str, limits: Limits) -> tuple[Path, int]:
    """Return a file with the text in UTF-8, and its number of quotes."""
    target = path.with_name(f"{path.name}.utf8")
    decoder = codecs.getincrementaldecoder(encoding)()
    n_quotes, n_bytes = 0, 0
    with path.open("rb") as file, target.open("wb") as recoded:
        for block in _blocks(file, ends=True):
            try:
                data = decoder.decode(block, final=not block).encode()
            except UnicodeError:
                detail = f"the file is not text in {encoding}"
                remedy = "save the table as CSV in UTF-8, or declare encoding=NAME"
                reject("not-utf8", f"{detail}; {remedy}")
            n_bytes += len(data)
            if n_bytes > limits.decompressed_bytes:
                limit = limits.decompressed_bytes
                reject("decompression-limit", f"the text has more than the limit of {limit} bytes")
            n_quotes += _count_quotes(data)
            recoded.write(data)
    return target, n_quotes


def _count_quotes(data: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord('"')))  # faster than count


def _blocks(file: Any, *, ends: bool = False) -> Iterator[bytes]:
    """Yield a file in blocks; with ``ends``, an empty block last."""
    while block := file.read(_BLOCK_BYTES):
        yield block
    if ends:
        yield b""
