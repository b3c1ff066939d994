"""The dialect of a CSV file: declared, or detected in its first lines."""

import csv
import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from algorithms.wrappers.preparation.text_values import MISSING_MARKERS, NUMBER
from service.datasets.formats.nameless import complete_header
from service.datasets.formats.options import ReadOptions
from service.datasets.issues import reject

_DELIMITERS: Final = ",;\t|"
_DECLARATION: Final = re.compile(r'sep=([^\w\s".]|\t)\s*', re.IGNORECASE)
_SAMPLE_CHARACTERS: Final = 256 * 1024
_SAMPLE_RECORDS: Final = 200
#: More than the names of 100,000 columns; a header may be longer than the sample.
_MAX_LINE_CHARACTERS: Final = 32 * 1024 * 1024
_NUMBER: Final = re.compile(rf"\s*{NUMBER}\s*")
_WITH_COMMA: Final = re.compile(r"\s*[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?\s*")
_WITH_POINT: Final = re.compile(r"\s*[+-]?[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?\s*")
#: 1,234 may be a number above 1000 as well as one near 1.
_THOUSANDS: Final = re.compile(r"\s*[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+\s*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the cells of a table are written.

    Attributes
    ----------
    header
        The cells of the first line, and an empty one if the rows have a cell more.
    markers
        Missing markers among the first records.
    n_before
        Number of lines before the header: blank ones, and the declaration of the delimiter.
    declares_delimiter
        Whether the first line is ``sep=;``, as Excel writes and reads it.
    has_rows
        Whether any line below the header has text.
    """

    delimiter: str
    decimal: str
    header: tuple[str, ...]
    markers: tuple[str, ...]
    n_before: int = 0
    declares_delimiter: bool = False
    has_rows: bool = True

    @property
    def has_numeric_header(self) -> bool:
        """Whether the first line has only numbers, so that it is not a header."""
        return all(_NUMBER.fullmatch(cell) for cell in self.header)


def find_dialect(path: Path, options: ReadOptions) -> Dialect:
    """Return the dialect of a table in UTF-8.

    Raises
    ------
    Rejected
        The file has no header.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        text = file.read(_SAMPLE_CHARACTERS)
        text += file.readline(_MAX_LINE_CHARACTERS)  # the rest of the last line
        is_whole = not file.read(1)
    lines = text.splitlines(keepends=True)
    if not is_whole and len(lines) > 1 and not text.endswith(("\r", "\n")):
        lines.pop()  # may be cut off
    n_before, declared = find_preamble(lines)
    lines = lines[n_before:]
    delimiter = options.delimiter or declared or find_delimiter(lines)
    records = _records(lines, delimiter)
    if not records or not "".join(lines).strip():
        reject("empty-file", "the file is empty; the first line must contain the column names")
    decimal = options.decimal or find_decimal(records[1:], delimiter)
    cells = {cell.strip() for record in records[1:] for cell in record}
    markers = tuple(marker for marker in markers_of(options) if marker in cells)
    return Dialect(
        delimiter,
        decimal,
        tuple(complete_header(records)),
        markers,
        n_before,
        declares_delimiter=declared is not None,
        has_rows=not is_whole or _n_blank(lines[1:]) < len(lines) - 1,
    )


def find_preamble(lines: list[str]) -> tuple[int, str | None]:
    """Return the number of lines before the header, and the delimiter that they declare, if any."""
    n_before = _n_blank(lines)
    declared = _DECLARATION.fullmatch(lines[n_before]) if n_before < len(lines) else None
    if declared is None:
        return n_before, None
    return n_before + 1 + _n_blank(lines[n_before + 1 :]), declared[1]


def _n_blank(lines: list[str]) -> int:
    """Return the number of blank lines before the first line with text."""
    return len(list(takewhile(lambda line: not line.strip("\r\n"), lines)))


def markers_of(options: ReadOptions) -> tuple[str, ...]:
    """Return the markers of missing values, besides empty cells."""
    return MISSING_MARKERS if options.missing_marker is None else options.missing_marker


def find_delimiter(lines: list[str]) -> str:
    """Return the delimiter of a table by its first lines; the first must be complete."""
    return max(_DELIMITERS, key=lambda delimiter: _consistency(lines, delimiter))


def _records(lines: list[str], delimiter: str) -> list[list[str]]:
    """Return the first records, as far as they can be read."""
    records: list[list[str]] = []
    try:
        filled = (record for record in csv.reader(lines, delimiter=delimiter) if record)
        records.extend(islice(filled, _SAMPLE_RECORDS))
    except csv.Error:
        pass  # the whole file is read later, and its errors are reported
    return records


def _consistency(lines: list[str], delimiter: str) -> tuple[bool, float, int]:
    """Return a key that is largest for the delimiter of the table.

    This delimiter divides the header, and as many records as possible into as many cells, or one
    more each.
    """
    records = _records(lines, delimiter)
    width = len(records[0]) if records else 0
    widths = Counter(map(len, records))
    return width > 1, max(widths[width], widths[width + 1]) / max(1, len(records)), width


def find_decimal(records: list[list[str]], delimiter: str) -> str:
    """Return the decimal separator; a comma only if it cannot separate thousands."""
    cells = [cell for record in records[:_SAMPLE_RECORDS] for cell in record]
    commas = [cell for cell in cells if _WITH_COMMA.fullmatch(cell)]
    n_points = sum(_WITH_POINT.fullmatch(cell) is not None for cell in cells)
    is_clear = any(not _THOUSANDS.fullmatch(cell) for cell in commas)
    return "," if delimiter != "," and is_clear and len(commas) > n_points else "."
