"""Table of the upload formats."""

from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Final

from service.datasets.formats import (
    arrow_ipc,
    csv_table,
    csv_text,
    json_records,
    matlab,
    npz_arrays,
    parquet,
    safetensors_arrays,
    xlsx,
)
from service.datasets.formats.array_names import ChosenArrays
from service.datasets.formats.npz_arrays import tasks_of_parts
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parsed import Parsed

Parse = Callable[[Path, ReadOptions, Limits], Parsed]
ReadParts = Callable[[Path, ReadOptions, Limits], ChosenArrays]


@dataclass(frozen=True, slots=True)
class Format:
    """An upload format.

    Parameters
    ----------
    magic
        Accepted first bytes of a file; empty for text formats.
    parse
        Parser of a file, which runs in the child process and raises ``Rejected``. To add a format,
        write such a function and add a line to :data:`FORMATS`.
    has_dialect
        Whether delimiter, encoding and missing markers can be declared.
    is_table
        Whether it is a table with types or text, for which the writing of numbers and dates can be
        declared.
    own_options
        Options that few formats have.
    read_parts
        Reader of the arrays of a file of arrays, by task and part; None for tables.
    """

    title: str
    media_types: tuple[str, ...]
    magic: tuple[bytes, ...]
    parse: Parse
    has_dialect: bool = False
    is_table: bool = False
    own_options: frozenset[str] = frozenset()
    read_parts: ReadParts | None = None

    def read(self, path: Path, options: ReadOptions, limits: Limits) -> Parsed:
        """Return the tasks of a file.

        Raises
        ------
        Rejected
            With all issues, up to a maximum number.
        """
        if not self.has_dialect:
            options.check_no_dialect(self.title, is_table=self.is_table)
        options.check_own(self.title, self.own_options)
        return self.parse(path, options, limits)


_VARIABLES: Final = frozenset({"variables"})


def array_format(
    title: str, media_types: tuple[str, ...], magic: tuple[bytes, ...], read_parts: ReadParts
) -> Format:
    """Return a format of files of arrays by the reader of their arrays by task and part."""

    def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
        return tasks_of_parts(read_parts(path, options, limits), options, limits)

    return Format(title, media_types, magic, parse, own_options=_VARIABLES, read_parts=read_parts)


FORMATS: Final = (
    Format(
        "CSV, one table of all tasks",
        ("text/csv", "text/tab-separated-values"),
        (),
        csv_table.parse,
        has_dialect=True,
        is_table=True,
    ),
    array_format(
        "NumPy .npz",
        ("application/x-npz", "application/zip"),
        (b"PK\x03\x04", b"PK\x05\x06"),
        npz_arrays.read_parts,
    ),
    Format(
        "Excel workbook",
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",),
        (b"PK\x03\x04",),
        xlsx.parse,
        is_table=True,
        own_options=frozenset({"sheet"}),
    ),
    array_format(
        "MATLAB 5 to 7.3",
        ("application/x-matlab-data",),
        (b"MATLAB ", b"\x89HDF"),
        matlab.read_parts,
    ),
    array_format(
        "safetensors",
        ("application/vnd.safetensors",),
        (),
        safetensors_arrays.read_parts,
    ),
    Format("JSON records", ("application/json",), (), json_records.parse, is_table=True),
    Format(
        "JSON, one record a line",
        ("application/x-ndjson",),
        (),
        json_records.parse_lines,
        is_table=True,
    ),
    Format(
        "Parquet", ("application/vnd.apache.parquet",), (b"PAR1",), parquet.parse, is_table=True
    ),
    Format(
        "Arrow IPC file, or Feather",
        ("application/vnd.apache.arrow.file",),
        (b"ARROW1", b"FEA1"),
        arrow_ipc.parse,
        is_table=True,
    ),
    Format(
        "Arrow IPC stream",
        ("application/vnd.apache.arrow.stream",),
        (b"\xff\xff\xff\xff",),
        arrow_ipc.parse,
        is_table=True,
    ),
)

_EXPORT: Final = "export the table as CSV"
#: First bytes of unsupported formats, with the reason.
UNSUPPORTED: Final = (
    (b"\x80", "pickle and joblib files are not supported, since loading them can run code"),
    (b"\x93NUMPY", "a single .npy array has no task names; use .npz with arrays named by task"),
    (b"\x1f\x8b", "only CSV is unpacked; upload the file inside"),
    (b"\x28\xb5\x2f\xfd", "only CSV is unpacked; upload the file inside"),
    (
        b"PK\x03\x04",
        "the file is a ZIP archive, as .npz and .xlsx are; unpack others, and save .ods as .xlsx",
    ),
    (b"BZh", "bzip2 is not unpacked; upload the file inside"),
    (b"\xfd7zXZ", "xz is not unpacked; upload the file inside"),
    (b"\xd0\xcf\x11\xe0", "the file is an old workbook (.xls); save it as .xlsx"),
    (b"$FL2", f"the file is of SPSS; {_EXPORT}"),
    (b"$FL3", f"the file is of SPSS; {_EXPORT}"),
    (b"<stata_dta>", f"the file is of Stata; {_EXPORT}"),
    (b"RDX", f"the file is of R; {_EXPORT}"),
    (b"%PDF", f"the file is a PDF; {_EXPORT}"),
    (b"<!DOCTYPE", f"the file is a web page; {_EXPORT}"),
    (b"<html", f"the file is a web page; {_EXPORT}"),
)
#: Charsets that are UTF-8 or a subset of it.
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class UnsupportedFormat(Exception):
    """The upload has an unsupported format; the message lists the supported ones."""


def find_format(media_type: str) -> Format:
    """Return the format with a media type.

    Raises
    ------
    UnsupportedFormat
        No format has this media type, or it names a charset other than UTF-8.
    """
    message = Message()
    message["content-type"] = media_type
    bare = message.get_content_type() if media_type else ""
    format_ = next((f for f in FORMATS if bare in f.media_types), None)
    if format_ is None:
        subject = (
            f"Content-Type {media_type[:100]!r}" if media_type else "a body without Content-Type"
        )
        raise UnsupportedFormat(f"{subject} is not supported; use {supported()}")
    charset = message.get_content_charset("utf-8")
    if charset not in _UTF8:
        shown = charset[:40]
        remedy = "use UTF-8"
        if format_.has_dialect:
            remedy += f", or leave the charset out and set ?encoding={shown}"
        raise UnsupportedFormat(f"charset {shown!r} is not supported in Content-Type; {remedy}")
    return format_


def check_magic(format_: Format, head: bytes) -> None:
    """Check the first bytes of an upload against its format.

    Raises
    ------
    UnsupportedFormat
        The bytes belong to another format, or to an unsupported one.
    """
    if not head or head.startswith(format_.magic):
        return
    if format_.has_dialect and csv_text.compression_of(head) is not None:
        return
    reason = next((why for magic, why in UNSUPPORTED if head.startswith(magic)), None)
    other = next((f.title for f in FORMATS if f.magic and head.startswith(f.magic)), None)
    if reason is None and other is None and not format_.magic:
        return  # text has no fixed first bytes
    mismatch = reason or f"the file is {other or 'of another format'}"
    raise UnsupportedFormat(f"expected {format_.title}, but {mismatch}; use {supported()}")


def supported() -> str:
    """Return a list of the formats for messages."""
    return ", ".join(f"{f.media_types[0]} ({f.title})" for f in FORMATS)
