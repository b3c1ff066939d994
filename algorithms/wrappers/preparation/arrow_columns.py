"""Feature columns of an Arrow table: their kinds, and their values as numbers."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from algorithms.wrappers.preparation.columns import Column, ColumnKind
from algorithms.wrappers.preparation.encoder import encode, find_levels, is_text, kind_of_type
from algorithms.wrappers.preparation.invalid_column import InvalidColumn, Problem
from algorithms.wrappers.preparation.notes import Note
from algorithms.wrappers.preparation.text_dates import are_compact
from algorithms.wrappers.preparation.text_kinds import (
    ReadColumn,
    TextReading,
    check_count,
    read_declared,
    read_text,
)
from algorithms.wrappers.preparation.text_values import compact_seconds, read_number
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_dates import DateOrder

_PLAIN_TEXT: Final = TextReading()
#: Rows in which the first number of a column is looked for.
_FIRST_ROWS: Final = 1000


def read_column(
    column: pa.ChunkedArray | Texts,
    name: str,
    kind: ColumnKind | None,
    *,
    reading: TextReading = _PLAIN_TEXT,
    order: DateOrder | None = None,
) -> ReadColumn:
    """Return the kind of a column, and its values (:mod:`algorithms.wrappers.preparation.columns`).

    Parameters
    ----------
    column
        A column of Arrow, or its texts without missing markers.
    kind
        The declared kind; None: it is found from the values.
    reading
        How text is read.
    order
        The declared order of day and month of dates.

    Raises
    ------
    InvalidColumn
        Its type is not supported, or a value does not have the declared kind.
    """
    empty = ReadColumn(None, notes=(Note(f"column '{name}' has no values and is left out"),))
    if not isinstance(column, Texts) and kind is None and column.null_count == len(column):
        return empty
    if isinstance(column, Texts) or is_text(column.type):
        texts = column if isinstance(column, Texts) else Texts.of(column, name, reading.markers)
        if kind is None and not texts.is_known().any():
            return empty
        if kind is None:
            return read_text(texts, reading)
        return read_declared(texts, kind, reading, order)
    column_kind = kind or kind_of_type(column.type)
    if kind is None and column_kind == "number":
        dates = texts_of_dates(column, name)
        if dates is not None:
            return read_text(dates, reading)
    if column_kind is None:
        detail = f"column '{name}' has values of type {column.type}; expected numbers, text, dates"
        detail += " or booleans"
        raise InvalidColumn(Problem("unsupported-dtype", detail, name))
    levels = find_levels(column) if column_kind == "category" else ()
    check_count(levels, name)
    described = Column(name, column_kind, levels)
    return ReadColumn(described, encode(column, described))


def may_be_dates(column: pa.ChunkedArray) -> bool:
    """Return whether the first number of a column can be a date, such as 20240131."""
    known = column.slice(0, _FIRST_ROWS).drop_null()
    return len(known) > 0 and compact_seconds(float(known[0].as_py())) is not None


def texts_of_dates(column: pa.ChunkedArray, name: str) -> Texts | None:
    """Return the texts of numbers that are all dates such as 20240131; None for other numbers."""
    if not may_be_dates(column):
        return None
    column = decoded(column)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    try:
        texts = Texts.of(column.cast(pa.int64()).cast(pa.string()), name)
    except pa.ArrowInvalid:  # some are not whole
        return None
    return texts if are_compact(texts) else None


def without_marked(column: pa.ChunkedArray, markers: Sequence[str]) -> pa.ChunkedArray:
    """Return a column of numbers in which those equal to a missing marker are null."""
    marked = [number for number in map(read_number, markers) if number is not None]
    if not marked:
        return column
    column = decoded(column)
    is_marked = pc.is_in(column.cast(pa.float64()), pa.array(marked, pa.float64()))
    return pc.if_else(is_marked, pa.scalar(None, column.type), column)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as plain values: not in a dictionary, and text not in views.

    Few functions of Arrow take views, which polars writes.
    """
    type_ = column.type
    if not pa.types.is_dictionary(type_):
        return column.cast(_plain(type_))
    plain = _plain(type_.value_type)
    return column.cast(pa.dictionary(type_.index_type, plain)).cast(plain)


def _plain(type_: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(type_) else type_
