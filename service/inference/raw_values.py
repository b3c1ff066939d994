"""Values of raw columns, as clients send them, written as the numbers that a model takes."""

import math
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, Final

import numpy as np

from algorithms.preparation.columns import UNKNOWN_LEVEL, Column
from service.inference.call import Matrix, raise_invalid_data

_SHOWN: Final = 40
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
    is_text: bool = False,
    label: str | int | None = None,
) -> Matrix:
    """Return the values of a raw column as numbers, with NaN for missing ones.

    Parameters
    ----------
    values
        Numbers, text, booleans, dates, or None for a missing value. Blank text is a missing value,
        too, where text can be a value.
    is_text
        Whether all values are text, as in CSV.
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
    encode = _ENCODERS[column.kind]
    label = column.name if label is None else label
    takes_text = is_text or column.kind in _TEXT_KINDS
    levels = {level: float(i) for i, level in enumerate(column.levels)}
    encoded = np.empty(len(values))
    for row, value in enumerate(values):
        is_missing = value is None or (takes_text and isinstance(value, str) and not value.strip())
        number = math.nan if is_missing else encode(value, levels, is_text)
        if number is None:
            raise_invalid_data(
                f"row {row}, column '{label}': expected {_EXPECTED[column.kind]}, "
                f"got {_shown(value)}",
                task=task,
                row=row,
                column=label,
            )
        encoded[row] = number
    return encoded


def is_number(cell: str) -> bool:
    """Return whether a cell of CSV is a number or a missing value (empty, or NaN)."""
    return not cell.strip() or _parse_float(cell) is not None


def _shown(value: Any) -> str:
    if isinstance(value, str) and len(value) > _SHOWN:
        value = value[:_SHOWN] + "..."
    return repr(value)[: 2 * _SHOWN]


def _number(value: Any, levels: dict[str, float], is_text: bool) -> float | None:  # noqa: FBT001 - as in the table
    del levels
    if isinstance(value, str):
        value = _parse_float(value) if is_text else None
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) if is_number else None


def _boolean(value: Any, levels: dict[str, float], is_text: bool) -> float | None:  # noqa: FBT001 - as in the table
    del levels
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower()) if is_text else None
    if isinstance(value, float) and math.isnan(value):
        return value
    return float(value) if value in (0, 1) else None


def _category(value: Any, levels: dict[str, float], is_text: bool) -> float | None:  # noqa: FBT001 - as in the table
    del is_text
    if isinstance(value, float):
        if math.isnan(value):
            return value
        value = int(value) if value.is_integer() else value
    if not isinstance(value, str | int | float | np.integer):
        return None
    return levels.get(unicodedata.normalize("NFC", str(value).strip()), UNKNOWN_LEVEL)


def _date(value: Any, levels: dict[str, float], is_text: bool) -> float | None:  # noqa: FBT001 - as in the table
    del levels, is_text
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, float) and math.isnan(value):
        return value
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


def _parse_float(text: str) -> float | None:
    if not _CHARACTERS.issuperset(text):
        return math.nan if text.strip().lower() == "nan" else None
    try:
        return float(text)
    except ValueError:
        return None


_ENCODERS: Final[dict[str, Callable[[Any, dict[str, float], bool], float | None]]] = {
    "number": _number,
    "boolean": _boolean,
    "category": _category,
    "date": _date,
}
