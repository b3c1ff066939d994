"""The encoder: values of a raw column as the numbers that a model takes.

Uploads, rows for a model and estimators encode columns here, so that equal values become equal
numbers in training and in calls, in every format. Text is read by the rules in
:mod:`algorithms.wrappers.preparation.text_values`, each different text once. Many different texts
that are all plain numbers or dates are read by Arrow (:mod:`.texts`): faster, with equal results.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation import text_values as rules
from algorithms.wrappers.preparation.columns import (
    PLAIN_NUMBERS,
    UNKNOWN_LEVEL,
    Column,
    ColumnKind,
)
from algorithms.wrappers.preparation.invalid_column import (
    MAX_PROBLEMS,
    PLURALS,
    InvalidColumn,
    Problem,
    reject_values,
)
from algorithms.wrappers.preparation.texts import Texts, plain_dates, plain_numbers
from algorithms.wrappers.preparation.written_numbers import (
    as_plain,
    is_ambiguous,
    shown_decimal,
    with_decimal,
)

Values: TypeAlias = NDArray[np.float64]
#: Up to so many rows, and below so many different texts, Python is faster than Arrow.
_FEW_ROWS: Final = 50
_MANY_TEXTS: Final = 100
#: Texts of a column that are looked at for the decimal separator.
_MAX_LOOKED_AT: Final = 10_000
#: Maximum number of unknown values of a column that are collected, and of their letters.
MAX_UNKNOWN_LEVELS: Final = 10
_MAX_LETTERS: Final = 50
#: Unknown values by column, while a caller collects them.
_UNKNOWN: Final[ContextVar[dict[str, list[str]] | None]] = ContextVar("unknown", default=None)
#: Numbers may be 0 and 1 in a column of booleans, and 20240131 in one of dates.
_NUMBERS_FOR: Final = ("boolean", "date")


def encode(
    values: pa.ChunkedArray | Texts | NDArray[Any] | Sequence[Any],
    column: Column,
    *,
    decimal: str | None = None,
) -> Values:
    """Return the values of a raw column as numbers, with NaN for missing ones.

    Parameters
    ----------
    values
        A column of Arrow, its texts, an array of numbers; or numbers, texts, booleans, dates and
        None. Blank text is a missing value, as is text such as NA, unless a category has it.
    decimal
        The decimal separator that the rows show, if it is another one than that of the column.

    Returns
    -------
    (n_values,)

    Raises
    ------
    InvalidColumn
        Values are not of the column's kind, infinite, or integers that a float64 does not hold.
    """
    if isinstance(values, pa.ChunkedArray) and is_text(values.type):
        is_few = len(values) <= _FEW_ROWS
        values = values.to_pylist() if is_few else Texts.of(values, column.name)
    if decimal is None and column.kind == "number" and column.numbers.decimal != ".":
        decimal = _shown_in(values)
    encoded = _encode(values, column, _Writing.of(column, decimal))
    if column.missing and column.kind == "number":
        return without_markers(encoded, column.missing)
    return encoded


def find_decimal(columns: Iterable[Any], wanted: Sequence[Column]) -> str | None:
    """Return the decimal separator that columns of numbers show in text; None without one.

    Parameters
    ----------
    columns
        Values of each of the columns, as :func:`encode` takes them.
    wanted
        The columns of the model; if all of them have a decimal point, None is returned.
    """
    if all(c.numbers.decimal == "." or c.kind != "number" for c in wanted):
        return None
    pairs = zip(columns, wanted, strict=True)
    numbers = [values for values, column in pairs if column.kind == "number"]
    return shown_decimal([text for values in numbers for text in _first_texts(values)])


def without_markers(numbers: Values, markers: Sequence[str]) -> Values:
    """Return numbers with NaN for those that are equal to a marker of missing values."""
    marked = [n for n in map(rules.read_number, markers) if n is not None]
    return np.where(np.isin(numbers, marked), np.nan, numbers) if marked else numbers


def _encode(
    values: pa.ChunkedArray | Texts | NDArray[Any] | Sequence[Any],
    column: Column,
    writing: "_Writing",
) -> Values:
    if isinstance(values, pa.ChunkedArray):
        return _of_typed(values, column)
    if isinstance(values, Texts):
        return _of_texts(values, writing)
    if isinstance(values, np.ndarray):
        if column.kind == "number" and len(values) > _FEW_ROWS:
            integers = values if values.dtype.kind in "iu" else None
            return _checked(values.astype(np.float64, copy=False), integers, writing)
        values = values.tolist()
    return _of_objects(values, writing)


def _shown_in(values: Texts | NDArray[Any] | Sequence[Any]) -> str | None:
    """Return the decimal separator that texts of a column show, so that all are read alike."""
    return shown_decimal(_first_texts(values))


def _first_texts(values: Any) -> list[str]:
    """Return the texts among the first values of a column."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OU":
        return []
    if isinstance(values, pa.ChunkedArray) and not is_text(values.type):
        return []
    few = (values.levels if isinstance(values, Texts) else values)[:_MAX_LOOKED_AT]
    texts = few.to_pylist() if isinstance(few, pa.Array | pa.ChunkedArray) else few
    return [text for text in texts if isinstance(text, str)]


