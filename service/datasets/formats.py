"""THE table of upload formats: one module and one line each."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from algorithms.interface.tasks import Task
from service.datasets import csv_table, npz_arrays
from service.datasets.options import Limits, ReadOptions

Parse = Callable[[Path, ReadOptions, Limits], list[Task]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of uploads.

    Parameters
    ----------
    magic
        First bytes; one of them must be there. Empty for text, which has none.
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

#: Binary beginnings that no text has: a file of another kind under the name of text.
_NEVER_TEXT: Final = (b"PK\x03\x04", b"\x93NUMPY", b"\x80", b"PAR1", b"\x1f\x8b", b"\x89HDF")


def find_format(media_type: str) -> Format | None:
    """Give the format of a media type."""
    bare = media_type.partition(";")[0].strip().lower()
    return next((f for f in FORMATS if bare in f.media_types), None)


def has_magic(format_: Format, head: bytes) -> bool:
    """Tell whether the first bytes are of the format."""
    if format_.magic:
        return head.startswith(format_.magic)
    return not head.startswith(_NEVER_TEXT)


def supported() -> str:
    """Give the formats as a sentence's part."""
    return ", ".join(f"{f.media_types[0]} ({f.title})" for f in FORMATS)
