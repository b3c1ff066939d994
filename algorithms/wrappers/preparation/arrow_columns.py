"""Feature columns of an Arrow table: their kinds, and their values as numbers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.task_values import label_problem
from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.columns import Column, ColumnKind

#: Text with more distinct values than this, or with hardly any repeated, is not a category.
MAX_LEVELS: Final = 200
MIN_ROWS_PER_LEVEL: Final = 2
#: Text with so few distinct values is a category in any number of rows.
_FEW_LEVELS: Final = 20
_MICROSECONDS: Final = 1e-6
#: Number of wrong values that are listed.
_MAX_PROBLEMS: Final = 100
#: Words for booleans in text.
_TRUE: Final = frozenset({"true", "yes", "t", "y", "1"})
_FALSE: Final = frozenset({"false", "no", "f", "n", "0"})

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ignored:
    """A column that is left out, and why; ``is_text`` if it could be a category."""

    note: str
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a column, or with its value in a row; the code is that of the service."""

    code: str
    detail: str
    column: str
    row: int | None = None


class InvalidColumn(InvalidData):
    """A column cannot be used; ``problems`` lists why, up to a maximum number."""

    def __init__(self, *problems: Problem) -> None:
        first = problems[0]
        super().__init__(first.detail, column=first.column, row=first.row)
        self.problems = problems

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error: its message alone makes none."""
        return type(self), self.problems, vars(self)


def read_column(
    column: pa.ChunkedArray, name: str, kind: ColumnKind | None
) -> tuple[Column, Values] | Ignored:
    """Return the kind of a column, and its values (:mod:`algorithms.wrappers.preparation.columns`).

    Parameters
    ----------
    kind
        The declared kind; None: it is found from the values.

    Raises
    ------
    InvalidColumn
        Its type is not supported, or a value does not have the declared kind.
    """
    column = decoded(column)
    column_kind = kind or _kind_of(column.type, name)
    if kind is None and column.null_count == len(column):
        return Ignored(f"column '{name}' has no values and is left out")
    if column_kind is None:
        column_kind = _kind_of_text(column)
    if column_kind is None:
        n_levels = pc.count_distinct(column).as_py()
        note = f"column '{name}' has {n_levels} different texts in {len(column)} rows"
        return Ignored(f"{note} and is left out", is_text=True)
    return _READERS[column_kind](column, name)


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


def _kind_of(type_: pa.DataType, name: str) -> ColumnKind | None:
    """Return the kind of all values of a type; None for text."""
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return "date"
    if not (pa.types.is_null(type_) or is_text(type_)):
        detail = f"column '{name}' has values of type {type_}; expected numbers, text, dates or"
        _reject("unsupported-dtype", f"{detail} booleans: convert it, or ignore it", column=name)
    return None


def is_text(type_: pa.DataType) -> bool:
    """Return whether values of a type are text."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _kind_of_text(column: pa.ChunkedArray) -> ColumnKind | None:
    """Return ``category`` for text whose values repeat; None for free text and ids."""
    n_levels = pc.count_distinct(column, mode="only_valid").as_py()
    n_values = len(column) - column.null_count
    repeats = n_levels <= MAX_LEVELS and n_values >= MIN_ROWS_PER_LEVEL * n_levels
    return "category" if repeats or n_levels <= _FEW_LEVELS else None


def _numbers(column: pa.ChunkedArray, name: str) -> tuple[Column, Values]:
    if is_text(column.type):
        column = _cast_text(column, name, pa.float64(), "a number")
    if pa.types.is_integer(column.type):
        bounds = pc.min_max(column).as_py()
        largest = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0))
        if largest > MAX_EXACT_INTEGER:
            detail = f"column '{name}' contains the integer {largest}, above 2**53"
            _reject("inexact-integer", f"{detail}; ignore columns of ids", column=name)
    values = _floats(column)
    infinite = np.flatnonzero(np.isinf(values))
    if infinite.size:
        row = int(infinite[0])
        detail = f"row {row}, column '{name}': {values[row]} is not a finite number"
        _reject(
            "not-finite", f"{detail}; leave the cell empty if it is unknown", row=row, column=name
        )
    return Column(name), values


