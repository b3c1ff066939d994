"""Records of a CSV file (RFC 4180), in batches of bounded size, with line numbers."""

import codecs
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, NoReturn

from service.datasets.issues import ValidationIssues, reject

#: Cells per batch: some tens of MB as Python strings, for any width of table.
_BATCH_CELLS: Final = 200_000
_MAX_LINE_BYTES: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive records with as many cells as the header.

    Parameters
    ----------
    numbers
        Zero-based number of each record below the header.
    lines
        One-based number of the line on which each record ends.
    is_plain
        Whether all lines are ASCII without underscores. In others, ``float`` could accept text that
        is not a number in CSV, such as ``1_000``.
    """

    records: list[list[str]]
    numbers: list[int]
    lines: list[int]
    is_plain: bool

    def place(self, i: int) -> str:
        """Return the location of a record for messages."""
        return f"line {self.lines[i]}"


class Records:
    """Reader of a CSV file: first :meth:`header`, then :meth:`batches`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._line = 0
        self._is_plain = True
        self._reader = csv.reader(self._lines(), strict=True)

    def header(self) -> list[str]:
        """Return the first record."""
        try:
            header = next(self._reader, [])
        except csv.Error as error:
            self._reject(error)
        if not header:
            reject("empty-file", "the file is empty; the first line must contain the column names")
        return header

    def batches(self, width: int, issues: ValidationIssues) -> Iterator[Batch]:
        """Yield the records with as many cells as the header; add issues for the others."""
        n_rows = max(1, _BATCH_CELLS // width)
        batch = Batch([], [], [], is_plain=True)
        try:
            for number, record in enumerate(self._reader):
                if len(record) != width:
                    self._check_width(record, number, width, issues)
                    continue
                batch.records.append(record)
                batch.numbers.append(number)
                batch.lines.append(self._line)
                if len(batch.records) == n_rows:
                    yield self._closed(batch)
                    batch = Batch([], [], [], is_plain=True)
        except csv.Error as error:
            self._reject(error)
        if batch.records:
            yield self._closed(batch)

    def _closed(self, batch: Batch) -> Batch:
        is_plain, self._is_plain = self._is_plain, True
        return Batch(batch.records, batch.numbers, batch.lines, is_plain)

    def _check_width(
        self, record: list[str], number: int, width: int, issues: ValidationIssues
    ) -> None:
        if not record:
            return  # a blank line, which many programs write at the end
        issues.add(
            "wrong-width",
            f"line {self._line} has {len(record)} cells, the header has {width}; "
            "quote cells that contain commas",
            row=number,
        )

    def _lines(self) -> Iterator[str]:
        while raw := self._file.readline(_MAX_LINE_BYTES):
            self._line += 1
            if len(raw) == _MAX_LINE_BYTES:
                detail = f"line {self._line} has more than {_MAX_LINE_BYTES} bytes"
                reject("line-too-long", f"{detail}; check that this is a CSV file")
            yield self._decoded(raw)

    def _decoded(self, raw: bytes) -> str:
        if self._line == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            detail = f"line {self._line} is not UTF-8 at byte {error.start}"
            reject("not-utf8", f"{detail}; save the table as UTF-8")
        self._is_plain &= text.isascii() and "_" not in text
        return text

    def _reject(self, error: csv.Error) -> NoReturn:
        reject(
            "invalid-quoting", f"line {self._line}: {error}; see RFC 4180 for how cells are quoted"
        )