@contextmanager
def collect_unknown(unknown: dict[str, list[str]]) -> Iterator[None]:
    """Add the unknown values of categories that are encoded inside to lists by column."""
    token = _UNKNOWN.set(unknown)
    try:
        yield
    finally:
        _UNKNOWN.reset(token)


def find_levels(values: pa.ChunkedArray) -> tuple[str, ...]:
    """Return the levels of a category that has these values."""
    levels = {rules.level_of(value) for value in _distinct(values)[0]}
    return tuple(sorted(level for level in levels if level))


def is_text(type_: pa.DataType) -> bool:
    """Return whether values of a type are text."""
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    is_plain = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    return bool(is_plain or pa.types.is_string_view(type_))


def kind_of_type(type_: pa.DataType) -> ColumnKind | None:
    """Return the kind of all values of a type; None for text, nulls and types without a kind."""
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    return "date" if pa.types.is_timestamp(type_) or pa.types.is_date(type_) else None


# --- values one by one ---------------------------------------------------------------------------


class _Writing(NamedTuple):
    """A column, and how its text is written.

    Attributes
    ----------
    positions
        Positions of the levels of a category.
    takes_point
        Whether numbers may have a decimal point, too, where it cannot be one of thousands.
    """

    column: Column
    positions: Mapping[str, float]
    markers: frozenset[str]
    takes_point: bool

    @classmethod
    def of(cls, column: Column, decimal: str | None) -> "_Writing":
        """Return the writing of a column in rows that may show another decimal separator."""
        takes_point = decimal is None and column.numbers.decimal != "."
        if decimal is not None and decimal != column.numbers.decimal:
            column = replace(column, numbers=with_decimal(column.numbers, decimal))
        markers = rules.MARKERS.union(column.missing) if column.missing else rules.MARKERS
        return cls(column, _positions_of(column.levels), markers, takes_point)


@lru_cache(1024)
def _positions_of(levels: tuple[str, ...]) -> Mapping[str, float]:
    return {level: float(i) for i, level in enumerate(levels)}


def _of_objects(values: Sequence[Any], writing: _Writing) -> Values:
    plain = _plain_numbers(values, writing.column) if len(values) > _FEW_ROWS else None
    if plain is not None:
        return plain
    numbers = _read(values, writing)
    if None in numbers:
        wrong = (row for row, number in enumerate(numbers) if number is None)
        reject_values(((row, values[row]) for row in wrong), writing.column)
    return np.array(numbers, dtype=np.float64)


def _plain_numbers(values: Sequence[Any], column: Column) -> Values | None:
    """Return the numbers of texts that :func:`_read` would read as they are, faster; else None."""
    if column.kind != "number" or column.numbers != PLAIN_NUMBERS:
        return None
    try:
        if "".join(values).strip(rules.PLAIN_CHARACTERS):  # there are others, too
            return None
        numbers = np.fromiter(map(float, values), float, len(values))
    except (TypeError, ValueError):  # no text, or no number
        return None
    return numbers if (np.abs(numbers) < MAX_EXACT_INTEGER).all() else None


def _read(values: Iterable[Any], writing: _Writing) -> list[float | None]:
    """Return objects as numbers; None for those that are not of the column's kind."""
    read_text, read_value = _TEXTS[writing.column.kind], _VALUES[writing.column.kind]
    numbers: list[float | None] = []
    for value in values:
        if isinstance(value, str):
            number = read_text(value, writing)
            if number is None and rules.is_missing(value, writing.markers):
                number = math.nan
        else:
            number = math.nan if value is None else read_value(value, writing)
        numbers.append(number)
    return numbers


def _number(value: Any, _: _Writing) -> float | None:
    if type(value) is float:
        return _finite(value)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return None
    is_exact = isinstance(value, float | np.floating) or not rules.is_inexact(value)
    return _finite(float(value)) if is_exact else None


def _finite(number: float | None) -> float | None:
    return None if number is None or math.isinf(number) else number


def _text_number(text: str, writing: _Writing) -> float | None:
    number = rules.read_number(text, writing.column.numbers)
    if number is None and writing.takes_point and not is_ambiguous(text):
        number = rules.read_number(text)
    if number is None or -MAX_EXACT_INTEGER < number < MAX_EXACT_INTEGER:
        return number
    is_inexact = rules.is_inexact(as_plain(text.strip(), writing.column.numbers))
    return None if is_inexact else _finite(number)


def _boolean(value: Any, _: _Writing) -> float | None:
    if isinstance(value, float) and math.isnan(value):
        return value
    is_bit = isinstance(value, bool | int | float | np.number) and value in (0, 1)
    return float(value) if is_bit else None


def _date(value: Any, _: _Writing) -> float | None:
    if isinstance(value, float) and math.isnan(value):
        return value
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return rules.compact_seconds(float(value))
    return rules.seconds_of(value) if isinstance(value, date) else None


