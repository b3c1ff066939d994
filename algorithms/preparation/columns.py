"""Columns of raw tables: their kinds, and how their values are written as numbers.

Raw rows are arrays of floats in which NaN is a missing value. A boolean is 0 or 1, a date is the
number of seconds since 1970 in UTC, and a category is the position of its level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

ColumnKind = Literal["number", "boolean", "category", "date"]

#: Value of a category that is not among the levels of its column.
UNKNOWN_LEVEL: Final = -1.0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a raw table.

    Attributes
    ----------
    levels
        The values of a category as text; a raw value is a position in them.
    """

    name: str
    kind: ColumnKind = "number"
    levels: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the column as JSON."""
        own = {"name": self.name, "kind": self.kind}
        return own | {"levels": list(self.levels)} if self.kind == "category" else own

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the column from the result of :meth:`to_json`."""
        return cls(values["name"], values["kind"], tuple(values.get("levels", ())))
