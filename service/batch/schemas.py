"""API schemas of batch inference."""

from pydantic import BaseModel, Field

from service.jobs.schemas import CALLED_PATTERN, JobLimits


class InferenceSpec(JobLimits):
    """Specification of a batch inference."""

    model: str = Field(pattern=CALLED_PATTERN, description="Model name, or NAME@ALIAS.")
    version: int | None = Field(
        None,
        ge=1,
        lt=2**31,
        description="Version number. Default: the latest version, or that of the alias.",
    )
    method: str = Field(max_length=40, description="One of the model's `methods`.")
    dataset_id: str = Field(max_length=40, description="Id of a dataset of rows in state `ready`.")
    tasks: dict[str, str] | None = Field(
        None,
        min_length=1,
        description="Tasks of the dataset to compute, each with the task of the model that "
        "computes it. Default: all tasks, with tasks of the model of the same name.",
    )
    makes_dataset: bool = Field(
        default=True, description="Also store numeric outputs as a dataset."
    )
    dataset_name: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="Name of that dataset. Default: composed of method, dataset and model.",
    )


class ValidInference(BaseModel):
    """Result of validating a specification of a batch inference."""

    model: str
    version: int
    method: str
    tasks: dict[str, str]
    n_rows: int
    makes_dataset: bool
