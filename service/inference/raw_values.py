"""Values of raw columns, as clients send them, written as the numbers that a model takes."""

import math
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column, DateWriting
from service.datasets.formats.csv_dialect import MISSING_MARKERS
from service.datasets.formats.written_dates import parse_date
from service.inference.call import Matrix, raise_invalid_data

_SHOWN: Final = 40
_MARKERS: Final = frozenset(MISSING_MARKERS)
#: Characters of numbers. Python's float() also accepts underscores and digits of other scripts.
_CHARACTERS: Final = frozenset("0123456789+-.eE \t")
_WORDS: Final = {"true": 1.0, "yes": 1.0, "1": 1.0, "false": 0.0, "no": 0.0, "0": 0.0}
#: Kinds of columns whose values are text in JSON.
_TEXT_KINDS: Final = frozenset({"category", "date"})
_EXPECTED: Final = {
    "number": "a number",
    "boolean": "true or false",
    "category": "text",
    "date": "a date such as 2026-01-31",
}


def encode_column(
    values: Sequence[Any],
    column: Column,
    *,
    task: str,
    decimal: str | None = None,
    label: str | int | None = None,
) -> Matrix:
    """Return the values of a raw column as numbers, with NaN for missing ones.

    Parameters
    ----------
    values
        Numbers, text, booleans, dates, or None for a missing value. Blank text is a missing value,
        too, where text can be a value.
    decimal
        The decimal separator of cells of CSV; None if the values have types of their own. In CSV,
        a missing marker such as NA is a missing value, too, unless it is a category of the column.
    label
        What messages call the column; default: its name.

    Returns
    -------
    (n_values,)

    Raises
    ------
    Problem
        A value is not of the column's kind.
    """
    if column.kind == "number" and decimal is not None:
        numbers = [parse_number(cell, decimal) for cell in values]
        if None not in numbers:
            return np.array(numbers, dtype=np.float64)
    encode = _ENCODERS[column.kind]
    label = column.name if label is None else label
    levels = {level: float(i) for i, level in enumerate(column.levels)}
    writing = _Writing(levels, decimal, column.dates)
    missing = {"", *((_MARKERS - levels.keys()) if decimal is not None else ())}
    takes_text = decimal is not None or column.kind in _TEXT_KINDS
    encoded = np.empty(len(values))
    for row, value in enumerate(values):
        is_missing = value is None or (
            takes_text and isinstance(value, str) and value.strip() in missing
        )
        number = math.nan if is_missing else encode(value, writing)
        if number is None:
            raise_invalid_data(
                f"row {row}, column '{label}': expected {_expected(column, decimal)}, "
                f"got {_shown(value)}",
                task=task,
                row=row,
                column=label,
            )
        encoded[row] = number
    return encoded


def parse_number(cell: str, decimal: str = ".") -> float | None:
    """Return the number in a cell of CSV, NaN for a missing value, None if it is neither."""
    number = _parse_float(cell, decimal)
    if number is None and (not cell.strip() or cell.strip() in _MARKERS):
        return math.nan
    return number


class _Writing(NamedTuple):
    """How the values of a column are written.

    Attributes
    ----------
    levels
        Positions of the levels of a category.
    """

    levels: dict[str, float]
    decimal: str | None
    dates: DateWriting


#: Returns a value as a number; None if it is not of the kind.
_Encode: TypeAlias = Callable[[Any, _Writing], float | None]


def _expected(column: Column, decimal: str | None) -> str:
    expected = _EXPECTED[column.kind]
    if column.kind == "number" and decimal == ",":
        return f"{expected} with decimal '{decimal}'"
    dates = column.dates
    if dates.day_first is not None:
        year = "26" if dates.has_short_years else "2026"
        return f"{expected} or {'31/01' if dates.day_first else '01/31'}/{year}"
    return expected


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as in JSON
    if isinstance(value, str) and len(value) > _SHOWN:
        value = value[:_SHOWN] + "..."
    return repr(value)[: 2 * _SHOWN]


def _number(value: Any, writing: _Writing) -> float | None:
    if isinstance(value, str):
        value = None if writing.decimal is None else _parse_float(value, writing.decimal)
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if is_number else None


def _boolean(value: Any, writing: _Writing) -> float | None:
    if isinstance(value, str):
        return None if writing.decimal is None else _WORDS.get(value.strip().lower())
    if isinstance(value, float) and math.isnan(value):
        return value
    return float(value) if value in (0, 1) else None


def _category(value: Any, writing: _Writing) -> float | None:
    if isinstance(value, float):
        if math.isnan(value):
            return value
        value = int(value) if value.is_integer() else value
    if not isinstance(value, str | int | float | np.integer):
        return None
    return writing.levels.get(unicodedata.normalize("NFC", str(value).strip()), UNKNOWN_LEVEL)


def _date(value: Any, writing: _Writing) -> float | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            value = parse_date(value.strip(), writing.dates)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, float) and math.isnan(value):
        return value
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def _parse_float(text: str, decimal: str) -> float | None:
    if decimal != ".":
        text = text.replace(".", "_").replace(decimal, ".")  # a point cannot be a separator then
    if not _CHARACTERS.issuperset(text):
        return None
    try:
        return float(text)
    except ValueError:
        return None


_ENCODERS: Final[dict[str, _Encode]] = {
    "number": _number,
    "boolean": _boolean,
    "category": _category,
    "date": _date,
}
