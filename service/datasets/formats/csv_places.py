"""Places of the rows of a CSV file, found by a second and slow pass, for messages."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from service.datasets.formats.csv_dialect import Dialect
from service.datasets.formats.nameless import is_blank
from service.datasets.issues import Rejected, ValidationIssue, ValidationIssues, reject


@dataclass(frozen=True, slots=True)
class _Record:
    """One record below the header, with the line on which it ends."""

    number: int
    line: int
    cells: list[str]


class Places:
    """The records of a CSV file (RFC 4180), read one by one.

    Parameters
    ----------
    path
        The file, in UTF-8.
    task
        Position of the task column.
    """

    def __init__(self, path: Path, dialect: Dialect, task: int | None) -> None:
        self._path = path
        self._dialect = dialect
        self._task = task
        self._width = len(dialect.header)

    def check(self) -> None:
        """Raise Rejected if quotes are wrong, or a record has too many or too few cells."""
        issues = ValidationIssues()
        for record in self._records():
            if len(record.cells) != self._width and not is_blank(record.cells):
                n_cells = f"{len(record.cells)} cell{'s'[: len(record.cells) != 1]}"
                detail = f"line {record.line} has {n_cells}, the header has"
                mark = " " if self._dialect.has_blanks else self._dialect.delimiter
                advice = f"quote cells that contain {mark!r}, or remove the line if it is no row"
                issues.add("wrong-width", f"{detail} {self._width}; {advice}", row=record.number)
        issues.check()

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Add the line and the task of their rows to the issues of the block."""
        try:
            yield
        except Rejected as rejected:
            raise self._located(rejected) from None

    def _located(self, rejected: Rejected) -> Rejected:
        """Return issues with the line and the task of their rows."""
        wanted = {issue.row for issue in rejected.issues if issue.row is not None}
        if not wanted:
            return rejected
        complete = (record for record in self._records() if len(record.cells) == self._width)
        first = islice(complete, max(wanted) + 1)
        try:
            records = {row: record for row, record in enumerate(first) if row in wanted}
        except Rejected:  # this reader is stricter; the rows before it have their places
            return rejected
        placed = (
            issue
            if issue.row is None or issue.row not in records
            else self._placed(issue, records[issue.row])
            for issue in rejected.issues
        )
        return Rejected(*placed)

    def _placed(self, issue: ValidationIssue, record: _Record) -> ValidationIssue:
        """Return an issue with the line of its record, and with the task unless that is wrong."""
        task = None if self._task is None else record.cells[self._task].strip()
        if issue.column == self._dialect.header[self._task or 0].strip():
            task = issue.task
        place = f"line {record.line}" + ("" if task is None else f", task '{task}'")
        detail = f"{place}, {issue.detail.removeprefix(f'row {issue.row}, ')}"
        return replace(issue, detail=detail, row=record.number, task=task)

    def _records(self) -> Iterator[_Record]:
        """Yield the records below the header, without blank lines."""
        with self._path.open(encoding="utf-8-sig", newline="") as file:
            n_before = self._dialect.n_before
            for _ in range(n_before):
                file.readline()
            reader = csv.reader(file, delimiter=self._dialect.delimiter, strict=True)
            try:
                filled = (cells for cells in reader if cells)
                next(filled, None)
                for number, cells in enumerate(filled):
                    yield _Record(number, n_before + reader.line_num, cells)
            except csv.Error as error:
                detail = f"line {n_before + reader.line_num}: {error}"
                detail += "; see RFC 4180 for how cells are quoted"
                reject("invalid-quoting", detail)
