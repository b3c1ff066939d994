"""The dialect of a CSV file: declared, or detected in its first lines."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, islice, takewhile, zip_longest
from pathlib import Path
from typing import Final

from algorithms.wrappers.preparation.column_matching import clean_name
from algorithms.wrappers.preparation.text_values import NUMBER
from algorithms.wrappers.preparation.written_numbers import MEANT, shown_decimal
from service.datasets.formats.csv_blanks import DIVIDER, divide_at_blanks
from service.datasets.formats.nameless import complete_header, is_blank
from service.datasets.formats.options import ReadOptions
from service.datasets.issues import reject

_DELIMITERS: Final = ",;\t|"
_BLANK: Final = " "
_DECLARATION: Final = re.compile(r'sep=([^\w\s".]|\t)\s*', re.IGNORECASE)
_SAMPLE_CHARACTERS: Final = 256 * 1024
_SAMPLE_RECORDS: Final = 200
#: The decimal separator by that of thousands, if one is declared.
_DECIMAL_BESIDE: Final = {".": ",", ",": "."}
#: More than the names of 100,000 columns; a header may be longer than the sample.
_MAX_LINE_CHARACTERS: Final = 32 * 1024 * 1024
#: Lines above the header, and columns beside which a line of one cell is a title.
_MAX_TITLES: Final = 20
_MIN_TITLED: Final = 2
#: Characters of a title that a note shows, and those around it that it leaves out.
_MAX_TITLE: Final = 60
_ENDS: Final = " \t\r\n,;|"
_NUMBER: Final = re.compile(rf"\s*{NUMBER}\s*")
_MEANT: Final = re.compile(rf"\s*(?:{NUMBER}|{MEANT})\s*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the cells of a table are written.

    Attributes
    ----------
    decimal
        The decimal separator; None if the first records do not show it.
    header
        The cells of the first line, and an empty one if the rows have a cell more.
    markers
        Missing markers among the first records.
    n_before
        Number of lines before the header: blank ones, titles, and the declaration of the delimiter.
    has_blanks
        Whether runs of blanks divide the cells; then the delimiter is for a file with one tab for
        each.
    titles
        The text above the header, without the declaration of the delimiter.
    has_rows
        Whether any line below the header has text.
    """

    delimiter: str
    decimal: str | None
    header: tuple[str, ...]
    markers: tuple[str, ...]
    n_before: int = 0
    has_blanks: bool = False
    titles: tuple[str, ...] = ()
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
    lines = lines_of(text)
    if not is_whole and len(lines) > 1 and not text.endswith(("\r", "\n")):
        lines.pop()  # may be cut off
    n_before, declared = find_preamble(lines)
    titles = tuple(
        line.strip(_ENDS)[:_MAX_TITLE]
        for line in lines[:n_before]
        if line.strip(_ENDS) and not _DECLARATION.fullmatch(line)
    )
    lines = lines[n_before:]
    given = options.delimiter or declared
    delimiter = given or find_delimiter(lines)
    if given is None:
        _check_cells(lines, delimiter)
    has_blanks = divides_at_runs(lines, delimiter, is_given=given is not None)
    if has_blanks:
        lines, delimiter = _divided(lines), DIVIDER
    records = _records(lines, delimiter)
    if not records or not "".join(lines).strip():
        reject("empty-file", "the file is empty; the first line must contain the column names")
    decimal = options.decimal or _DECIMAL_BESIDE.get(options.thousands or "")
    if decimal is None:
        decimal = find_decimal(_with_numbers(records, options), delimiter)
    cells = {cell.strip() for record in records[1:] for cell in record}
    markers = tuple(marker for marker in options.markers if marker in cells)
    return Dialect(
        delimiter,
        decimal,
        tuple(complete_header(records)),
        markers,
        n_before,
        has_blanks=has_blanks,
        titles=titles,
        has_rows=not is_whole or _n_blank(lines[1:]) < len(lines) - 1,
    )


def find_preamble(lines: list[str]) -> tuple[int, str | None]:
    """Return the number of lines before the header, and the delimiter that they declare, if any."""
    n_before = _n_blank(lines)
    declared = _DECLARATION.fullmatch(lines[n_before]) if n_before < len(lines) else None
    if declared is not None:
        n_before += 1 + _n_blank(lines[n_before + 1 :])
    return n_before + _n_titles(lines[n_before:]), None if declared is None else declared[1]


def _n_titles(lines: list[str]) -> int:
    """Return the number of lines above the header that are titles, comments after #, or blank.

    Titles have fewer cells than the rows, even if the header lacks one; the header has no numbers.
    """
    lines = lines[:_SAMPLE_RECORDS]
    try:
        readings = [[*csv.reader(lines, delimiter=delimiter)] for delimiter in _DELIMITERS]
    except csv.Error:
        return 0  # the whole file is read later, and its errors are reported
    records = max(readings, key=_shared_width)
    width = _shared_width(records)[1]
    if len(records) != len(lines):  # some cells have line breaks
        return 0
    for n, cells in enumerate(records[:_MAX_TITLES]):
        is_comment = lines[n].startswith("#") and len(cells) != width
        is_title = len(cells) < width - 1 or (width > _MIN_TITLED and is_blank(cells[1:]))
        if not (is_comment or is_title):
            return 0 if any(_NUMBER.fullmatch(cell) or not cell.strip() for cell in cells) else n
    return 0


