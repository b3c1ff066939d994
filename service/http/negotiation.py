"""Choice of a response's media type by the Accept header."""

from collections.abc import Iterator
from functools import lru_cache

from service.errors.problems import Problem


@lru_cache(256)
def preferred_type(accept: str, offered: tuple[str, ...]) -> str:
    """Return the media type that an Accept header prefers; the first one without a preference.

    Raises
    ------
    Problem
        The header accepts none of the media types.
    """
    ranges = sorted(_ranges(accept or "*/*"), key=lambda item: -item[1])
    refused = {media_range for media_range, weight in ranges if weight <= 0}
    for media_range, weight in ranges:
        for media_type in offered:
            if weight > 0 and media_type not in refused and _matches(media_range, media_type):
                return media_type
    detail = f"cannot respond with '{accept}'; accept one of {', '.join(offered)}"
    raise Problem("not-acceptable", detail)


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    """Yield the media ranges of an Accept header with their weights."""
    for part in accept.split(","):
        media_range, *params = (text.strip().lower() for text in part.split(";"))
        weight = next((p[2:] for p in params if p.startswith("q=")), "1")
        try:
            yield media_range, float(weight)
        except ValueError:
            yield media_range, 1.0


def _matches(media_range: str, media_type: str) -> bool:
    return media_range in ("*/*", media_type.partition("/")[0] + "/*", media_type)
