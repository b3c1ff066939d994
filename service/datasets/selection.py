"""Selections of stored datasets that are combined into a new dataset."""

from collections.abc import Sequence
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from service.errors.patterns import TEXT_LINE
from service.http.schemas import WireModel

MAX_SOURCES: Final = 20
_MAX_NAMES: Final = 10_000
#: A body has at most 50,000 values.
MAX_ROWS: Final = 40_000

Name = Annotated[str, Field(min_length=1, max_length=200)]
#: Larger integers are not exact in JSON.
RowNumber = Annotated[int, Field(ge=0, lt=MAX_EXACT_INTEGER)]


class RowRange(WireModel):
    """Consecutive rows of each task."""

    start: int = Field(0, ge=0, lt=MAX_EXACT_INTEGER, description="First row, from 0.")
    stop: int | None = Field(
        None, ge=1, lt=MAX_EXACT_INTEGER, description="Row after the last one; default: all."
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.stop is not None and self.stop <= self.start:
            raise ValueError("stop must be larger than start")
        return self


class Selection(WireModel):
    """Tasks, columns and rows of a dataset; by default all of them."""

    dataset_id: str = Field(min_length=1, max_length=40, description="Id of the dataset.")
    tasks: list[Name] | None = Field(
        None, min_length=1, max_length=_MAX_NAMES, description="Names of tasks."
    )
    columns: list[Name | RowNumber] | None = Field(
        None,
        min_length=1,
        max_length=_MAX_NAMES,
        description="Names of columns, or their numbers from 0 where they have no names.",
    )
    rows: RowRange | None = Field(None, description="Consecutive rows of each task.")
    row_numbers: (
        dict[Name, Annotated[list[RowNumber], Field(min_length=1, max_length=MAX_ROWS)]] | None
    ) = Field(
        None,
        min_length=1,
        max_length=_MAX_NAMES,
        description="Rows by task, from 0; the other tasks are left out.",
    )

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        if self.row_numbers is not None and (self.rows is not None or self.tasks is not None):
            raise ValueError("row_numbers names tasks and rows; give it without tasks and rows")
        lists: list[Sequence[str | int]] = [self.tasks or [], *(self.row_numbers or {}).values()]
        if any(len(set(chosen)) < len(chosen) for chosen in lists):
            raise ValueError("a task or a row is selected twice; name it once")
        return self


class Combination(WireModel):
    """A new dataset that combines stored datasets."""

    name: str = Field(
        min_length=1, max_length=200, pattern=TEXT_LINE, description="Name of the new dataset."
    )
    sources: list[Selection] = Field(
        min_length=1,
        max_length=MAX_SOURCES,
        description="Selections of datasets. Rows of tasks with the same name are concatenated, in "
        "this order.",
    )


class Source(Selection):
    """A selection, with the name and content of its dataset."""

    name: str = Field(description="Name of the dataset.")
    content_sha256: str = Field(description="SHA-256 of its tasks.")
