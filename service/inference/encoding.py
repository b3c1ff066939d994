"""Content-Encoding: gzip and deflate, in and out, within bounds."""

import gzip
import zlib
from typing import Final

from service.errors import Problem
from service.http import too_large
from service.inference.call import Body
from service.settings import Settings

#: For zlib: gzip's header, or zlib's own; "deflate" means the latter, and some send neither.
_WINDOWS: Final[dict[str, tuple[int, ...]]] = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
#: Any ratio is fine up to here: a small body does no harm however much it expands.
_ANY_RATIO_BYTES: Final = 1024 * 1024
#: What is smaller is sent as it is.
_MIN_BYTES: Final = 1024
#: Numbers do not get much smaller at any level.
_LEVEL: Final = 1


def expand(body: Body, encoding: str, settings: Settings) -> Body:
    """Return a body without its Content-Encoding.

    Raises
    ------
    Problem
        The encoding is not known, the body is damaged, or expands too far.
    """
    coding = encoding.strip().lower()
    if coding in ("", "identity"):
        return body
    windows = _WINDOWS.get(coding)
    if windows is None:
        detail = f"Content-Encoding '{encoding}' is not read here; send gzip, deflate or none"
        raise Problem("unsupported-media-type", detail)
    limit = min(
        settings.max_body_bytes,
        max(int(settings.max_expansion * len(body)), _ANY_RATIO_BYTES),
    )
    failure = ""
    for window in windows:
        try:
            return _inflate(body, window, limit, settings)
        except zlib.error as error:
            failure = str(error)
    raise Problem("malformed-body", f"the body cannot be read as {coding}: {failure}")


def _inflate(body: Body, window: int, limit: int, settings: Settings) -> bytes:
    expander = zlib.decompressobj(window)
    expanded = expander.decompress(body, limit + 1)
    if len(expanded) > limit:
        if limit == settings.max_body_bytes:
            raise too_large(limit)
        detail = f"the body expands more than {settings.max_expansion:g} times; send it plain"
        raise Problem("body-too-large", detail)
    if not expander.eof:
        raise zlib.error("it ends too early")
    if expander.unused_data:
        raise zlib.error("more bytes follow its end")
    return expanded


def compress(body: bytes, accepted: str) -> tuple[bytes, str | None]:
    """Return a body compressed, and how, where the caller asks for it.

    Naming one encoding is asking. The headers that HTTP libraries send unasked name several, and
    compressing numbers takes longer than computing them.
    """
    if len(body) < _MIN_BYTES:
        return body, None
    coding = accepted.strip().lower()
    if coding == "gzip":
        return gzip.compress(body, _LEVEL, mtime=0), coding
    if coding == "deflate":
        return zlib.compress(body, _LEVEL), coding
    return body, None
