"""Errors of values that cannot be encoded, with their places."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

from algorithms.interface.errors import InvalidData
from algorithms.wrappers.preparation import text_values as rules
from algorithms.wrappers.preparation.columns import (
    PLAIN_NUMBERS,
    Column,
    ColumnKind,
    NumberWriting,
)
from algorithms.wrappers.preparation.written_numbers import as_plain

#: Number of wrong values that are listed.
MAX_PROBLEMS: Final = 100
_SHOWN: Final = 40
_EXPECTED: Final[dict[ColumnKind, str]] = {
    "number": "a number",
    "boolean": "true or false",
    "category": "text",
    "date": "a date such as 2026-01-31",
}
PLURALS: Final[dict[ColumnKind, str]] = {
    "number": "numbers",
    "boolean": "booleans",
    "category": "text",
    "date": "dates",
}


class Problem(NamedTuple):
    """A problem with a column, or with its value in a row; the code is that of the service.

    Attributes
    ----------
    advice
        What to do; where it is empty, there may be advice for all problems of the code.
    """

    code: str
    detail: str
    column: str
    row: int | None = None
    advice: str = ""


class InvalidColumn(InvalidData):
    """A column cannot be used; ``problems`` lists why, up to a maximum number."""

    def __init__(self, *problems: Problem) -> None:
        first = problems[0]
        super().__init__(first.detail, column=first.column, row=first.row)
        self.problems = problems

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error: its message alone makes none."""
        return type(self), self.problems, vars(self)


def reject_values(values: Iterable[tuple[int, Any]], column: Column) -> None:
    """Raise InvalidColumn with the first of the wrong values, given with their rows, if any."""
    problems = [_problem(row, v, column) for row, v in islice(values, MAX_PROBLEMS)]
    if problems:
        raise InvalidColumn(*problems)


def _problem(row: int, value: Any, column: Column) -> Problem:
    place = f"row {row}, column '{column.name}'"
    plain = as_plain(value.strip(), column.numbers) if isinstance(value, str) else value
    if column.kind == "number" and rules.is_inexact(plain):
        detail = (
            f"{place}: the integer {shown(value)} is above 2**53, and not exact as a 64-bit float"
        )
        return Problem("inexact-integer", detail, column.name, row)
    if column.kind == "number" and rules.is_infinite(plain):
        infinite = "-inf" if str(value).strip().startswith("-") else "inf"
        detail = f"{place}: {infinite} is not a finite number"
        return Problem("not-finite", detail, column.name, row)
    detail = f"{place}: expected {_expected(column)}, got {shown(value)}"
    if column.kind == "number" and "%" in str(value) and not column.numbers.unit:
        detail += "; write it as the training table has it, such as 0.12 or 12 for 12 %"
    return Problem("not-of-kind", detail, column.name, row)


def number_writing(writing: NumberWriting) -> str:
    """Return a description of numbers as they are written, such as "decimal ','"."""
    parts = [f"decimal {writing.decimal!r}"]
    parts += [f"thousands {writing.thousands!r}"] if writing.thousands else []
    parts += [f"the unit {writing.unit!r}"] if writing.unit else []
    parts += ["signs of print"] if writing.has_signs else []
    return " and ".join(parts)


def _expected(column: Column) -> str:
    kind, dates = column.kind, column.dates
    expected = _EXPECTED[kind]
    if kind == "number" and column.numbers is not PLAIN_NUMBERS:
        return f"{expected} with {number_writing(column.numbers)}"
    if kind == "date" and dates.day_first is not None:
        year = "26" if dates.has_short_years else "2026"
        return f"{expected} or {'31/01' if dates.day_first else '01/31'}/{year}"
    return expected


def shown(value: Any) -> str:
    """Return a value for a message, shortened."""
    if isinstance(value, bool):
        return str(value).lower()  # as in JSON
    if isinstance(value, str) and len(value) > _SHOWN:
        value = value[:_SHOWN] + "..."
    return repr(value)[: 2 * _SHOWN]
