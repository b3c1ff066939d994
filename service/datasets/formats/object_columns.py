"""Columns of Python objects, as JSON and workbooks have them, as columns of Arrow."""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.text_values import NUMBER
from algorithms.wrappers.preparation.written_numbers import MEANT
from service.datasets.issues import reject

_NUMBER: Final = "a number"
_TYPES: Final[dict[type, tuple[str, pa.DataType]]] = {
    bool: ("a boolean", pa.bool_()),
    int: (_NUMBER, pa.float64()),
    float: (_NUMBER, pa.float64()),
    str: ("text", pa.string()),
    date: ("a date", pa.timestamp("us")),
    datetime: ("a date", pa.timestamp("us")),
}
#: Types that cannot be a column, with advice.
_UNSUPPORTED: Final[dict[type, tuple[str, str]]] = {
    time: ("a time of day", "write it as a number (such as hours)"),
    timedelta: ("a duration", "write it as a number (such as hours)"),
    list: ("a list", "expected a number, text, true, false or null"),
    dict: ("an object", "expected a number, text, true, false or null"),
}
#: Missing markers that a note lists.
_MAX_MARKERS: Final = 5
_is_written: Final = re.compile(rf"{NUMBER}|{MEANT}").fullmatch
_is_digits: Final = re.compile("[0-9]+").fullmatch
_has_leading_zero: Final = re.compile("0[0-9]+").fullmatch


def _row(row: int) -> str:
    return f"row {row}"


def column_of(
    values: Sequence[Any],
    name: str,
    place_of: Callable[[int], str] = _row,
    *,
    are_labels: bool = False,
) -> pa.Array:
    """Return values as a column of one type; None is a missing value.

    Numbers that are all whole are integers, since they may be names of tasks. Numbers of which some
    are text are all text, which is read as in CSV.

    Parameters
    ----------
    place_of
        Returns the place of a row for messages.
    are_labels
        Whether the text of numbers is used as it is, as of tasks.

    Raises
    ------
    Rejected
        With the row of a value of another type than the first, or of a type without columns.
    """
    if are_mixed(values):
        write = repr if are_labels else _without_separator
        return pa.array([v if v is None or isinstance(v, str) else write(v) for v in values])
    first: tuple[int, str, pa.DataType] | None = None
    are_whole = True
    for row, value in enumerate(values):
        if value is None:
            continue
        kind, type_ = _type_of(value, row, name)
        if first is None:
            first = row, kind, type_
        elif first[1] != kind:
            detail = f"row {row}, column '{name}': this is {kind}, but {place_of(first[0])} has"
            detail += f" {first[1]}; write all values in one way"
            if "text" in (kind, first[1]):
                detail += ", or declare missing_marker if the text marks a missing value"
            reject("mixed-types", detail, row=row, column=name)
        are_whole &= kind == _NUMBER and _is_whole(value, row, name)
    if first is None:
        return pa.nulls(len(values))
    if are_whole:
        return pa.array([None if v is None else int(v) for v in values], pa.int64())
    if pa.types.is_timestamp(first[2]):
        values = [_moment(value) for value in values]
    return pa.array(values, first[2])


def unify(
    values: Sequence[Any], name: str, markers: Sequence[str]
) -> tuple[Sequence[Any], list[str]]:
    """Return values of which some are text without missing markers, and notes.

    Codes that are partly text are all text; booleans that are partly text are none.

    Parameters
    ----------
    markers
        Texts that are missing values in columns of other values.
    """
    types = {type(value) for value in values if value is not None}
    if str not in types or len(types) == 1:
        return values, []
    marked = {value for value in values if isinstance(value, str) and value.strip() in markers}
    notes = []
    if marked:
        values = [None if isinstance(v, str) and v in marked else v for v in values]
        listed = ", ".join(map(repr, sorted(marked)[:_MAX_MARKERS]))
        notes.append(f"text that is read as a missing value: {listed}, in '{name}'")
    values, note = _codes_as_text(values, name)
    types = {type(value) for value in values if value is not None}
    if types == {str, bool} and all(_is_boolean(v) for v in values if isinstance(v, str)):
        values = [v.strip().lower() == "true" if isinstance(v, str) else v for v in values]
    if are_mixed(values):
        values = [v if v is None or isinstance(v, str) else _whole(v) for v in values]
    return values, [*notes, note] if note else notes


def are_mixed(values: Sequence[Any]) -> bool:
    """Return whether values are numbers of which some are text, as pasted ones in spreadsheets."""
    types = {type(value) for value in values if value is not None}
    if str not in types or len(types) == 1 or not types <= {str, int, float}:
        return False
    return all(map(_is_number, {value for value in values if isinstance(value, str)}))


def _without_separator(number: float) -> str:
    """Return a number as text that is the same with a decimal comma: 1234e-3 for 1.234."""
    if isinstance(number, int):
        return str(number)
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def _whole(number: float) -> float:
    """Return a number as an integer if it is one that a float64 holds exactly."""
    is_whole = abs(number) <= MAX_EXACT_INTEGER and number == int(number)
    return int(number) if is_whole else number


def _is_number(text: str) -> bool:
    return _is_written(text.strip()) is not None


def _is_boolean(text: str) -> bool:
    return text.strip().lower() in ("true", "false")


def _codes_as_text(values: Sequence[Any], name: str) -> tuple[Sequence[Any], str | None]:
    """Return values that are codes all as text, and a note if some of them were numbers.

    Spreadsheets keep zip codes such as 80331 as numbers, beside text such as 01234. Without such
    text, numbers are not codes.
    """
    types = {type(value) for value in values if value is not None}
    if str not in types or not types <= {str, int, float} or len(types) == 1:
        return values, None
    texts = [value.strip() for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float)]
    are_codes = all(map(_is_digits, texts)) and any(map(_has_leading_zero, texts))
    if not are_codes or not all(0 <= n <= MAX_EXACT_INTEGER and n == int(n) for n in numbers):
        return values, None
    first = next(text for text in texts if _has_leading_zero(text))
    note = f"column '{name}' has codes such as '{first}' as text, and others as numbers: all are"
    return [
        value if value is None or isinstance(value, str) else str(int(value)) for value in values
    ], f"{note} read as text"


def _type_of(value: Any, row: int, name: str) -> tuple[str, pa.DataType]:
    """Return the kind of a value for messages, and its type in a table."""
    entry = _TYPES.get(type(value))
    if entry is None:
        kind, advice = _UNSUPPORTED.get(type(value), ("not supported", "write it as text"))
        detail = f"row {row}, column '{name}': this is {kind}; {advice} or ignore the column"
        reject("unsupported-dtype", detail, row=row, column=name)
    return entry


def _is_whole(number: Any, row: int, name: str) -> bool:
    """Return whether a number is an integer; refuse integers that a float64 does not hold."""
    if isinstance(number, float):
        return number.is_integer() and -MAX_EXACT_INTEGER <= number <= MAX_EXACT_INTEGER
    if abs(number) > MAX_EXACT_INTEGER:
        detail = f"row {row}, column '{name}' is {number}, above 2**53; ignore columns of ids"
        reject("inexact-integer", detail, row=row, column=name)
    return True


def _moment(day: date | None) -> datetime | None:
    """Return a date as the moment at which it begins."""
    if day is None or isinstance(day, datetime):
        return day
    return datetime.combine(day, time())
