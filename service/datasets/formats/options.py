"""Options and limits of the parsers."""

import unicodedata
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:  # the child process does not import the settings
    from service.settings import Settings

TargetKind = Literal["auto", "numbers", "classes"]


class ReadOptions(BaseModel):
    """Options of an upload; those about columns apply to CSV."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_column: str | None = Field(
        None,
        max_length=200,
        description="Column with the task of each row; default: task.",
    )
    target_column: tuple[str, ...] = Field(
        (),
        max_length=1000,
        description="Target columns. With several and no task column, each target is a task.",
    )
    group_column: str | None = Field(
        None,
        max_length=200,
        description="Column with the group of each row. Rows of one group (such as a patient or a "
        "session) are held out together, across all tasks.",
    )
    ignore_column: tuple[str, ...] = Field((), max_length=1000, description="Columns to ignore.")
    target_kind: TargetKind = Field(
        "auto",
        description="Whether targets are numbers or classes. auto: text and booleans are "
        "classes, other values are numbers, with a warning if they look like class codes.",
    )

    @field_validator("task_column", "target_column", "group_column", "ignore_column")
    @classmethod
    def _compose(cls, names: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        """Return names in Unicode normal form C, as column names are."""
        if names is None or isinstance(names, str):
            return names and unicodedata.normalize("NFC", names)
        return tuple(unicodedata.normalize("NFC", name) for name in names)


class Limits(BaseModel):
    """Limits of an upload."""

    model_config = ConfigDict(frozen=True)

    decompressed_bytes: int
    decompression_ratio: float
    tasks: int
    features: int
    name_length: int

    @classmethod
    def from_settings(cls, settings: "Settings") -> "Limits":
        """Return the limits from the settings."""
        return cls(
            decompressed_bytes=settings.max_decompressed_bytes,
            decompression_ratio=settings.max_decompression_ratio,
            tasks=settings.max_tasks,
            features=settings.max_features,
            name_length=settings.max_name_length,
        )