def _category(value: Any, writing: _Writing) -> float | None:
    if isinstance(value, str) and value in writing.positions:
        return writing.positions[value]
    level = rules.level_of(value)
    if not level:
        return None if level is None else math.nan
    position = writing.positions.get(level)
    if position is not None:
        return position
    if level in writing.markers:
        return math.nan
    unknown = _UNKNOWN.get()
    if unknown is not None:
        levels = unknown.setdefault(writing.column.name, [])
        short = level[:_MAX_LETTERS]
        if short not in levels and len(levels) < MAX_UNKNOWN_LEVELS:
            levels.append(short)
    return UNKNOWN_LEVEL


_Read: TypeAlias = Callable[[Any, _Writing], float | None]
_VALUES: Final[dict[ColumnKind, _Read]] = {
    "number": _number,
    "boolean": _boolean,
    "date": _date,
    "category": _category,
}
_TEXTS: Final[dict[ColumnKind, _Read]] = {
    "number": _text_number,
    "boolean": lambda text, _: rules.read_boolean(text),
    "date": lambda text, writing: rules.read_date(text, writing.column.dates),
    "category": _category,
}

# --- columns -------------------------------------------------------------------------------------


def _of_texts(texts: Texts, writing: _Writing) -> Values:
    kind = writing.column.kind
    levels: Values | None = None
    if len(texts.levels) >= _MANY_TEXTS and kind == "number":
        levels = plain_numbers(texts, writing.column.numbers)
    elif len(texts.levels) >= _MANY_TEXTS and kind == "date":
        levels = plain_dates(texts, writing.column.dates)
    if levels is None:
        numbers = _read(texts.levels.to_pylist(), writing)
        if None in numbers:
            is_wrong = np.array([number is None for number in numbers])
            reject_values(texts.rows_of(is_wrong, MAX_PROBLEMS), writing.column)
        levels = np.array(numbers, dtype=np.float64)
    encoded: Values = levels[texts.positions]
    return encoded


def _of_typed(values: pa.ChunkedArray, column: Column) -> Values:
    """Return values of any type but text as numbers."""
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    found, wanted = kind_of_type(values.type), column.kind
    is_number = found == "number" and wanted in _NUMBERS_FOR
    if found is None or (wanted not in (found, "category") and not is_number):
        detail = f"column '{column.name}' has type {values.type}; expected {PLURALS[wanted]}"
        code = "unsupported-dtype" if found is None else "not-of-kind"
        raise InvalidColumn(Problem(code, detail, column.name))
    writing = _Writing.of(column, None)
    if wanted == "category":
        distinct, positions = _distinct(values)
        levels: Values = np.array(_read(distinct, writing), np.float64)
        return np.take(levels, positions)
    values = _plain(values)
    if wanted == "date":
        return _seconds(values) if found == "date" else _of_objects(values.to_pylist(), writing)
    if len(values) <= _FEW_ROWS and not pa.types.is_decimal(values.type):
        return _of_objects(values.to_pylist(), writing)
    if found == "boolean":
        return _floats(values.cast(pa.uint8()))
    integers = values if pa.types.is_integer(values.type) else None
    return _checked(_floats(values), integers, writing)


def _checked(numbers: Values, integers: Any, writing: _Writing) -> Values:
    """Return numbers of a column, which are exact, finite, and bits for booleans.

    Parameters
    ----------
    integers
        The same numbers as an array or a column of Arrow, if they are integers.
    """
    if writing.column.kind == "boolean":
        is_doubtful = ~((numbers == 0) | (numbers == 1) | np.isnan(numbers))
    else:
        is_doubtful = np.abs(numbers) >= (math.inf if integers is None else MAX_EXACT_INTEGER)
    if is_doubtful.any():  # one by one, to say which are wrong
        given = numbers if integers is None else integers
        values = given.tolist() if isinstance(given, np.ndarray) else given.to_pylist()
        return _of_objects(values, writing)
    return numbers


def _distinct(values: pa.ChunkedArray) -> tuple[list[Any], NDArray[Any]]:
    """Return the different values of a column, and the position of each row's value in them."""
    if is_text(values.type):
        texts = Texts.of(values, "")
        return texts.levels.to_pylist(), texts.positions
    values, kind = _plain(values), kind_of_type(values.type)
    if kind == "date":
        values = pa.chunked_array([values.to_numpy().astype("datetime64[us]")])
    elif not (pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)):
        values = values.cast(pa.float64())
    distinct = values.unique()
    return distinct.to_pylist(), np.asarray(pc.index_in(values, distinct))


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that are in no dictionary."""
    if not pa.types.is_dictionary(values.type):
        return values
    return values.cast(values.type.value_type)


def _seconds(values: pa.ChunkedArray) -> Values:
    """Return moments as seconds since 1970, with NaN for missing ones."""
    moments = values.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.view(np.int64) / rules.MICROSECONDS)


def _floats(values: pa.ChunkedArray) -> Values:
    """Return values as float64, with NaN for missing ones."""
    floats: Values = np.array(values.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    floats[np.isnan(floats)] = np.nan  # one bit pattern, so that equal rows have equal hashes
    return floats
