"""CSV (RFC 4180) of numbers with an optional header."""

import csv
import io
from typing import Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from service.errors import Problem
from service.inference.call import Body, Call, InferenceResult, raise_invalid_data
from service.inference.formats.table import TASK, TableRows, call_of, columns_of, is_feature
from service.inference.raw_values import is_number

_MAX_LINES: Final = 1_000_000


def read_csv(body: Body, task: str | None, *, has_header: bool | None = None) -> Call:
    """Parse a table.

    Parameters
    ----------
    has_header
        Whether the first line is a header; if None, it is one unless all its cells are numbers.
    """
    # each line becomes a list, which takes many times the memory of a short line
    n_lines = body.count(b"\n") + body.count(b"\r")
    if n_lines > _MAX_LINES:
        detail = f"the table has {n_lines} lines, the maximum is {_MAX_LINES}; send fewer rows"
        raise Problem("too-many-rows", detail)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _raise_malformed(f"invalid UTF-8 at byte {error.start}")
    try:
        records = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        _raise_malformed(str(error))
    records = [record for record in records if record]
    names = _header_of(records, has_header=has_header)
    body_records = records if names is None else records[1:]
    width = len(records[0]) if records else 0
    for i, record in enumerate(body_records):
        if len(record) != width:
            raise_invalid_data(
                f"row {i} has {len(record)} cells; expected {width}, as in the first line", row=i
            )
    tasks = None
    position = names.index(TASK) if names is not None and TASK in names else None
    if position is not None:
        has_numbers = all(is_number(record[position]) for record in body_records)
        position = None if is_feature(task, has_numbers=has_numbers) else position
    if names is not None and position is not None:
        tasks = [record.pop(position) for record in body_records]
        names.pop(position)
        width -= 1
    columns = [_column([record[j] for record in body_records]) for j in range(width)]
    given = None if names is None else tuple(names)
    return call_of(TableRows(given, columns, len(body_records), is_text=True), tasks, task)


def write_csv(result: InferenceResult) -> bytes:
    """Return a header and one line per row; floats keep full precision."""
    columns = columns_of(result)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return text.getvalue().encode()


def _header_of(records: list[list[str]], *, has_header: bool | None) -> list[str] | None:
    if not records:
        return None
    if has_header is None:
        has_header = not all(is_number(cell) for cell in records[0])
    if not has_header:
        return None
    return [cell.strip() for cell in records[0]]


def _column(cells: list[str]) -> NDArray[np.float64] | list[str]:
    """Return the numbers of a column, with NaN for missing ones; the cells if one is not one."""
    if not all(map(is_number, cells)):
        return cells
    return np.array([float(cell) if cell.strip() else np.nan for cell in cells])


def _raise_malformed(why: str) -> NoReturn:
    raise Problem("malformed-body", f"the body is not valid CSV: {why}")
