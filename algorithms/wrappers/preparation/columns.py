"""Columns of raw tables: their kinds, and how their values are written as numbers.

Raw rows are arrays of floats in which NaN is a missing value. A boolean is 0 or 1, a date is the
number of seconds since 1970 in UTC, and a category is the position of its level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

ColumnKind = Literal["number", "boolean", "category", "date"]

#: Value of a category that is not among the levels of its column.
UNKNOWN_LEVEL: Final = -1.0


@dataclass(frozen=True, slots=True)
class DateWriting:
    """How dates were written that were not in ISO format.

    Attributes
    ----------
    day_first
        Whether the day is before the month in dates such as 01/02/2024; None if the data did not
        have such dates.
    has_short_years
        Whether years have two digits.
    """

    day_first: bool | None = None
    has_short_years: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the known settings as JSON."""
        fields = {} if self.day_first is None else {"day_first": self.day_first}
        return fields | ({"has_short_years": True} if self.has_short_years else {})


@dataclass(frozen=True, slots=True)
class NumberWriting:
    """How numbers were written as text.

    Attributes
    ----------
    decimal
        The decimal separator, a point or a comma.
    thousands
        The thousands separator: a point, a comma, an apostrophe, or a space of any kind; without
        one, an empty text.
    unit
        The unit that all values have, such as %; without one, an empty text.
    has_signs
        Whether negative numbers have the minus sign of typesetting or are in brackets.
    """

    decimal: str = "."
    thousands: str = ""
    unit: str = ""
    has_signs: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the settings that differ from plain numbers as JSON."""
        fields: dict[str, Any] = {"decimal": self.decimal} if self.decimal != "." else {}
        fields |= {"has_signs": True} if self.has_signs else {}
        fields |= {"thousands": self.thousands} if self.thousands else {}
        return fields | ({"unit": self.unit} if self.unit else {})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "NumberWriting":
        """Return the writing from the result of :meth:`to_json`."""
        names = [name for name in ("decimal", "thousands", "unit", "has_signs") if name in values]
        return cls(**{name: values[name] for name in names}) if names else PLAIN_NUMBERS


#: Numbers with a decimal point and nothing else; compared by identity, which is faster.
PLAIN_NUMBERS: Final = NumberWriting()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a raw table.

    Attributes
    ----------
    levels
        The values of a category as text; a raw value is a position in them.
    missing
        Texts that were declared to mark a missing value. Numbers equal to one are missing, too.
    """

    name: str
    kind: ColumnKind = "number"
    levels: tuple[str, ...] = ()
    dates: DateWriting = DateWriting()
    numbers: NumberWriting = PLAIN_NUMBERS
    missing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON."""
        fields: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.kind == "category":
            fields["levels"] = list(self.levels)
        if self.missing:
            fields["missing"] = list(self.missing)
        return fields | self.dates.to_json() | self.numbers.to_json()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the column from the result of :meth:`to_json`."""
        levels = tuple(values.get("levels", ()))
        dates = DateWriting(values.get("day_first"), values.get("has_short_years", False))
        numbers = NumberWriting.from_json(values)
        missing = tuple(values.get("missing", ()))
        return cls(values["name"], values["kind"], levels, dates, numbers, missing)


def unnamed(n_columns: int) -> tuple[Column, ...]:
    """Return columns of numbers without names of their own."""
    return tuple(Column(f"column {j}") for j in range(n_columns))


def is_one_category(columns: Sequence[Column] | None) -> bool:
    """Return whether a category is the only column; None: all are numbers."""
    return columns is not None and [column.kind for column in columns] == ["category"]
