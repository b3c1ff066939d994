"""Feature columns of an Arrow table: their kinds, and their values as numbers."""

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from algorithms.interface.task_values import label_problem
from algorithms.wrappers.preparation.columns import Column, ColumnKind
from algorithms.wrappers.preparation.encoder import (
    Values,
    encode,
    find_levels,
    is_text,
    kind_of_type,
)
from algorithms.wrappers.preparation.invalid_column import InvalidColumn, Problem
from algorithms.wrappers.preparation.text_values import is_iso_date, level_of

#: Text with more distinct values than this, or with hardly any repeated, is not a category.
MAX_LEVELS: Final = 200
MIN_ROWS_PER_LEVEL: Final = 2
#: Text with so few distinct values is a category in any number of rows.
_FEW_LEVELS: Final = 20


@dataclass(frozen=True, slots=True)
class Ignored:
    """A column that is left out, and why; ``is_text`` if it could be a category."""

    note: str
    is_text: bool = False


def read_column(
    column: pa.ChunkedArray, name: str, kind: ColumnKind | None, *, finds_dates: bool = False
) -> tuple[Column, Values] | Ignored:
    """Return the kind of a column, and its values (:mod:`algorithms.wrappers.preparation.columns`).

    Parameters
    ----------
    kind
        The declared kind; None: it is found from the values.
    finds_dates
        Whether text that is all ISO dates is dates: the format has no other ones.

    Raises
    ------
    InvalidColumn
        Its type is not supported, or a value does not have the declared kind.
    """
    if kind is None and column.null_count == len(column):
        return Ignored(f"column '{name}' has no values and is left out")
    column_kind = kind or kind_of_type(column.type)
    if column_kind is None and is_text(column.type):
        column = decoded(column)
        column_kind = _kind_of_text(column, finds_dates=finds_dates)
        if column_kind is None:
            n_levels = pc.count_distinct(column).as_py()
            note = f"column '{name}' has {n_levels} different texts in {len(column)} rows"
            return Ignored(f"{note} and is left out", is_text=True)
    if column_kind is None:
        detail = f"column '{name}' has values of type {column.type}; expected numbers, text, dates"
        detail += " or booleans: convert it, or ignore it"
        raise InvalidColumn(Problem("unsupported-dtype", detail, name))
    levels = _levels(column, name) if column_kind == "category" else ()
    described = Column(name, column_kind, levels)
    return described, encode(column, described)


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


def _kind_of_text(column: pa.ChunkedArray, *, finds_dates: bool) -> ColumnKind | None:
    """Return the kind of text: a category if values repeat; None for free text and ids."""
    if finds_dates and _are_dates(column):
        return "date"
    n_levels = pc.count_distinct(column, mode="only_valid").as_py()
    n_values = len(column) - column.null_count
    repeats = n_levels <= MAX_LEVELS and n_values >= MIN_ROWS_PER_LEVEL * n_levels
    return "category" if repeats or n_levels <= _FEW_LEVELS else None


def _are_dates(column: pa.ChunkedArray) -> bool:
    """Return whether all texts are ISO dates that exist."""
    texts = column.unique().drop_null().to_pylist()
    return all(map(is_iso_date, texts))


def _levels(column: pa.ChunkedArray, name: str) -> tuple[str, ...]:
    """Return the levels of a category.

    Raises
    ------
    InvalidColumn
        There are too many, or one cannot be a label.
    """
    levels = find_levels(column)
    if len(levels) > MAX_LEVELS:
        detail = f"column '{name}' has {len(levels)} different values, more than {MAX_LEVELS}"
        advice = "ignore it, or merge rare values"
        raise InvalidColumn(Problem("too-many-levels", f"{detail}; {advice}", name))
    for level in levels:
        problem = label_problem(level)
        if problem is not None:
            row = next(i for i, value in enumerate(column.to_pylist()) if level_of(value) == level)
            detail = f"row {row}, column '{name}': {problem}"
            raise InvalidColumn(Problem("invalid-label", detail, name, row))
    return levels
