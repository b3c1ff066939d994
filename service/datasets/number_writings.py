"""How the numbers of a table were written, by column, so that rows for its models are read so."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from algorithms.interface.errors import InvalidData
from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, Column, NumberWriting


@dataclass(frozen=True, slots=True)
class NumberWritings:
    """How the numbers of a table were written.

    Attributes
    ----------
    common
        The writing of all columns but those in ``columns``.
    missing
        Texts that were declared to mark a missing value.
    """

    common: NumberWriting = PLAIN_NUMBERS
    columns: Mapping[str, NumberWriting] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.common is not PLAIN_NUMBERS or bool(self.columns) or bool(self.missing)

    def of(self, name: str) -> NumberWriting:
        """Return how the numbers of a column were written."""
        return self.columns.get(name, self.common)

    @classmethod
    def of_columns(
        cls, columns: Sequence[Column], common: NumberWriting, missing: tuple[str, ...] = ()
    ) -> Self:
        """Return how the numbers of some columns were written."""
        return cls(
            common,
            {c.name: c.numbers for c in columns if c.kind == "number" and c.numbers != common},
            missing,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the writings as JSON."""
        columns = {name: writing.to_json() for name, writing in self.columns.items()}
        fields: dict[str, Any] = {"common": self.common.to_json(), "columns": columns}
        return fields | ({"missing": list(self.missing)} if self.missing else {})

    @classmethod
    def of_manifest(cls, manifest: Mapping[str, Any]) -> Self:
        """Return how the numbers of a dataset were written."""
        stored = manifest.get("number_writings")
        if stored is None:
            return cls()
        columns = {n: NumberWriting.from_json(w) for n, w in stored["columns"].items()}
        missing = tuple(stored.get("missing", ()))
        return cls(NumberWriting.from_json(stored["common"]), columns, missing)


def check_units(
    names: Collection[str], given: NumberWritings, wanted: NumberWritings, *, task: str
) -> None:
    """Raise InvalidData if columns of a dataset have another unit than those of a model.

    Columns without a unit are taken to have that of the model, as in rows for it.
    """
    for name in sorted(given.columns.keys() & {*names}):
        unit, expected = given.of(name).unit, wanted.of(name).unit
        if unit and unit != expected:
            had = f"the unit {expected!r}" if expected else "no unit"
            detail = f"column '{name}' has the unit {unit!r}, but {had} in the training data;"
            detail += " convert the numbers, and upload them again"
            raise InvalidData(detail, task=task, column=name)


#: The writings of a table of plain numbers.
PLAIN_TABLE: Final = NumberWritings()
