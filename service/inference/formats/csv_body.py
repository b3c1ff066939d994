"""CSV (RFC 4180) with an optional header, in the dialects of uploads."""

import csv
import io
from collections.abc import Sequence
from itertools import compress
from typing import Final, NoReturn

from algorithms.wrappers.preparation.column_matching import clean_name
from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS
from algorithms.wrappers.preparation.text_values import is_number_cell
from algorithms.wrappers.preparation.written_numbers import with_decimal
from service.datasets.formats.csv_blanks import DIVIDER, divide_at_blanks
from service.datasets.formats.csv_dialect import (
    divides_at_runs,
    find_decimal,
    find_delimiter,
    find_preamble,
    lines_of,
)
from service.datasets.formats.nameless import (
    complete_header,
    is_blank,
    is_index,
    name_index,
    without_blank_end,
)
from service.datasets.formats.text_encoding import LEGACY, UTF8, detect_encoding
from service.errors.problems import Problem
from service.inference.call import (
    Body,
    Call,
    InferenceResult,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.formats.table import TableRows, call_of, columns_of
from service.inference.task_column import TaskSource

_MAX_LINES: Final = 1_000_000
_HEAD_BYTES: Final = 64 * 1024
#: Numbers 0, 1, 2, ... in order are a header from this many on.
_MIN_NUMBERED: Final = 3


def read_csv(
    body: Body, tasks: TaskSource, *, has_header: bool | None = None, charset: str | None = None
) -> Call:
    """Parse a table; its delimiter, decimal separator and encoding are found as in uploads.

    Parameters
    ----------
    has_header
        Whether the first line is a header; if None, it is one unless all its cells are numbers that
        are not names of columns of the model.
    charset
        The encoding; if None, it is found.
    """
    # each line becomes a list, which takes many times the memory of a short line
    n_lines = body.count(b"\n") + body.count(b"\r")
    if n_lines > _MAX_LINES:
        detail = f"the table has {n_lines} lines, the maximum is {_MAX_LINES}; send fewer rows"
        raise Problem("too-many-rows", detail)
    text = _decode(body, charset)
    lines = _first_lines(text)
    n_before, declared = find_preamble(lines)
    delimiter = declared or find_delimiter(lines[n_before:])
    text = text[sum(map(len, lines[:n_before])) :]
    if divides_at_runs(lines[n_before:], delimiter, is_given=declared is not None):
        text, delimiter = divide_at_blanks(text), DIVIDER
    try:
        records = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        _raise_malformed(str(error))
    records = without_blank_end([record for record in records if record])
    names = _header_of(records, delimiter, tasks, has_header=has_header)
    body_records = records if names is None else records[1:]
    decimal = find_decimal(_without_labels(names, body_records, tasks), delimiter)
    width = len(records[0] if names is None else names) if records else 0
    for i, record in enumerate(body_records):
        if len(record) != width:
            raise_invalid_data(
                f"row {i} has {len(record)} cells; expected {width}, as in the first line", row=i
            )
    columns = [[record[j] for record in body_records] for j in range(width)]
    if names is not None and "" in names:
        # columns that have neither a name nor values
        kept = [j for j, name in enumerate(names) if name or not is_blank(columns[j])]
        names, columns = [names[j] for j in kept], [columns[j] for j in kept]
    column_names = None if names is None else tuple(names)
    rows = TableRows(column_names, columns, len(body_records), delimiter, decimal)
    return call_of(rows, tasks)


def write_csv(result: InferenceResult) -> bytes:
    """Return a header and one line per row; floats keep full precision."""
    columns = columns_of(result)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return text.getvalue().encode()


def _decode(body: Body, charset: str | None) -> str:
    """Return the text of a body."""
    encoding = charset or detect_encoding(body[:_HEAD_BYTES])
    try:
        text = body.decode(encoding).removeprefix("\ufeff")
        if charset is not None:
            text.encode()  # UTF-7 may have halves of surrogate pairs
    except UnicodeError as error:
        # a mix of UTF-8 beyond ASCII and of other bytes is a mistake
        if charset is None and encoding == UTF8 and body.decode(UTF8, "ignore").isascii():
            return body.decode(LEGACY, "replace")
        place = f" at byte {error.start}" if isinstance(error, UnicodeDecodeError) else ""
        _raise_malformed(f"invalid {encoding.upper()}{place}")
    return text


def _first_lines(text: str) -> list[str]:
    """Return the lines at the start of a text, the first one whole."""
    end = text.find("\n", _HEAD_BYTES) + 1
    return lines_of(text[:end] if end else text)


def _without_labels(
    names: Sequence[str] | None, records: list[list[str]], tasks: TaskSource
) -> list[list[str]]:
    """Return records without tasks, groups and ignored columns, as in uploads."""
    if names is None:
        return records
    labels = {*tasks.names(), *tasks.options().labels()}
    is_used = [clean_name(name) not in labels for name in names]
    return records if all(is_used) else [[*compress(record, is_used)] for record in records]


def _header_of(
    records: list[list[str]], delimiter: str, tasks: TaskSource, *, has_header: bool | None
) -> list[str] | None:
    if not records:
        return None
    names = name_index([cell.strip() for cell in complete_header(records)])
    if has_header is None:
        has_header = not _are_numbers(records[0], ".") and not _are_numbers(records[0], ",")
        if not has_header:
            has_header = not _are_numbers(records[0], find_decimal(records, delimiter) or ".")
        has_header = has_header or _are_columns(names, records[1:], tasks)
    return names if has_header else None


def _are_columns(names: list[str], rows: list[list[str]], tasks: TaskSource) -> bool:
    """Return whether numbers in the first line are columns of the model, each once.

    Fewer than three numbers such as 0 and 1 are rather a row, as others that are not in order.

    Raises
    ------
    Problem
        A row has only such numbers, too, so that the first line may be a row. If the columns are
        numbered from 0 or 1, any whole numbers are such.
    """
    named = [clean_name(name) for name in names if name and not is_index(name)]
    columns = {*named}
    if not rows or not named or len(columns) < len(named) or not all(map(tasks.is_other, named)):
        return False
    is_numbered = len(named) == 1 or columns <= {*map(str, range(len(named) + 1))}
    if is_numbered and (len(named) < _MIN_NUMBERED or named != sorted(named, key=int)):
        return False
    cells = ([cell.strip() for cell in row[-len(named) :]] for row in rows)
    if any(columns.issuperset(c) or (is_numbered and all(map(str.isdigit, c))) for c in cells):
        detail = "the numbers in the first line can be names of columns, or a row: name the columns"
        detail += " in the first line, with a column row_id that numbers the rows; or set the media"
        detail += " type 'text/csv; header=present' or 'text/csv; header=absent'"
        raise_invalid_request("", detail)
    return True


def _are_numbers(cells: list[str], decimal: str) -> bool:
    writing = with_decimal(PLAIN_NUMBERS, decimal)
    return all(is_number_cell(cell, writing) for cell in cells)


def _raise_malformed(why: str) -> NoReturn:
    raise Problem("malformed-body", f"the body is not valid CSV: {why}")
