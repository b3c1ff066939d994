"""Batch inference on the wire."""

from pydantic import BaseModel, Field

from service.jobs.schemas import CALLED_PATTERN, JobLimits


class InferenceSpec(JobLimits):
    """What to compute, of which rows, by which model."""

    model: str = Field(pattern=CALLED_PATTERN, description="Name of the model, or NAME@ALIAS.")
    version: int | None = Field(
        None, ge=1, lt=2**31, description="The latest, or the alias's, without it."
    )
    method: str = Field(max_length=40, description="One of the model's `methods`.")
    dataset_id: str = Field(max_length=40, description="A dataset of rows that is ready.")
    tasks: dict[str, str] | None = Field(
        None,
        min_length=1,
        description="Tasks of the dataset with the model's task that each is called as; every one "
        "by its own name without it.",
    )
    makes_dataset: bool = Field(
        default=True, description="Make a dataset of the outputs too, where they are numbers."
    )
    dataset_name: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="What that is called; model, method and dataset without it.",
    )


class ValidInference(BaseModel):
    """A specification that would be taken, with what it comes to."""

    model: str
    version: int
    method: str
    tasks: dict[str, str]
    n_rows: int
    makes_dataset: bool
