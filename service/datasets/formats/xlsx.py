"""Parser of Excel workbooks: one table, or one sheet for each task."""

import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from python_calamine import CalamineError, CalamineWorkbook

from algorithms.interface.lists import list_names
from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from service.datasets.formats.arrow_table import tasks_of
from service.datasets.formats.nameless import empty_notes, name_index
from service.datasets.formats.npz_archive import check_archive_size
from service.datasets.formats.object_columns import are_mixed, column_of, unify
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.validation import check_counts
from service.datasets.formats.xlsx_layout import lines_of
from service.datasets.formats.xlsx_percents import percent_cells
from service.datasets.formats.xlsx_results import unread_results
from service.datasets.formats.xlsx_sizes import check_sheets
from service.datasets.issues import Rejected, ValidationIssue, ValidationIssues, reject

_TASK: Final = "task"
_PERCENT: Final = (
    "are shown as percentages: 12% is read as 0.12, unlike '12%' in text, which is read as 12"
)
_CORRUPT: Final = (
    CalamineError,
    BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True, slots=True)
class _Place:
    """The sheet, the row and the first column of Excel, counted from 1, of a row of the table."""

    sheet: str
    row: int
    column: int

    def __str__(self) -> str:
        return f"sheet '{self.sheet}', row {self.row}"


