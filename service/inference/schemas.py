"""API schemas of inference, for the documentation only: pydantic does not parse the rows.

Each item of a list may be numbers or a record: generated clients look at each one by itself.
"""

from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field

Value: TypeAlias = float | str | bool | None


class InferenceRequest(BaseModel):
    """Rows of one or several tasks."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"task": "H00", "inputs": [[61, 24.5]]},
                {"inputs": [{"hospital": "H00", "age": 61}, {"hospital": "H01", "age": 47}]},
            ]
        },
    )

    task: str | list[str] | None = Field(
        None,
        description="Task that the model was trained on; or a list with one task per row, if the "
        "rows of all tasks have the same number of columns. Without it, the task is in the query, "
        "or in a column of the rows, which is named as in the training table (`task_column` of the "
        "model) or `task`. The field may have the name in the training table, too.",
    )
    inputs: list[list[Value] | dict[str, Value]] = Field(
        description="A list of values per row, or an object with the values by column name: "
        "numbers, or values of the column's kind, such as text, a boolean, or a date in text; null "
        "for a missing value, if the model supports missing values."
    )
    columns: list[str] | None = Field(
        None,
        description="Column names of `inputs`, in any order. Without them, columns have the order "
        "of the training data.",
    )


class InferenceResponse(BaseModel):
    """Outputs of a model."""

    model: str = Field(description="Model name.")
    version: int = Field(description="Version number that was applied.")
    task: str | list[str] = Field(description="Task of the request: one name, or one per row.")
    classes: list[str | int] | None = Field(
        None,
        description="Class labels of the output columns; omitted if the columns are not classes.",
    )
    new_tasks: list[str] | None = Field(
        None,
        description="Tasks of the request that the model was not trained on, for which its common "
        "part answered; omitted without any.",
    )
    outputs: list[list[float] | str | int | float] = Field(
        description="One output per row, in order: a list of numbers, or a label or number."
    )
