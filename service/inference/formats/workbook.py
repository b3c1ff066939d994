"""Excel workbooks: rows of a table, as uploads have them, and tables of outputs."""

import io
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final

from service.datasets.formats.options import Limits
from service.datasets.formats.xlsx import read_table
from service.datasets.issues import Rejected
from service.errors.problems import Problem
from service.inference.call import Body, Call
from service.inference.formats.arrow import rows_of_batches
from service.inference.formats.table import call_of
from service.inference.task_column import TaskSource

#: First year of the dates of Excel.
_FIRST_YEAR: Final = 1900
#: Cells become Python objects, which take many times the memory of their text.
_MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
_LIMITS: Final = Limits(
    decompressed_bytes=_MAX_UNPACKED_BYTES,
    decompression_ratio=100,
    tasks=10_000,
    features=100_000,
    name_length=1000,
)
_CORRUPT: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # of encrypted members
)


def write_workbook(
    columns: Mapping[str, Sequence[Any]], decimals: Mapping[str, int] | None = None
) -> bytes:
    """Return a workbook with one sheet, whose first row has the names of the columns.

    Parameters
    ----------
    decimals
        How many decimals Excel shows of columns; their cells have the whole numbers.
    """
    from openpyxl import Workbook

    book = Workbook(write_only=True)
    sheet = book.create_sheet("predictions")
    sheet.append([_cell(sheet, name) for name in columns])
    shown = [(decimals or {}).get(name) for name in columns]
    for row in zip(*columns.values(), strict=True):
        sheet.append([_cell(sheet, *pair) for pair in zip(row, shown, strict=True)])
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def _cell(sheet: Any, value: Any, decimals: int | None = None) -> Any:
    """Return the content of a cell: a number, a boolean, a date, or text, never a formula."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)  # Excel has no time zones
    if isinstance(value, date) and value.year >= _FIRST_YEAR:
        return value
    if decimals is not None and isinstance(value, float):
        cell = WriteOnlyCell(sheet, value)
        cell.number_format = f"0.{'0' * decimals}" if decimals else "0"
        return cell
    if value is None or isinstance(value, bool | int | float):
        return value
    cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("", str(value)))
    cell.data_type = "s"
    return cell


def read_workbook(body: Body, tasks: TaskSource) -> Call:
    """Parse a workbook with one table, or with a sheet for each task."""
    try:
        options = tasks.options().model_copy(update={"task_column": tasks.column})
        sheets = read_table(_unpacked(body), options, _LIMITS, must_exist=False)
    except Rejected as rejected:
        detail = rejected.issues[0].detail
        if rejected.issues[0].code == "decompression-limit":
            raise Problem("body-too-large", f"{detail}; send fewer rows per request") from None
        raise Problem("malformed-body", f"the body is not a valid workbook: {detail}") from None
    except _CORRUPT as error:
        raise Problem("malformed-body", f"the body is not a workbook: {error}") from None
    rows = rows_of_batches(sheets.table.schema, sheets.table.to_batches())
    pairs = zip(sheets.table.column_names, rows.columns, strict=True)
    columns = [sheets.mixed.get(name, column) for name, column in pairs]
    return call_of(replace(rows, columns=columns, percents=sheets.percents), tasks)


def _unpacked(body: Body) -> io.BytesIO:
    """Return the workbook as an archive that is not compressed.

    The reader would unpack members beyond the sizes that the directory states.
    """
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as packed, zipfile.ZipFile(target, "w") as archive:
        n_bytes = sum(member.file_size for member in packed.infolist())
        if n_bytes > _MAX_UNPACKED_BYTES:
            detail = f"the unpacked workbook has {n_bytes} bytes, the maximum is"
            remedy = "send the rows as CSV or Parquet"
            raise Problem("body-too-large", f"{detail} {_MAX_UNPACKED_BYTES}; {remedy}")
        for member in packed.infolist():
            archive.writestr(member.filename, packed.read(member))
    target.seek(0)
    return target