@dataclass(frozen=True, slots=True)
class WorkbookTable:
    """The table of a workbook, its rows, and notes.

    Attributes
    ----------
    mixed
        The values of columns of numbers of which some are text; in the table, all are text.
    percents
        Which rows show a percentage, of the columns in which any does.
    """

    table: pa.Table
    rows: list["_Row"]
    notes: list[str]
    mixed: dict[str, Sequence[Any]]
    percents: dict[str, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that has any value."""

    place: _Place
    cells: list[Any]

    def cell(self, j: int) -> Any:
        """Return a cell, or None if it is empty."""
        return None if j >= len(self.cells) or self.cells[j] == "" else self.cells[j]


def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in a workbook.

    The first row of a sheet has the names of the columns. With several sheets, each sheet is the
    task of its name; all have the same columns. Empty sheets and rows are skipped.
    """
    check_archive_size(path, limits, remedy="upload the table as CSV or Parquet")
    sheets = read_table(path, options, limits)
    with _places_of(sheets.rows):
        parsed = tasks_of(sheets.table, options, limits)
    return replace(parsed, notes=(*sheets.notes, *parsed.notes))


def read_table(
    file: Path | IO[bytes], options: ReadOptions, limits: Limits, *, must_exist: bool = True
) -> WorkbookTable:
    """Return the table of a workbook.

    Parameters
    ----------
    must_exist
        Whether a workbook without the sheet of the options is rejected; else all sheets are read.

    Raises
    ------
    Rejected
        The file is not a workbook, or its cells are not a table.
    """
    sheet = options.sheet
    try:
        book = CalamineWorkbook.from_object(str(file) if isinstance(file, Path) else file)
        names = book.sheet_names
        if must_exist or sheet in names:
            names = _chosen(names, sheet)
        check_sheets(file, book.sheet_names, names, limits)
        found = [_filled_rows(book, name) for name in names]
        sheets = [rows for rows, _ in found if rows]
        notes = _sheet_notes(book.sheet_names, sheet, [rows[0].place.sheet for rows in sheets])
        notes += [note for _, noted in found for note in noted]
        notes += unread_results(file, book.sheet_names, names)
        cells = percent_cells(file, book.sheet_names, names)
    except _CORRUPT as error:
        reject("corrupt-file", f"the file is not a readable workbook: {error}")
    if not sheets:
        reject("empty-file", "the workbook has no sheet with cells")
    header, empty = _header(sheets, limits)
    notes += empty_notes(empty)
    rows = [row for _, *data_rows in sheets for row in data_rows]
    percents, shown_notes = _percents(header, rows, cells)
    notes += shown_notes
    with _places_of(rows):
        table, mixed = _table(header, rows, notes, options, has_tasks=len(sheets) > 1)
    return WorkbookTable(table, rows, notes, mixed, percents)


def _chosen(names: list[str], sheet: str | None) -> list[str]:
    """Return the sheet to read, or all sheets."""
    if sheet is not None and sheet not in names:
        detail = f"there is no sheet '{sheet}'; the sheets are {list_names(names)}"
        reject("missing-sheet", detail, parameter="query:sheet")
    return names if sheet is None else [sheet]


def _sheet_notes(names: Sequence[str], sheet: str | None, filled: Sequence[str]) -> list[str]:
    """Return a note about the sheets of a workbook with several."""
    if sheet is not None:
        return [f"sheet '{sheet}' was read, of {list_names(names)}"]
    if len(filled) < 2:
        return []
    return [
        f"each sheet is a task: {list_names(filled)}; declare sheet=NAME to read one as a table"
    ]


def _filled_rows(book: CalamineWorkbook, name: str) -> tuple[list[_Row], list[str]]:
    """Return the rows of the table in a sheet that have any value, and notes."""
    sheet = book.get_sheet_by_name(name)
    lines, notes = lines_of(sheet)
    column = 1 if sheet.start is None else sheet.start[1] + 1
    return [_Row(_Place(name, n + 1, column), cells) for n, cells in lines], notes


def _header(sheets: Sequence[list[_Row]], limits: Limits) -> tuple[list[str], list[int]]:
    """Return the names of the columns, the same in all sheets, and the positions of empty ones."""
    first, *others = [[_text(cell) for cell in rows[0].cells] for rows in sheets]
    check_counts(1, len(first), limits)
    for rows, names in zip(sheets[1:], others, strict=True):
        if names != first:
            detail = f"sheet '{rows[0].place.sheet}' has the columns {names[:20]}, "
            detail += f"but the first sheet {first[:20]}"
            detail += "; all sheets need the same columns in the same order"
            reject("wrong-width", f"{detail}, or declare sheet=NAME to read one")
    names = name_index(first)
    nameless = [j for j, name in enumerate(names) if not name]
    filled = [
        j for j in nameless if any(row.cell(j) is not None for _, *rows in sheets for row in rows)
    ]
    if filled:
        have = "has" if len(filled) == 1 else "have"
        detail = f"{len(filled)} of {len(first)} columns {have} no name in {sheets[0][0].place}"
        advice = "this row needs all names: remove a second header above them"
        reject("invalid-name", f"{detail}; {advice}", column=filled[0])
    if len(sheets) > 1 and _TASK in first:
        reject("duplicate-column", "a sheet for each task has no column 'task'; remove it")
    return names, nameless


def _percents(
    header: list[str], rows: list[_Row], cells: Mapping[tuple[str, int], Container[int]]
) -> tuple[dict[str, NDArray[np.bool_]], list[str]]:
    """Return which rows show a percentage, of the columns in which any does, and notes."""
    starts = {(row.place.sheet, row.place.column) for row in rows}
    found, notes = {}, []
    for j, name in enumerate(header):
        if not any((sheet, column + j) in cells for sheet, column in starts):
            continue
        numbers = [isinstance(row.cell(j), int | float) for row in rows]
        places = [((row.place.sheet, row.place.column + j), row.place.row) for row in rows]
        shown = [row in cells.get(column, ()) for column, row in places]
        percents = np.array(shown) & np.array(numbers)
        if name and percents.any():
            found[name] = percents
            n_shown, n = percents.sum(), sum(numbers)
            some = "numbers" if n_shown == n else f"{n_shown} of {n} numbers"
            notes.append(f"{some} of column '{name}' {_PERCENT}")
    return found, notes


def _text(cell: Any) -> str:
    """Return the text of a name: 2020, not 2020.0."""
    return str(int(cell) if _is_whole(cell) else cell).strip()


def _is_whole(cell: Any) -> bool:
    """Return whether a cell is a number that is exactly an integer."""
    return (
        isinstance(cell, int | float)
        and not isinstance(cell, bool)
        and abs(cell) <= MAX_EXACT_INTEGER
        and cell == int(cell)
    )


def _table(
    header: list[str],
    rows: list[_Row],
    notes: list[str],
    options: ReadOptions,
    *,
    has_tasks: bool,
) -> tuple[pa.Table, dict[str, Sequence[Any]]]:
    """Return the rows of all sheets, and mixed columns.

    Rows of several sheets have the column ``task``.
    Notes about cells of several types are added to ``notes``.
    """
    columns = [pa.array([row.place.sheet for row in rows], pa.string())] if has_tasks else []
    issues, labels = ValidationIssues(), options.labels()
    mixed: dict[str, Sequence[Any]] = {}

    def place_of(row: int) -> str:
        return str(rows[row].place)

    for j, name in enumerate(header):
        if not name:
            continue  # neither a name nor values
        column: Any = pa.nulls(len(rows))
        with issues.collect():
            values, found = unify([row.cell(j) for row in rows], name, options.markers)
            notes += found
            column = column_of(values, name, place_of, are_labels=name in labels)
            if name not in labels and are_mixed(values):
                mixed[name] = values
        columns.append(column)
    issues.check()
    names = [*filter(None, header)]
    return pa.Table.from_arrays(columns, names=[_TASK, *names] if has_tasks else names), mixed


@contextmanager
def _places_of(rows: list[_Row]) -> Iterator[None]:
    """Let the issues of rows name their sheet and row of Excel."""
    try:
        yield
    except Rejected as rejected:
        raise Rejected(*(_placed(issue, rows) for issue in rejected.issues)) from None


def _placed(issue: ValidationIssue, rows: list[_Row]) -> ValidationIssue:
    """Return an issue with the sheet and the row of Excel in its message."""
    if issue.row is None or issue.row >= len(rows):
        return issue
    detail = issue.detail.removeprefix(f"row {issue.row}, ")
    return replace(issue, detail=f"{rows[issue.row].place}, {detail}")
