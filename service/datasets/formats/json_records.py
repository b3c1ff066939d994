"""Parser of JSON: a list of records, records by task, or one record a line."""

import codecs
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow as pa

from service.datasets.formats.arrow_table import tasks_of
from service.datasets.formats.csv_text import read_text
from service.datasets.formats.json_strict import check_strictly, reject_invalid
from service.datasets.formats.nameless import index_name
from service.datasets.formats.object_columns import column_of, unify
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.progress import report_progress
from service.datasets.formats.text_encoding import UTF8, detect_encoding
from service.datasets.formats.validation import check_counts
from service.datasets.issues import ValidationIssues, reject

Record = dict[str, Any]

_EXPECTED: Final = (
    'expected a list of records such as [{"task": "a", "x": 1}] (orient="records" of pandas), or '
    '{"a": [records of task a]}'
)
_TASK: Final = "task"
_HEAD_BYTES: Final = 4096
_LINES_PER_REPORT: Final = 1000
#: Message of orjson if an allocation fails.
_NO_MEMORY: Final = "Not enough memory"


def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in a JSON document."""
    return _tasks_of(_read(_in_utf8(path, limits), options, limits), options, limits)


def parse_lines(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in a file with one JSON record on each line."""
    path = _in_utf8(path, limits)
    with path.open("rb") as file:
        is_list = file.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"["
    if is_list:
        return _tasks_of(_read(path, options, limits), options, limits)
    return _tasks_of(_table(list(_lines(path)), options, limits), options, limits)


def has_lines(text: bytes | bytearray) -> bool:
    """Return whether a text that is no JSON has a record on its first line, and more lines."""
    first, _, rest = bytes(text).partition(b"\n")
    try:
        return isinstance(orjson.loads(first), dict) and bool(rest.strip())
    except orjson.JSONDecodeError:
        return False


def _in_utf8(path: Path, limits: Limits) -> Path:
    """Return a file of JSON in UTF-8, as it is or copied next to it."""
    with path.open("rb") as file:
        is_utf8 = detect_encoding(file.read(_HEAD_BYTES)) == UTF8
    return path if is_utf8 else read_text(path, None, limits).path


def _tasks_of(read: tuple[pa.Table, list[str]], options: ReadOptions, limits: Limits) -> Parsed:
    table, notes = read
    parsed = tasks_of(table, options, limits)
    return replace(parsed, notes=(*notes, *parsed.notes))


def _read(path: Path, options: ReadOptions, limits: Limits) -> tuple[pa.Table, list[str]]:
    try:
        text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if _NO_MEMORY in str(error):
            raise MemoryError from None
        if has_lines(text):
            return _table(list(_lines(path)), options, limits)
        reject_invalid(error, "the file")
    read = _table(_records(document, options.task_column), options, limits)
    check_strictly(text, document)
    return read


def _lines(path: Path) -> Iterator[Record]:
    n_bytes, size, row = 0, path.stat().st_size, 0
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for number, line in enumerate(file, start=1):
            n_bytes += len(line)
            if number % _LINES_PER_REPORT == 0:
                report_progress(n_bytes / size)
            if not line.strip():
                continue
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                reject_invalid(error, f"line {number}")
            if not isinstance(record, dict):
                reject("corrupt-file", f"line {number} is not an object")
            check_strictly(line, record, first_row=row)
            row += 1
            yield record


def _records(document: Any, task_column: str | None) -> list[Record]:
    """Return the records of a document; records by task get a column with their task."""
    if isinstance(document, dict):
        records = []
        for task, rows in document.items():
            for record in _as_records(rows, f"task '{task}': "):
                if _TASK in record:
                    reject("duplicate-column", f"task '{task}': a record has a field 'task', too")
                if task_column in record:
                    detail = f"the records of '{task}' have the task column '{task_column}', too"
                    reject("duplicate-column", f"{detail}; upload the list of records alone")
                records.append({_TASK: task, **record})
        return records
    return list(_as_records(document, ""))


def _as_records(rows: Any, where: str) -> list[Record]:
    if not isinstance(rows, list):
        reject("corrupt-file", f"{where}{_EXPECTED}")
    for row, record in enumerate(rows):
        if not isinstance(record, dict):
            reject("corrupt-file", f"{where}row {row} is not a record; {_EXPECTED}", row=row)
    return rows


def _table(
    records: list[Record], options: ReadOptions, limits: Limits
) -> tuple[pa.Table, list[str]]:
    """Return records as a table, and notes; a field that a record does not have is missing."""
    if not records:
        reject("no-rows", "the file has no records")
    names = list(dict.fromkeys(name for record in records for name in record))
    check_counts(1, len(names), limits)
    issues = ValidationIssues()
    columns, notes, labels = {}, [], options.labels()
    for name in names:
        values, found = unify([record.get(name) for record in records], name, options.markers)
        notes += found
        with issues.collect():
            columns[name or index_name(0)] = column_of(values, name, are_labels=name in labels)
    issues.check()
    return pa.table(columns), notes