def _shared_width(records: list[list[str]]) -> tuple[int, int]:
    """Return how many records have the commonest number of cells above one, and this number."""
    widths = Counter(len(cells) for cells in records if len(cells) > 1)
    ((width, count),) = widths.most_common(1) or [(1, 0)]
    return count, width


def _n_blank(lines: list[str]) -> int:
    """Return the number of blank lines before the first line with text."""
    return len(list(takewhile(lambda line: not line.strip("\r\n"), lines)))


def find_delimiter(lines: list[str]) -> str:
    """Return the delimiter of a table by its first lines; the first must be complete.

    It is a space for blanks, if no other one divides the header, or tabs do not divide the rows.
    """
    readings = {delimiter: _records(lines, delimiter) for delimiter in _DELIMITERS}
    delimiter = max(readings, key=lambda delimiter: _consistency(readings[delimiter]))
    records = readings[delimiter]
    is_divided = bool(records) and len(records[0]) > 1
    if is_divided and (delimiter != "\t" or _divides(records)):
        return delimiter
    return _BLANK if _divides(_records(_divided(lines), DIVIDER)) else delimiter


def divides_at_runs(lines: list[str], delimiter: str, *, is_given: bool) -> bool:
    """Return whether cells are divided by runs of blanks, not by single spaces.

    Given spaces divide cells one by one wherever all rows fit, also those at the ends of lines.
    """
    if delimiter != _BLANK:
        return False
    records = _records(lines, _BLANK)
    return not _divides(records) or (is_blank(records[0][-1:]) and not is_given)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends, which are those of CSV only."""
    return [*io.StringIO(text, newline="")]


def _check_cells(lines: list[str], delimiter: str) -> None:
    """Raise Rejected if blanks may divide the cells instead, of which some are several numbers."""
    header, *rows = _records(lines, delimiter) or [[]]
    for j, name in enumerate(header):
        n_names = len(name.split())
        cells = [row[j] for row in rows if j < len(row) and len(row[j].split()) == n_names > 1]
        cell = next((cell for cell in cells if _has_numbers(cell)), None)
        if cell is not None and _divides(_records(_divided(lines), DIVIDER)):
            detail = f"column '{name.strip()}' has {n_names} numbers in a cell, '{cell.strip()}':"
            detail += " declare delimiter=' ' if blanks divide the cells, else"
            detail += f" delimiter={delimiter!r}"
            reject("missing-option", detail, column=name.strip(), parameter="query:delimiter")


def _has_numbers(cell: str) -> bool:
    """Return whether a cell has only numbers, divided by blanks."""
    return all(_NUMBER.fullmatch(part.replace(",", ".", 1)) for part in cell.split())


def _divided(lines: list[str]) -> list[str]:
    return lines_of(divide_at_blanks("".join(lines)))


def _divides(records: list[list[str]]) -> bool:
    """Return whether all records have as many cells as the header, at least two."""
    if not records:
        return False
    width = len(complete_header(records))
    return width > 1 and all(len(row) == width or is_blank(row) for row in records[1:])


def _records(lines: list[str], delimiter: str) -> list[list[str]]:
    """Return the first records, as far as they can be read."""
    records: list[list[str]] = []
    try:
        filled = (record for record in csv.reader(lines, delimiter=delimiter) if record)
        records.extend(islice(filled, _SAMPLE_RECORDS))
    except csv.Error:
        pass  # the whole file is read later, and its errors are reported
    return records


def _with_numbers(records: list[list[str]], options: ReadOptions) -> list[list[str]]:
    """Return the cells below the header of columns that can be numbers, not labels or text."""
    labels = options.labels()
    columns = zip_longest(*records[1:], fillvalue="")
    is_used = [
        clean_name(name) not in labels and _are_meant(cells, options.markers)
        for name, cells in zip(complete_header(records), columns, strict=False)
    ]
    return [[*compress(record, is_used)] for record in records[1:]]


def _are_meant(cells: Iterable[str], markers: Sequence[str]) -> bool:
    """Return whether at least half of the cells with a value are numbers, however written."""
    known = [cell for cell in cells if cell.strip() and cell.strip() not in markers]
    return 2 * sum(_MEANT.fullmatch(cell) is not None for cell in known) >= len(known)


def _consistency(records: list[list[str]]) -> tuple[bool, float, int]:
    """Return a key that is largest for the records by the delimiter of the table.

    This delimiter divides the header, and as many records as possible into as many cells, or one
    more each.
    """
    width = len(records[0]) if records else 0
    widths = Counter(map(len, records))
    return width > 1, max(widths[width], widths[width + 1]) / max(1, len(records)), width


def find_decimal(records: list[list[str]], delimiter: str) -> str | None:
    """Return the decimal separator that cells show; a point if the comma divides cells, else None.

    Between commas, a comma in a cell may be one of a list, unless the number has a point as well.
    """
    has_commas = delimiter == ","
    cells = [cell for record in records[:_SAMPLE_RECORDS] for cell in record]
    return shown_decimal(cells, is_delimiter=has_commas) or ("." if has_commas else None)
