"""Parser of CSV: one table of all tasks, with a task column, target columns and feature columns.

A table with several target columns and no task column gives one task per target.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, Column, NumberWriting
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from algorithms.wrappers.preparation.number_texts import first_code
from algorithms.wrappers.preparation.texts import Texts
from service.datasets.formats.arrow_table import NO_ROWS, tasks_of
from service.datasets.formats.column_issues import rejected
from service.datasets.formats.csv_blanks import divided_file
from service.datasets.formats.csv_dialect import Dialect, find_dialect
from service.datasets.formats.csv_places import Places
from service.datasets.formats.csv_text import CsvText, has_codes, read_text, split_at_lines
from service.datasets.formats.nameless import (
    empty_notes,
    index_notes,
    is_blank,
    name_index,
    unused_index,
)
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.progress import ReportingFile
from service.datasets.formats.table_columns import TableColumns, find_columns
from service.datasets.issues import ValidationIssues, reject

_NO_HEADER: Final = "; the first line contains numbers, but must contain the column names"
#: A record must fit a block.
_MAX_BLOCK_BYTES: Final = 4 * 1024 * 1024
#: Smaller blocks stay in the CPU cache, but with many columns their arrays become very small.
_BLOCK_BYTES: Final = 1024 * 1024
_MANY_COLUMNS: Final = 100
_SAMPLE_BYTES: Final = 1024 * 1024
#: Decimal separator if it is not known: numbers with a point or a comma are read as text, whose
#: values together show it.
_NO_DECIMAL: Final = "\x01"
#: Each text is in memory once.
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())


def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in a CSV file."""
    text = read_text(path, options.encoding, limits)
    dialect = find_dialect(text.path, options)
    if dialect.has_blanks:
        text = replace(text, path=divided_file(text.path))
    hint = _NO_HEADER if dialect.has_numeric_header else ""
    header = name_index(dialect.header)
    nameless = {j: f"__column_{j}__" for j, name in enumerate(header) if not name.strip()}
    header = [nameless.get(j, name) for j, name in enumerate(header)]
    index = unused_index(header, options)
    ignored = (*options.ignore_column, *index)
    unused = options.model_copy(update={"ignore_column": (*ignored, *nameless.values())})
    roles = find_columns(header, unused, limits, hint=hint)
    if not dialect.has_rows:
        reject("no-rows", NO_ROWS)
    table = _Table(
        text, dialect, roles, options.model_copy(update={"ignore_column": ignored}), nameless
    )
    places = Places(text.path, dialect, roles.task)
    if text.has_odd_quotes:
        places.check()
    issues = ValidationIssues()
    rows = table.filled(table.read(places))
    if table.has_wrong_widths:
        with issues.collect():
            places.check()
    if not rows.num_rows:
        issues.check()  # none is left because all have wrong widths
    if not options.is_inspection:
        with issues.collect(), places.locating():
            table.check_exact(rows)
    # columns to ignore were not read
    read_options = options.model_copy(update={"ignore_column": ()})
    with issues.collect(), places.locating():
        parsed = tasks_of(
            table.with_texts(rows), read_options, limits, is_csv=True, decimal=dialect.decimal
        )
    issues.check()
    notes = (*table.notes(parsed.numbers.common), *index_notes(index), *parsed.notes)
    return replace(parsed, notes=notes, ignored=(*parsed.ignored, *ignored))


