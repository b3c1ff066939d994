"""Content-Encoding: decompression of requests and compression of responses, with limits."""

import gzip
import zlib
from typing import Final

import pyarrow as pa

from service.datasets.formats.csv_text import compression_of
from service.errors.problems import Problem
from service.http.bodies import too_large
from service.inference.call import Body
from service.settings import Settings

#: ``wbits`` of zlib to try. "deflate" is the zlib format, but some clients send raw deflate.
_WINDOWS: Final = (15, -15)
#: Up to this decompressed size, any compression ratio is accepted.
_MAX_UNCHECKED_BYTES: Final = 1024 * 1024
#: Smaller responses are not compressed.
_MIN_BYTES: Final = 1024
#: Higher levels hardly make binary numbers smaller.
_LEVEL: Final = 1


def unpack(body: Body, settings: Settings) -> Body:
    """Return the contents of a body that is a compressed file; other bodies as they are.

    Raises
    ------
    Problem
        The file is corrupt, or its decompressed size exceeds a limit.
    """
    compression = compression_of(body)
    return body if compression is None else _read(body, compression, settings)


def decompress(body: Body, encoding: str, settings: Settings) -> Body:
    """Return the decompressed body.

    Raises
    ------
    Problem
        The encoding is unknown, the body is corrupt, or its decompressed size exceeds a limit.
    """
    coding = encoding.strip().lower()
    if coding in ("", "identity"):
        return body
    if coding in ("gzip", "x-gzip"):
        return _read(body, "gzip", settings)
    if coding != "deflate":
        detail = f"Content-Encoding '{encoding}' is not supported; send gzip, deflate or identity"
        raise Problem("unsupported-media-type", detail)
    limit = _limit(body, settings)
    failure = ""
    for window in _WINDOWS:
        try:
            return _inflate(body, window, limit, settings)
        except zlib.error as error:
            failure = str(error)
    raise Problem("malformed-body", f"the body is not valid {coding}: {failure}")


def _limit(body: Body, settings: Settings) -> int:
    """Return the maximum decompressed size of a body."""
    by_ratio = max(int(settings.max_decompression_ratio * len(body)), _MAX_UNCHECKED_BYTES)
    return min(settings.max_body_bytes, by_ratio)


def _read(body: Body, compression: str, settings: Settings) -> bytes:
    """Return the contents of a file of one or several compressed parts."""
    limit = _limit(body, settings)
    try:
        with pa.CompressedInputStream(pa.BufferReader(body), compression) as file:
            content: bytes = file.read(limit + 1)
    except (pa.ArrowException, OSError) as error:
        raise Problem("malformed-body", f"the body is not valid {compression}: {error}") from None
    _check_size(content, limit, settings)
    return content


def _check_size(content: bytes, limit: int, settings: Settings) -> None:
    if len(content) <= limit:
        return
    if limit == settings.max_body_bytes:
        raise too_large(limit)
    detail = (
        f"the decompressed body is more than {settings.max_decompression_ratio:g} times as "
        "large as the compressed one; send it uncompressed"
    )
    raise Problem("body-too-large", detail)


def _inflate(body: Body, window: int, limit: int, settings: Settings) -> bytes:
    decompressor = zlib.decompressobj(window)
    content = decompressor.decompress(body, limit + 1)
    _check_size(content, limit, settings)
    if not decompressor.eof:
        raise zlib.error("unexpected end of data")
    if decompressor.unused_data:
        raise zlib.error("extra bytes after the end of the data")
    return content


def compress(body: bytes, accepted: str) -> tuple[bytes, str | None]:
    """Return the body and its Content-Encoding, None if it is not compressed.

    Only an Accept-Encoding with a single encoding enables compression. HTTP libraries send a list
    of encodings by default, and compressing numbers takes longer than computing them.
    """
    if len(body) < _MIN_BYTES:
        return body, None
    coding = accepted.strip().lower()
    if coding == "gzip":
        return gzip.compress(body, _LEVEL, mtime=0), coding
    if coding == "deflate":
        return zlib.compress(body, _LEVEL), coding
    return body, None
