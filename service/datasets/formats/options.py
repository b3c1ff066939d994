"""How a table is to be read, and the bounds of what is read."""

import unicodedata
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:  # the process that reads uploads knows no settings
    from service.settings import Settings

TargetKind = Literal["auto", "numbers", "classes"]


class ReadOptions(BaseModel):
    """How a user wants the upload read; the parts that speak of columns are for CSV."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_column: str | None = Field(
        None, max_length=200, description="Column with the task of each row; 'task' if there."
    )
    target_column: tuple[str, ...] = Field(
        (),
        max_length=1000,
        description="Column(s) with targets. Several, and no task column: one task for each.",
    )
    group_column: str | None = Field(
        None,
        max_length=200,
        description="Column with the group of each row: rows of one group (a patient, a session), "
        "of whatever task, are held out together or not at all.",
    )
    ignore_column: tuple[str, ...] = Field(
        (), max_length=1000, description="Column(s) to leave out."
    )
    target_kind: TargetKind = Field(
        "auto",
        description="Whether targets are numbers or classes. auto: text and booleans are "
        "classes, all else are numbers, with a warning where they look like codes of classes.",
    )

    @field_validator("task_column", "target_column", "group_column", "ignore_column")
    @classmethod
    def _compose(cls, names: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        """Return names in the Unicode form that the columns' names are brought to."""
        if names is None or isinstance(names, str):
            return names and unicodedata.normalize("NFC", names)
        return tuple(unicodedata.normalize("NFC", name) for name in names)


class Limits(BaseModel):
    """Bounds of an upload."""

    model_config = ConfigDict(frozen=True)

    expanded_bytes: int
    expansion: float
    tasks: int
    features: int
    name_length: int

    @classmethod
    def from_settings(cls, settings: "Settings") -> "Limits":
        """Return the bounds that the operator set."""
        return cls(
            expanded_bytes=settings.max_expanded_bytes,
            expansion=settings.max_expansion,
            tasks=settings.max_tasks,
            features=settings.max_features,
            name_length=settings.max_name_length,
        )
