"""HTTP route that looks at a file before it is uploaded; nothing is stored."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from service.datasets.context import Context
from service.datasets.creation_routes import BODY
from service.datasets.distributions import MAX_COLUMNS, Value
from service.datasets.formats.options import ReadOptions
from service.datasets.preview import ColumnSummary
from service.datasets.registration import rejected
from service.datasets.upload import format_of, write_body
from service.errors.problems import Problem
from service.http.bodies import ContentType, check_length, media_type_of, too_large
from service.http.documentation import problems
from service.http.routing import secured

router = APIRouter(
    prefix="/v1/datasets",
    tags=["datasets"],
    route_class=secured("datasets:{}", is_audited=False),  # it changes nothing
)


class InspectionQuery(ReadOptions):
    """Options and type of a file."""

    content_type: ContentType = None


class Groups(BaseModel):
    """Groups into which a column divides the rows."""

    n: int = Field(description="Number of groups.")
    smallest: int = Field(description="Rows of the smallest group.")
    largest: int = Field(description="Rows of the largest group.")
    without: dict[str, list[int]] = Field(
        description="Numbers of groups in which the first, and the second value of a column of two "
        "values does not occur, as of yes or no, by column; only columns with such groups."
    )


class InspectedColumn(ColumnSummary):
    """A column of a table."""

    kind: str | None = Field(
        description="number, boolean, category or date; null if it is left out unless its kind is "
        "declared, as text that is different in each row."
    )
    reason: str | None = Field(
        description="Why the column cannot be read, and what to do; null if it can."
    )
    is_id: bool = Field(description="Whether it seems to number the rows.")
    groups: Groups | None = Field(
        description="Groups, if its values repeat and none is missing; else null."
    )


class InspectedTask(BaseModel):
    """A task of a file of arrays."""

    name: str = Field(description="Task name.")
    n_samples: int = Field(description="Number of rows.")
    n_features: int = Field(description="Number of columns.")
    target: str = Field(description="none, numbers or classes.")


class Inspection(BaseModel):
    """What a file has, before it is uploaded."""

    format: str = Field(description="Format of the file.")
    n_samples: int = Field(description="Number of rows.")
    n_columns: int = Field(description="Number of columns.")
    columns: list[InspectedColumn] = Field(
        default_factory=list,
        description=f"The first {MAX_COLUMNS} columns of a table, over all of its rows.",
    )
    rows: list[dict[str, Value]] = Field(
        default_factory=list, description="The first rows of a table, by column."
    )
    task_columns: list[str] = Field(
        default_factory=list,
        description="Columns that may say which task a row belongs to, the best first.",
    )
    task_column: str | None = Field(
        None, description="The column proposed for that; null if no column repeats."
    )
    target_column: str | None = Field(None, description="The column proposed as target.")
    tasks: list[InspectedTask] = Field(
        default_factory=list, description="The tasks of a file of arrays."
    )
    notes: list[str] = Field(description="How the file was read.")


class _ScratchFile:
    """A file to which the body of a request is written."""

    def __init__(self, path: Path) -> None:
        self.size_bytes = 0
        self._path = path
        self._path.touch()

    def write(self, data: bytes) -> None:
        """Add bytes."""
        with self._path.open("ab") as file:
            file.write(data)
        self.size_bytes += len(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""


@router.post(
    ":inspect",
    summary="Inspect a file",
    openapi_extra=BODY,
    responses=problems(
        "malformed-body",
        "body-too-large",
        "unsupported-media-type",
        "invalid-request",
        "invalid-dataset",
    ),
)
async def inspect_file(
    request: Request, services: Context, query: Annotated[InspectionQuery, Query()]
) -> Inspection:
    """Return the columns of a file, its first rows, and what each column may be for.

    Nothing is stored. The options are those of an upload; a task column and a target column in
    them are kept as the proposal.
    """
    limit = services.settings.max_upload_bytes
    format_ = format_of(media_type_of(request, query.content_type))
    check_length(request, limit)
    with services.ingester.scratch_folder() as folder:
        file = _ScratchFile(folder / "upload")
        try:
            await write_body(request, file, format_, limit=limit, too_long=too_large(limit))
        except ClientDisconnect:
            detail = "the client disconnected before the end of the file"
            raise Problem("malformed-body", detail) from None
        options = query.model_dump(mode="json", exclude={"content_type"})
        reading = services.ingester.inspect(folder, format_.media_types[0], options)
        result: dict[str, Any] = await asyncio.wrap_future(reading)
    if "issues" in result:
        raise rejected(result["issues"])
    return Inspection(**result["inspection"])
