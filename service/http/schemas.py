"""Schemas shared by all routes."""

from pydantic import BaseModel, ConfigDict, Field

from algorithms.interface.strict_model import StrictModel


class WireModel(StrictModel):
    """Base class of request schemas: no unknown fields, no type conversion."""


class Place(BaseModel):
    """Location of an error."""

    pointer: str | None = Field(None, description="JSON pointer into the request body.")
    parameter: str | None = Field(None, description="Query, path or header parameter.")
    code: str
    detail: str
    task: str | None = None
    row: int | None = None
    column: str | int | None = None


class ProblemSchema(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(title="Problem")

    type: str
    title: str
    status: int
    code: str = Field(description="Stable code; see docs/errors.md.")
    detail: str = Field(description="What was expected, what was received, where, and what to do.")
    request_id: str | None
    errors: list[Place]
