"""Body formats of inference requests and responses, by media type."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from service.errors import Problem
from service.http.bodies import JSON
from service.inference.call import Body, Call, InferenceResult
from service.inference.formats.arrow import read_arrow, read_parquet, write_arrow, write_parquet
from service.inference.formats.csv_body import read_csv, write_csv
from service.inference.formats.json_body import read_json, write_json
from service.inference.formats.npy import read_npy, write_npy
from service.inference.formats.npz import read_npz


@dataclass(frozen=True, slots=True)
class Format:
    """Body format.

    Attributes
    ----------
    read
        Parses a body; the second argument is the task in the query.
    write
        Serialises the result.
    is_cheap_to_parse
        Whether small bodies take little time to parse, because nothing is decompressed.
    """

    read: Callable[[Body, str | None], Call]
    write: Callable[[InferenceResult], bytes]
    is_cheap_to_parse: bool = False


CSV: Final = "text/csv"
#: Formats by media type; the first is the default for ``Accept: */*``.
FORMATS: Final = {
    JSON: Format(read_json, write_json, is_cheap_to_parse=True),
    "application/x-npy": Format(read_npy, write_npy, is_cheap_to_parse=True),
    "application/vnd.apache.arrow.stream": Format(read_arrow, write_arrow),
    "application/vnd.apache.parquet": Format(read_parquet, write_parquet),
    CSV: Format(read_csv, write_csv),
}
#: Readers of media types that only requests have, for sparse rows.
SPARSE_READERS: Final = {"application/x-npz": read_npz}
_SUPPORTED: Final = ", ".join(FORMATS)


def reader_of(content_type: str) -> tuple[Callable[[Body, str | None], Call], bool]:
    """Return the reader of a request body, and whether small bodies are cheap to parse."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    if media_type in SPARSE_READERS:
        return SPARSE_READERS[media_type], False
    found = FORMATS.get(media_type)
    if found is None:
        known = ", ".join((*FORMATS, *SPARSE_READERS))
        detail = f"media type '{media_type}' is not supported; send one of {known}"
        raise Problem("unsupported-media-type", detail)
    if media_type == CSV:
        return partial(read_csv, has_header=_has_header(content_type)), found.is_cheap_to_parse
    return found.read, found.is_cheap_to_parse


def _has_header(content_type: str) -> bool | None:
    """Return the parameter 'header' of text/csv (RFC 4180): present or absent; None without it."""
    params = (text.strip().lower() for text in content_type.split(";")[1:])
    value = next((text[7:].strip('"') for text in params if text.startswith("header=")), None)
    return {"present": True, "absent": False}.get(value or "")


@lru_cache(256)
def accepted_type(accept: str) -> str:
    """Return the response media type that the Accept header prefers."""
    ranges = sorted(_ranges(accept or "*/*"), key=lambda item: -item[1])
    refused = {media_range for media_range, weight in ranges if weight <= 0}
    for media_range, weight in ranges:
        for media_type in FORMATS:
            if weight > 0 and media_type not in refused and _matches(media_range, media_type):
                return media_type
    raise Problem("not-acceptable", f"cannot respond with '{accept}'; accept one of {_SUPPORTED}")


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
