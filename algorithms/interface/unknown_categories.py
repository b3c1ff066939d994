"""Values of categories that no training row has."""

from collections.abc import Mapping, Sequence
from typing import Any


class UnknownCategoriesWarning(UserWarning):
    """A note that rows have values of categories that no training row has."""

    @classmethod
    def of(cls, unknown: Mapping[str, Sequence[str]]) -> "UnknownCategoriesWarning":
        """Return the note on the unknown values of each column."""
        columns = (f"{name}: {', '.join(map(repr, values))}" for name, values in unknown.items())
        return cls(f"no training row has these values of categories: {'; '.join(columns)}")

    @classmethod
    def of_result(cls, result: Mapping[str, Any]) -> "UnknownCategoriesWarning | None":
        """Return the note on a batch inference by its result; None if there are no such values."""
        entries = result.get("unknown_categories", ())
        return cls.of({entry["column"]: entry["values"] for entry in entries}) if entries else None
