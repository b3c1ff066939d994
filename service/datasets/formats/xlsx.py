"""Parser of Excel workbooks: one table, or one sheet for each task."""

from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile

import pyarrow as pa
from python_calamine import CalamineError, CalamineWorkbook

from service.datasets.formats.arrow_table import tasks_of
from service.datasets.formats.npz_archive import check_archive_size
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.validation import check_counts
from service.datasets.issues import ValidationIssues, reject

_TASK: Final = "task"
_TYPES: Final[tuple[tuple[type, str, pa.DataType], ...]] = (
    (bool, "a boolean", pa.bool_()),
    (int, "a number", pa.float64()),
    (float, "a number", pa.float64()),
    (datetime, "a date", pa.timestamp("us")),
    (date, "a date", pa.timestamp("us")),
    (str, "text", pa.string()),
)

Rows = list[list[Any]]


def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in a workbook.

    The first row of a sheet has the names of the columns. Several sheets are the tasks of these
    names, with the same columns.

    Raises
    ------
    Rejected
        With all issues, up to a maximum number.
    """
    check_archive_size(path, limits)
    try:
        book = CalamineWorkbook.from_path(str(path))
        sheets = {
            name: rows
            for name in book.sheet_names
            if (rows := book.get_sheet_by_name(name).to_python(skip_empty_area=True))
        }
    except (CalamineError, BadZipFile, OSError, ValueError) as error:
        reject("corrupt-file", f"the file is not a readable workbook: {error}")
    if not sheets:
        reject("empty-file", "the workbook has no sheet with cells")
    return tasks_of(_table(sheets, limits), options, limits)


def _table(sheets: dict[str, Rows], limits: Limits) -> pa.Table:
    """Return the rows of all sheets; of several sheets, with the column ``task``."""
    header = [str(cell).strip() for cell in next(iter(sheets.values()))[0]]
    check_counts(1, len(header), limits)
    rows: Rows = []
    for name, (first, *rest) in sheets.items():
        own = [str(cell).strip() for cell in first]
        if own != header:
            detail = f"sheet '{name}' has the columns {own[:20]}, but the first sheet {header[:20]}"
            reject("wrong-width", f"{detail}; all sheets need the same columns in the same order")
        rows += rest if len(sheets) == 1 else [[name, *row] for row in rest]
    if len(sheets) > 1:
        if _TASK in header:
            reject("duplicate-column", "a sheet for each task has no column 'task'; remove it")
        header = [_TASK, *header]
    issues = ValidationIssues()
    columns = []
    for j, name in enumerate(header):
        column: Any = pa.nulls(len(rows))
        with issues.collect():
            column = _column([row[j] if j < len(row) else None for row in rows], name)
        columns.append(column)
    issues.check()
    return pa.Table.from_arrays(columns, names=header)


def _column(values: list[Any], name: str) -> pa.Array:
    """Return the cells of a column, which have one type; empty ones are missing."""
    cells = [None if value == "" else value for value in values]
    found: tuple[int, str, pa.DataType] | None = None
    for row, value in enumerate(cells):
        if value is None:
            continue
        if isinstance(value, time):
            reject("unsupported-dtype", f"row {row}, column '{name}' is a time of day", row=row)
        what, type_ = next((w, t) for kind, w, t in _TYPES if isinstance(value, kind))
        if found is None:
            found = row, what, type_
        elif found[1] != what:
            detail = f"column '{name}' has {found[1]} in row {found[0]} and {what} in row {row}"
            reject("mixed-types", f"{detail}; write all cells in one way", row=row, column=name)
    return pa.nulls(len(cells)) if found is None else pa.array(cells, found[2])
