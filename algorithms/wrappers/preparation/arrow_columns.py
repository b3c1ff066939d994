"""Feature columns of an Arrow table: their kinds, and their values as numbers."""

import pyarrow as pa

from algorithms.wrappers.preparation.columns import Column, ColumnKind
from algorithms.wrappers.preparation.encoder import encode, find_levels, is_text, kind_of_type
from algorithms.wrappers.preparation.invalid_column import InvalidColumn, Problem
from algorithms.wrappers.preparation.notes import Note
from algorithms.wrappers.preparation.text_kinds import (
    ReadColumn,
    TextReading,
    check_count,
    read_declared,
    read_text,
)
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_dates import DateOrder

_PLAIN_TEXT = TextReading()


def read_column(
    column: pa.ChunkedArray,
    name: str,
    kind: ColumnKind | None,
    *,
    reading: TextReading = _PLAIN_TEXT,
    order: DateOrder | None = None,
) -> ReadColumn:
    """Return the kind of a column, and its values (:mod:`algorithms.wrappers.preparation.columns`).

    Parameters
    ----------
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
    if kind is None and column.null_count == len(column):
        return ReadColumn(None, notes=(Note(f"column '{name}' has no values and is left out"),))
    if is_text(column.type):
        texts = Texts.of(column, name)
        if kind is None and not texts.is_known().any():
            return ReadColumn(None, notes=(Note(f"column '{name}' has no values and is left out"),))
        if kind is None:
            return read_text(texts, reading)
        return read_declared(texts, kind, reading, order)
    column_kind = kind or kind_of_type(column.type)
    if column_kind is None:
        detail = f"column '{name}' has values of type {column.type}; expected numbers, text, dates"
        detail += " or booleans: convert it, or ignore it"
        raise InvalidColumn(Problem("unsupported-dtype", detail, name))
    levels = find_levels(column) if column_kind == "category" else ()
    check_count(levels, name)
    described = Column(name, column_kind, levels)
    return ReadColumn(described, encode(column, described))


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
