"""API schemas of batch inference."""

from pydantic import BaseModel, Field

from algorithms.interface.new_tasks import NewTasks
from service.errors.patterns import MODEL_REFERENCE, TEXT_LINE
from service.jobs.spec_schemas import JobLimits


class InferenceSpec(JobLimits):
    """Specification of a batch inference."""

    model: str = Field(pattern=MODEL_REFERENCE, description="Model name, or NAME@ALIAS.")
    version: int | None = Field(
        None,
        ge=1,
        lt=2**31,
        description="Version number. Default: the latest version, or the version of the alias.",
    )
    method: str = Field(max_length=40, description="One of the model's `methods`.")
    level: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Level of `predict_interval` and `predict_set`: the share of new rows that the "
        "outputs cover.",
    )
    dataset_id: str = Field(max_length=40, description="Id of a dataset of rows in state `ready`.")
    tasks: dict[str, str] | None = Field(
        None,
        min_length=1,
        description="Tasks of the dataset to compute, each with the task of the model that "
        "computes it. Default: all tasks, with tasks of the model of the same name.",
    )
    new_tasks: NewTasks | None = Field(
        None,
        description="What to do about tasks that the model was not trained on. `refuse`: an error. "
        "`common`: compute them by what its tasks have in common. Default: as the model says.",
    )
    makes_dataset: bool = Field(
        default=True,
        description="Also store numeric outputs as a dataset, which counts in the quota.",
    )
    dataset_name: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=TEXT_LINE,
        description="Name of that dataset. Default: composed of method, dataset and model.",
    )


class ValidInference(BaseModel):
    """Result of validating a specification of a batch inference."""

    model: str = Field(description="Model name.")
    version: int = Field(description="Version number that the job would apply.")
    method: str = Field(description="Method of the model.")
    tasks: dict[str, str] = Field(
        description="Tasks of the dataset, each with the task of the model that computes it."
    )
    new_tasks: list[str] = Field(
        description="Tasks of the model among them that it was not trained on, which its common "
        "part would compute."
    )
    n_rows: int = Field(description="Number of rows.")
    makes_dataset: bool = Field(
        description="Whether numeric outputs would also be stored as a dataset."
    )
