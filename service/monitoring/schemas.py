"""API schemas of monitors and feedback."""

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from service.http.schemas import WireModel
from service.storage.tables import MonitorRow


class MonitorSpec(WireModel):
    """What a monitor keeps."""

    share: float = Field(
        1.0,
        ge=0,
        le=1,
        strict=False,
        allow_inf_nan=False,
        description="Share of the rows to keep, from 0 to 1, chosen by a hash of their ids.",
    )
    days: int = Field(
        90, ge=2, le=3650, description="Days after which rows and targets are deleted."
    )
    never_keep: list[Annotated[str, Field(min_length=1, max_length=1000)]] = Field(
        default_factory=list,
        max_length=1000,
        description="Columns whose values are never kept; of rows that are kept already, they are "
        "removed.",
    )


class Monitor(BaseModel):
    """The record of the calls of an alias."""

    model: str = Field(description="Model name.")
    alias: str = Field(description="Alias whose calls are recorded.")
    share: float = Field(description="Share of the rows that are kept.")
    days: int = Field(description="Days after which rows and targets are deleted.")
    never_keep: list[str] = Field(description="Columns whose values are never kept.")
    n_rows: int = Field(description="Number of rows that are kept.")
    n_targets: int = Field(description="Number of rows of which a target is known.")
    n_bytes: int = Field(description="Size of the rows and targets, in bytes.")
    n_dropped: int = Field(
        description="Number of rows that came too fast, or beyond the quota of stored bytes."
    )
    created_at: datetime = Field(description="Time of the first request for the monitor.")

    @classmethod
    def from_row(cls, name: str, row: MonitorRow, n_kept: tuple[int, int, int]) -> "Monitor":
        """Return the schema of a monitor, and of the numbers of its rows, targets and bytes."""
        n_rows, n_targets, n_bytes = n_kept
        return cls(
            model=name,
            alias=row.alias,
            share=row.share,
            days=row.days,
            never_keep=row.never_keep,
            n_rows=n_rows,
            n_targets=n_targets,
            n_bytes=n_bytes,
            n_dropped=row.n_dropped,
            created_at=row.created_at,
        )


class DeletedRows(BaseModel):
    """Number of rows that were deleted."""

    n_deleted: int = Field(description="Number of rows and targets that were deleted.")


class Feedback(BaseModel):
    """What became of the targets in a request."""

    n_rows: int = Field(description="Number of rows in the request.")
    n_new: int = Field(description="Number of targets that were not known before.")
    n_corrected: int = Field(description="Number of targets that replaced another one.")
    n_repeated: int = Field(description="Number of targets that were known already.")
    n_unpredicted: int = Field(
        description="Number of rows that came with their columns, were never predicted by this "
        "version, and are now."
    )
    n_empty: int = Field(description="Number of rows without a target, which change nothing.")
    n_not_kept: int = Field(
        description="Number of rows that do not belong to the share that the monitor keeps."
    )
    n_unknown: int = Field(
        description="Number of ids of which no row is kept. Their targets are kept, in case that "
        "the rows come."
    )
    unknown: list[str] = Field(description="The first of these ids.")
    unknown_tasks: dict[str, int] = Field(
        description="Tasks of rows that were never predicted, and that the model cannot answer "
        "for, with their number of rows; the first ones. Without ids, the rows are not kept."
    )
    unknown_labels: dict[str, int] = Field(
        description="Targets that are no class of the model, such as `Yes` for `yes`, with their "
        "number of rows; the most frequent ones. They are kept, and count as wrong."
    )
