"""Values of categories that no training row has."""

from collections.abc import Mapping, Sequence


class UnknownCategoriesWarning(UserWarning):
    """A note that rows have values of categories that no training row has."""

    @classmethod
    def of(cls, unknown: Mapping[str, Sequence[str]]) -> "UnknownCategoriesWarning":
        """Return the note on the unknown values of each column."""
        columns = (f"{name}: {', '.join(map(repr, values))}" for name, values in unknown.items())
        return cls(f"no training row has these values of categories: {'; '.join(columns)}")