@dataclass(slots=True)
class _Table:
    """A table while it is read.

    Attributes
    ----------
    nameless
        Columns without a name, which must be empty, by position.
    integers
        Columns whose cells are integers at the start of the file, none with a leading zero.
    """

    text: CsvText
    dialect: Dialect
    roles: TableColumns
    options: ReadOptions
    nameless: dict[int, str]
    integers: list[str] = field(default_factory=list)
    has_wrong_widths: bool = False
    n_blank: int = 0
    n_missing: int = 0

    def read(self, places: Places) -> pa.Table:
        """Return the rows; columns whose cells are all numbers have a numeric type."""
        kinds = self._sample()
        texts = dict.fromkeys(kinds, _TEXT)
        n_bytes = _BLOCK_BYTES if len(kinds) <= _MANY_COLUMNS else _MAX_BLOCK_BYTES
        try:
            try:
                return self._with_codes(self._read(kinds, n_bytes))
            except pa.ArrowInvalid:
                # a cell after the sample is of another kind: its column is found among all columns;
                # or a record is longer than the block
                return self._read(texts, _MAX_BLOCK_BYTES)
        except pa.ArrowInvalid as error:
            places.check()
            reject("corrupt-file", f"the table cannot be read: {str(error)[:200]}")

    def _with_codes(self, rows: pa.Table) -> pa.Table:
        """Return the rows, with columns of integers as text if codes such as 00123 come later."""
        parts = split_at_lines(self.text.path, pa.cpu_count())
        parts = [(max(start, _SAMPLE_BYTES), end) for start, end in parts]
        find = partial(has_codes, self.text.path, self.dialect.delimiter)
        with ThreadPoolExecutor(len(parts)) as pool:
            if not self.integers or not any(pool.map(find, *zip(*parts, strict=True))):
                return rows
        if codes := self._columns_of_codes():
            texts = self._read(dict.fromkeys(codes, _TEXT), _MAX_BLOCK_BYTES)
            for name in codes:
                rows = rows.set_column(rows.column_names.index(name), name, texts[name])
        return rows

    def _columns_of_codes(self) -> list[str]:
        """Return the columns of integers with codes: block by block, as text takes more memory."""
        types = dict.fromkeys(self.integers, _TEXT)
        self.has_wrong_widths, self.n_blank = False, 0
        found = set[str]()
        with ReportingFile(self.text.path) as file:
            for block in self._parse(file, types, _MAX_BLOCK_BYTES, read=pv.open_csv):
                cells = pa.Table.from_batches([block])
                left = types.keys() - found
                found |= {n for n in left if first_code(Texts.of(cells[n], n)) is not None}
        return sorted(found)

    def filled(self, rows: pa.Table) -> pa.Table:
        """Return the rows without those at the end and without columns that have no value.

        Raises
        ------
        Rejected
            A column without a name has values.
        """
        for j, name in self.nameless.items():
            if _last_value(rows.column(name)) >= 0:
                detail = f"column {j} has values, but an empty name; name it, or remove its values"
                reject("invalid-name", detail, column=j)
        rows = rows.drop_columns([*self.nameless.values()])
        end = rows.slice(rows.num_rows - 1) if rows.num_rows else rows
        if any(_last_value(column) >= 0 for column in end.columns):
            return rows
        n_rows = 1 + max(map(_last_value, rows.columns), default=-1)
        self.n_blank += len(rows) - n_rows
        return rows.slice(0, n_rows)

    def with_texts(self, rows: pa.Table) -> pa.Table:
        """Return the rows, whose text has each different text once; count the missing values."""
        labels = {self.roles.names[i] for i in (self.roles.task, self.roles.group) if i is not None}
        columns = {}
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            columns[name] = column
            if column.type == _TEXT:
                markers = () if name in labels else self.options.markers
                columns[name] = Texts.of(column, name).as_dictionary()
                self.n_missing += Texts.of(columns[name], name, markers).n_missing
            else:
                self.n_missing += column.null_count
        return pa.table(columns)

    def check_exact(self, rows: pa.Table) -> None:
        """Raise Rejected with the integers in columns of numbers that a float64 does not hold.

        Columns with such large numbers are read again as text, which shows whether they are
        integers.
        """
        names = [name for name in rows.column_names if name != self.roles.weight_name]
        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            are_large = [*pool.map(_has_large, map(rows.column, names))]
        large = [name for name, is_large in zip(names, are_large, strict=True) if is_large]
        if not large:
            return
        texts = self._read(dict.fromkeys(large, _TEXT), _MAX_BLOCK_BYTES)
        issues = ValidationIssues()
        for name in large:
            with issues.collect():
                column = Column(name, numbers=self._writing())
                try:
                    encode(Texts.of(texts.column(name), name, self.options.markers), column)
                except InvalidColumn as error:
                    raise rejected(error) from None
        issues.check()

    def _writing(self) -> NumberWriting:
        """Return how numbers of columns with a numeric type are written."""
        is_comma = self.dialect.decimal == ","
        return NumberWriting(",") if is_comma else PLAIN_NUMBERS

    def notes(self, writing: NumberWriting) -> list[str]:
        """Return notes about how the table was read, where it differs from plain CSV."""
        parts = []
        if self.text.compression is not None:
            parts.append(self.text.compression)
        if self.dialect.has_blanks:
            parts.append("cells divided by blanks")
        elif self.dialect.delimiter != ",":
            parts.append(f"delimiter {self.dialect.delimiter!r}")
        if writing.decimal != ".":
            parts.append(f"decimal {writing.decimal!r}")
        if writing.thousands:
            parts.append(f"thousands {writing.thousands!r}")
        if self.text.encoding != "utf-8":
            parts.append(f"encoding {self.text.encoding}")
        markers = ", ".join(map(repr, self.dialect.markers))
        if markers and self.n_missing:
            values = "value" if self.n_missing == 1 else "values"
            parts.append(f"{self.n_missing} missing {values}, such as {markers}")
        notes = [f"read with {', '.join(parts)}"] if parts else []
        if self.dialect.titles:
            titles = ", ".join(map(repr, self.dialect.titles))
            notes.append(f"text above the header is left out: {titles}")
        if self.n_blank:
            lines = "1 line" if self.n_blank == 1 else f"{self.n_blank} lines"
            notes.append(f"{lines} without any value: only delimiters; left out")
        return notes + empty_notes([*self.nameless])

    def _sample(self) -> dict[str, pa.DataType]:
        """Return the types of the used columns, by the start of the file."""
        texts = dict.fromkeys(self._texts() & {*self._used()}, _TEXT)
        with self.text.path.open("rb") as file:
            data = file.read(_SAMPLE_BYTES)
            if file.read(1):
                data = data[: data.rfind(b"\n") + 1] or data
        try:
            source = pa.BufferReader(data)
            schema = self._parse(source, texts, _MAX_BLOCK_BYTES, columns=self._used()).schema
        except pa.ArrowInvalid:
            return dict.fromkeys(self._used(), _TEXT)
        types = {name: schema.field(name).type for name in self._used()}
        whole = [name for name, type_ in types.items() if pa.types.is_integer(type_)]
        if whole:
            cells = self._parse(
                pa.BufferReader(data), dict.fromkeys(whole, _TEXT), _MAX_BLOCK_BYTES, columns=whole
            )
            # codes would lose their leading zeros
            types |= {n: _TEXT for n in whole if first_code(Texts.of(cells[n], n)) is not None}
        self.integers = [name for name in whole if types[name] != _TEXT]
        return {name: _wide(type_) for name, type_ in types.items()}

    def _texts(self) -> set[str]:
        """Return the columns whose cells are kept as they are written."""
        roles = (self.roles.task, self.roles.group, *self.roles.targets)
        declared = {name for name, kind in self.options.kinds().items() if kind != "number"}
        return {self.roles.names[i] for i in roles if i is not None} | declared

    def _used(self) -> list[str]:
        ignored = {*self.options.ignore_column}
        return [name for name in self.roles.names if name not in ignored]

    def _read(self, types: dict[str, pa.DataType], block_bytes: int) -> pa.Table:
        """Return columns of all rows, read by several threads if the file is large."""
        parts = split_at_lines(self.text.path, pa.cpu_count())
        is_certain = len(parts) == 1 or not self.text.has_quotes  # each line is a record
        try:
            table = self._read_parts(parts, types, block_bytes)
            if is_certain or not self.has_wrong_widths:
                return table
        except pa.ArrowInvalid:
            if is_certain:
                raise
        # the halves of a value that is divided are in rows that are too short
        return self._read_parts([(0, parts[-1][1])], types, block_bytes)

    def _read_parts(
        self, parts: list[tuple[int, int]], types: dict[str, pa.DataType], block_bytes: int
    ) -> pa.Table:
        self.has_wrong_widths, self.n_blank = False, 0

        def read(file: ReportingFile) -> pa.Table:
            return self._parse(file, types, block_bytes, has_header=file.start == 0)

        with ExitStack() as stack, ThreadPoolExecutor(len(parts)) as pool:
            files = [stack.enter_context(ReportingFile(self.text.path, *part)) for part in parts]
            tables = [*pool.map(read, files)]
        return pa.concat_tables(tables).unify_dictionaries()

    def _parse(
        self,
        source: Any,
        types: dict[str, pa.DataType],
        block_bytes: int,
        *,
        columns: list[str] | None = None,
        has_header: bool = True,
        read: Callable[..., Any] = pv.read_csv,
    ) -> Any:
        """Return some columns, by default the columns whose types are given."""
        return read(
            source,
            read_options=pv.ReadOptions(
                use_threads=False,  # parts are read by threads, with less time in all
                block_size=block_bytes,
                column_names=list(self.roles.names),  # as find_columns writes them
                skip_rows=self.dialect.n_before if has_header else 0,
                skip_rows_after_names=1 if has_header else 0,
            ),
            parse_options=pv.ParseOptions(
                delimiter=self.dialect.delimiter,
                newlines_in_values=self.text.has_quotes,
                invalid_row_handler=self._skip,
            ),
            convert_options=pv.ConvertOptions(
                column_types=types,
                include_columns=columns or list(types),
                null_values=["", *self.options.markers],
                strings_can_be_null=False,
                decimal_point=self.dialect.decimal or _NO_DECIMAL,
            ),
        )

    def _skip(self, row: Any) -> str:
        if is_blank(row.text.split(self.dialect.delimiter)):
            self.n_blank += 1
        else:
            self.has_wrong_widths = True
        return "skip"


def _wide(type_: pa.DataType) -> pa.DataType:
    """Return the type of a whole column whose start has a type."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return pa.float64()
    return type_ if pa.types.is_boolean(type_) else _TEXT


def _last_value(column: pa.ChunkedArray) -> int:
    """Return the last row with a value, -1 if there is none."""
    has_value = column.is_valid()
    if column.type == _TEXT:
        texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
        has_value = pc.and_kleene(has_value, pc.not_equal(texts, ""))
    places = np.flatnonzero(has_value.to_numpy())
    return int(places[-1]) if len(places) else -1


def _has_large(column: pa.ChunkedArray) -> bool:
    """Return whether a column has numbers that may be rounded integers."""
    if not pa.types.is_floating(column.type):
        return False
    bounds = pc.min_max(column).as_py()
    return max(-(bounds["min"] or 0), bounds["max"] or 0) >= MAX_EXACT_INTEGER
