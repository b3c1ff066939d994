"""Schemas shared by all routes."""

from pydantic import BaseModel, ConfigDict, Field

from algorithms.interface.params import StrictModel


class WireModel(StrictModel):
    """Base class of request schemas: no unknown fields, no type conversion."""


class Place(BaseModel):
    """Location of an error."""

    pointer: str | None = Field(None, description="JSON pointer into the request body.")
    parameter: str | None = Field(None, description="Query, path or header parameter.")
    code: str = Field(description="Kind of the error.")
    detail: str = Field(description="Description of the error at this place.")
    task: str | None = Field(None, description="Task of the error.")
    row: int | None = Field(None, description="Row of the error, from 0.")
    column: str | int | None = Field(
        None, description="Column of the error: its name, or its number from 0."
    )


class ProblemSchema(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(title="Problem")

    type: str = Field(description="URN of the error code.")
    title: str = Field(description="Short description of the code.")
    status: int = Field(description="HTTP status.")
    code: str = Field(description="Stable code; see docs/reference/errors.md.")
    detail: str = Field(description="What was expected, what was received, where, and what to do.")
    remedy: str = Field(description="Remedy, as listed in docs/reference/errors.md.")
    request_id: str | None = Field(description="Id of the request, also in the log of the service.")
    errors: list[Place] = Field(description="Locations of the error; may be empty.")
