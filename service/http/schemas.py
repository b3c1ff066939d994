"""Schemas that every route shares."""

from pydantic import BaseModel, ConfigDict, Field


class WireModel(BaseModel):
    """A schema: unknown fields are an error, and ``true`` is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Place(BaseModel):
    """One place of an error."""

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
    code: str = Field(description="Stable code; all are in docs/errors.md.")
    detail: str = Field(description="What was expected, what came, where, what to do.")
    request_id: str | None
    errors: list[Place]