def _booleans(column: pa.ChunkedArray, name: str) -> tuple[Column, Values]:
    if is_text(column.type):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        is_true = pc.is_in(words, pa.array(sorted(_TRUE)))
        is_known = pc.or_(is_true, pc.is_in(words, pa.array(sorted(_FALSE))))
        _check_all(column, pc.or_(is_known, pc.is_null(column)), name, "a boolean")
        column = pc.if_else(pc.is_null(column), pa.scalar(None, pa.bool_()), is_true)
    elif not pa.types.is_boolean(column.type):
        numbers = _floats(column)
        is_bit = np.isnan(numbers) | (numbers == 0) | (numbers == 1)
        _check_all(column, pa.array(is_bit), name, "a boolean")
        return Column(name, "boolean"), numbers
    return Column(name, "boolean"), _floats(column.cast(pa.uint8()))


def _dates(column: pa.ChunkedArray, name: str) -> tuple[Column, Values]:
    if is_text(column.type):
        column = _cast_text(column, name, pa.timestamp("us"), "a date such as 2026-01-31")
    elif not (pa.types.is_timestamp(column.type) or pa.types.is_date(column.type)):
        detail = f"column '{name}' has values of type {column.type}, expected dates"
        _reject("not-of-kind", detail, column=name)
    instants = column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)), safe=False)
    return Column(name, "date"), _floats(instants.cast(pa.int64())) * _MICROSECONDS


def _categories(column: pa.ChunkedArray, name: str) -> tuple[Column, Values]:
    texts = column if is_text(column.type) else column.cast(pa.string())
    texts = pc.utf8_trim_whitespace(pc.utf8_normalize(texts, "NFC"))
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    levels = sorted(level for level in pc.unique(texts).to_pylist() if level is not None)
    if len(levels) > MAX_LEVELS:
        detail = f"column '{name}' has {len(levels)} different values, more than {MAX_LEVELS}"
        _reject("too-many-levels", f"{detail}; ignore it, or merge rare values", column=name)
    for level in levels:
        problem = label_problem(level)
        if problem is not None:
            row = int(pc.index(texts, level).as_py())
            detail = f"row {row}, column '{name}': {problem}"
            _reject("invalid-label", detail, column=name, row=row)
    positions = pc.index_in(texts, pa.array(levels, texts.type))
    return Column(name, "category", tuple(levels)), _floats(positions)


_READERS: Final[dict[str, Callable[[pa.ChunkedArray, str], tuple[Column, Values]]]] = {
    "number": _numbers,
    "boolean": _booleans,
    "date": _dates,
    "category": _categories,
}


def _floats(column: Any) -> Values:
    """Return values as float64, with NaN for missing ones."""
    values: Values = np.array(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    values[np.isnan(values)] = np.nan  # one bit pattern, so that equal rows have equal hashes
    return values


def _cast_text(
    column: pa.ChunkedArray, name: str, type_: pa.DataType, what: str
) -> pa.ChunkedArray:
    """Return text as values of a type; empty text is a missing value."""
    trimmed = pc.utf8_trim_whitespace(column)
    trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
    try:
        return trimmed.cast(type_)
    except pa.ArrowInvalid:
        texts = enumerate(trimmed.to_pylist())
        wrong = ((r, t) for r, t in texts if t is not None and not _can_be_cast(t, type_))
        _reject_values(wrong, name, what)


def _can_be_cast(text: str, type_: pa.DataType) -> bool:
    try:
        pa.scalar(text).cast(type_)
    except pa.ArrowInvalid:
        return False
    return True


def _check_all(column: pa.ChunkedArray, is_valid: Any, name: str, what: str) -> None:
    """Raise InvalidColumn with each value that is not valid."""
    if pc.all(is_valid, min_count=0).as_py():
        return
    rows = np.flatnonzero(~np.asarray(is_valid, dtype=bool)).tolist()
    _reject_values(((row, column[row].as_py()) for row in rows), name, what)


def _reject_values(values: Iterator[tuple[int, Any]], name: str, what: str) -> NoReturn:
    """Raise InvalidColumn with the first of the wrong values, given with their rows."""
    problems = []
    for row, value in islice(values, _MAX_PROBLEMS):
        detail = f"row {row}, column '{name}': expected {what}, got {repr(value)[:40]}"
        problems.append(Problem("not-of-kind", detail, name, row))
    raise InvalidColumn(*problems)


def _reject(code: str, detail: str, *, column: str, row: int | None = None) -> NoReturn:
    raise InvalidColumn(Problem(code, detail, column, row))
