"""Sizes of the sheets of a workbook, before they are read.

The reader of workbooks makes a cell for each place between the first and the last one, and a text
for each cell that refers to a shared one; a workbook of a few kilobytes could take any memory.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from service.datasets.formats.options import Limits
from service.datasets.formats.xlsx_results import blocks_of, members_of
from service.datasets.issues import reject

_SHARED: Final = "xl/sharedstrings.xml"
_COLUMNS: Final = re.compile(rb"r\s*=\s*[\"']([A-Za-z]{1,7})[0-9]")
_ROWS: Final = re.compile(rb"r\s*=\s*[\"'][A-Za-z]{0,7}([0-9]{1,10})[\"']")
#: A cell with the number of its shared text, which may have a formula.
_SHARED_CELL: Final = re.compile(
    rb"\st\s*=\s*[\"']s[\"'][^<>]{0,300}>\s*(?:<[^<>]{0,300}>[^<]{0,20000}</[^<>]{0,20}>\s*)?"
    rb"<(?:\w{1,20}:)?v[^<>]{0,300}>\s*([0-9]{1,10})"
)
#: Cells without content, of which the reader makes none, and rows of such cells only.
_EMPTY_CELLS: Final = re.compile(rb"<(?:\w{1,20}:)?c\s[^<>]*/>")
_EMPTY_ROWS: Final = re.compile(rb"<(?:\w{1,20}:)?row\s[^<>]*(?:/>|>\s*</(?:\w{1,20}:)?row>)")
#: Bytes of a cell and of a letter in memory.
_VALUE_BYTES: Final = 8


def check_sheets(
    book: Path | IO[bytes], sheets: Sequence[str], used: Sequence[str], limits: Limits
) -> None:
    """Raise Rejected if the cells of the sheets that are read take too much memory.

    Parameters
    ----------
    sheets
        Names of the sheets, in the order of the workbook.
    used
        Names of those that are read.
    """
    with zipfile.ZipFile(book) as archive:
        names = archive.namelist()
        if len({name.lower() for name in names}) < len(names):
            reject("corrupt-file", "the file is not a readable workbook: a member is there twice")
        members = dict(zip(sheets, members_of(archive), strict=False))
        # the reader knows more ways to name a member
        chosen = [members[s] for s in used] if members.keys() >= {*used} else names
        for member in chosen:
            _check_sheet(archive, member, limits)


def _check_sheet(archive: zipfile.ZipFile, member: str, limits: Limits) -> None:
    n_rows, n_columns, shared = _places(archive, member, has_empty=True)
    if n_rows * n_columns * _VALUE_BYTES > limits.decompressed_bytes:
        n_rows, n_columns, _ = _places(archive, member, has_empty=False)
    if n_rows * n_columns * _VALUE_BYTES > limits.decompressed_bytes:
        detail = f"the cells of '{member}' are apart by {n_rows} rows and {n_columns} columns"
        reject("decompression-limit", f"{detail}; delete cells that are far from the table")
    n_bytes = _shared_bytes(archive, shared) if shared else 0
    if n_bytes > limits.decompressed_bytes:
        detail = f"the texts of '{member}' have {n_bytes} bytes, more than the limit of"
        reject("decompression-limit", f"{detail} {limits.decompressed_bytes}")


def _places(
    archive: zipfile.ZipFile, member: str, *, has_empty: bool
) -> tuple[int, int, Counter[bytes]]:
    """Return the rows and columns that cells span, and how often each shared text is referred to.

    Parameters
    ----------
    has_empty
        Whether cells without content count, which takes less time.
    """
    columns: set[bytes] = set()
    rows: set[bytes] = set()
    shared: Counter[bytes] = Counter()
    has_shared = any(name.lower() == _SHARED for name in archive.namelist())
    with archive.open(member) as file:
        for block in blocks_of(file):
            cells = block if has_empty else _EMPTY_ROWS.sub(b"", _EMPTY_CELLS.sub(b"", block))
            columns.update(_COLUMNS.findall(cells))
            rows.update(_ROWS.findall(cells))
            shared.update(_SHARED_CELL.findall(cells) if has_shared else ())
    numbers = [column_number(letters) for letters in columns] or [1]
    places = [int(row) for row in rows] or [1]
    n_rows, n_columns = (max(found) - min(found) + 1 for found in (places, numbers))
    return n_rows, n_columns, shared


def column_number(letters: bytes) -> int:
    """Return the number of a column by its letters, from 1."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


def _shared_bytes(archive: zipfile.ZipFile, counts: Counter[bytes]) -> int:
    """Return the number of bytes of shared texts, as often as cells refer to them."""
    name = next((name for name in archive.namelist() if name.lower() == _SHARED), None)
    if name is None:
        return 0
    _, *texts = re.split(rb"<(?:\w{1,20}:)?si[\s/>]", archive.read(name))
    lengths = [len(text) for text in texts]
    return sum(
        count * lengths[int(number)]
        for number, count in counts.items()
        if int(number) < len(lengths)
    )
