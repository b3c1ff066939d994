"""Inference on the wire, for the documentation: bulk numbers are read without pydantic."""

from pydantic import BaseModel, ConfigDict, Field


class InferenceRequest(BaseModel):
    """Rows of one task, or of several."""

    model_config = ConfigDict(extra="forbid")

    task: str | list[str] = Field(
        description="A task that the model was trained on, or one for each row: tasks whose rows "
        "have the same width."
    )
    inputs: list[list[float | None]] = Field(
        description="One list of numbers a row; null where a value is missing, for models that "
        "take such rows."
    )


class InferenceResponse(BaseModel):
    """What the model made of the rows."""

    model: str
    version: int
    task: str | list[str]
    classes: list[str | int] | None = Field(
        None, description="Labels of the columns, where the columns are classes (`distances`)."
    )
    outputs: list[list[float]] | list[str | int | float] = Field(
        description="For each row, in order: a list of numbers, or a predicted label or number."
    )
