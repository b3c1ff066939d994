"""THE table of upload formats: one module and one line each."""

from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Final

from algorithms.interface.tasks import Task
from service.datasets.formats import csv_table, npz_arrays
from service.datasets.formats.options import Limits, ReadOptions

Parse = Callable[[Path, ReadOptions, Limits], list[Task]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of uploads.

    Parameters
    ----------
    magic
        First bytes; one of them must be there. Empty for text, which has none.
    parse
        Reads a file in the child process; gives tasks, or raises ``Rejected``. A new format is
        one module with such a function and one line in :data:`FORMATS`.
    """

    title: str
    media_types: tuple[str, ...]
    magic: tuple[bytes, ...]
    parse: Parse


FORMATS: Final = (
    Format("CSV, one long table", ("text/csv",), (), csv_table.parse),
    Format(
        "NumPy .npz",
        ("application/x-npz", "application/zip"),
        (b"PK\x03\x04", b"PK\x05\x06"),
        npz_arrays.parse,
    ),
)

#: What is never read, or not yet, with the reason; told apart by their first bytes.
REFUSED: Final = (
    (b"\x80", "a pickle (or joblib file) can run code when it is read, so none is ever read"),
    (b"\x93NUMPY", "one .npy array names no tasks; put it into an .npz with the tasks' names"),
    (b"\x1f\x8b", "a compressed file is not unpacked here; use Content-Type of what is inside"),
    (b"PAR1", "Parquet is not read"),
    (b"ARROW1", "Arrow is not read"),
    (b"\x89HDF", "HDF5 and MATLAB 7.3 files are not read"),
    (b"MATLAB 5.0", "MATLAB files are not read"),
)
#: Charsets that are UTF-8 or a part of it.
_UTF8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class UnsupportedFormat(Exception):
    """The upload is in a format that is not read; the message says what to send."""


def find_format(media_type: str) -> Format:
    """Return the format of a media type.

    Raises
    ------
    UnsupportedFormat
        No format has this media type, or it names a charset other than UTF-8.
    """
    message = Message()
    message["content-type"] = media_type
    bare = message.get_content_type() if media_type else ""
    found = next((f for f in FORMATS if bare in f.media_types), None)
    if found is None:
        which = (
            f"Content-Type {media_type[:100]!r}" if media_type else "a body without Content-Type"
        )
        raise UnsupportedFormat(f"{which} is not read here; send {supported()}")
    charset = message.get_content_charset("utf-8")
    if charset not in _UTF8:
        raise UnsupportedFormat(f"charset {charset[:40]!r} is not read here; save as UTF-8")
    return found


def check_magic(format_: Format, head: bytes) -> None:
    """Check the first bytes of an upload against its format.

    Raises
    ------
    UnsupportedFormat
        They are of another format, or of one that is never read.
    """
    if not head or head.startswith(format_.magic):
        return
    reason = next((why for magic, why in REFUSED if head.startswith(magic)), None)
    other = next((f.title for f in FORMATS if f.magic and head.startswith(f.magic)), None)
    if reason is None and other is None and not format_.magic:
        return  # text begins in any way
    what = reason or f"the bytes are those of {other or 'some other format'}"
    raise UnsupportedFormat(f"expected {format_.title}, but {what}; send {supported()}")


def supported() -> str:
    """Return the formats as a sentence's part."""
    return ", ".join(f"{f.media_types[0]} ({f.title})" for f in FORMATS)
