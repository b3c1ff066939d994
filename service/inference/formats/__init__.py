"""Body formats of inference requests and responses, by media type."""

from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from functools import partial
from typing import Final

from service.errors.problems import Problem
from service.http.bodies import JSON
from service.http.negotiation import preferred_type
from service.inference.call import Body, Call, InferenceResult
from service.inference.formats import array_files
from service.inference.formats.arrow import (
    read_arrow,
    read_arrow_file,
    read_parquet,
    write_arrow,
    write_parquet,
)
from service.inference.formats.csv_body import read_csv, write_csv
from service.inference.formats.json_body import read_json, read_json_lines, write_json
from service.inference.formats.npy import read_npy, write_npy
from service.inference.formats.workbook import read_workbook
from service.inference.task_column import TaskSource


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """Reader and writer of a body format.

    Attributes
    ----------
    read
        Parses a body, with the source of the tasks of its rows.
    write
        Serialises the result.
    is_cheap_to_parse
        Whether small bodies take little time to parse, because nothing is decompressed.
    """

    read: Callable[[Body, TaskSource], Call]
    write: Callable[[InferenceResult], bytes]
    is_cheap_to_parse: bool = False


CSV: Final = "text/csv"
#: Formats by media type; the first is the default for ``Accept: */*``.
FORMATS: Final = {
    JSON: BodyFormat(read_json, write_json, is_cheap_to_parse=True),
    "application/x-npy": BodyFormat(read_npy, write_npy, is_cheap_to_parse=True),
    "application/vnd.apache.arrow.stream": BodyFormat(read_arrow, write_arrow),
    "application/vnd.apache.parquet": BodyFormat(read_parquet, write_parquet),
    CSV: BodyFormat(read_csv, write_csv),
}
#: Readers of media types that only requests have.
REQUEST_READERS: Final = {
    "application/x-ndjson": read_json_lines,
    "application/vnd.apache.arrow.file": read_arrow_file,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": read_workbook,
    "text/tab-separated-values": read_csv,
    **array_files.READERS,
}
_OFFERED: Final = tuple(FORMATS)


def reader_of(content_type: str) -> tuple[Callable[[Body, TaskSource], Call], bool]:
    """Return the reader of a request body, and whether small bodies are cheap to parse."""
    media_type = content_type.partition(";")[0].strip().lower() or JSON
    format_ = FORMATS.get(media_type)
    read = REQUEST_READERS.get(media_type) if format_ is None else format_.read
    if read is None:
        supported = ", ".join((*FORMATS, *REQUEST_READERS))
        detail = f"media type '{media_type}' is not supported; send one of {supported}"
        raise Problem("unsupported-media-type", detail)
    if read is read_csv:
        has_header, charset = _csv_parameters(content_type)
        read = partial(read_csv, has_header=has_header, charset=charset)
    return read, format_ is not None and format_.is_cheap_to_parse


def _csv_parameters(content_type: str) -> tuple[bool | None, str | None]:
    """Return the parameters 'header' (present or absent) and 'charset' of CSV (RFC 4180)."""
    message = Message()
    message["content-type"] = content_type
    header = str(message.get_param("header", "")).lower()
    charset = message.get_content_charset("")
    try:
        "".encode(charset or "utf-8")  # unlike a look-up, this refuses encodings of bytes
    except (LookupError, ValueError):
        detail = f"charset {charset[:40]!r} of CSV is not known; send the table in UTF-8"
        raise Problem("unsupported-media-type", detail) from None
    return {"present": True, "absent": False}.get(header), charset or None


def accepted_type(accept: str) -> str:
    """Return the response media type that the Accept header prefers."""
    return preferred_type(accept, _OFFERED)
