"""API schemas of datasets."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from service.datasets.distributions import MAX_CLASSES, MAX_COLUMNS, N_BINS
from service.datasets.manifest import warnings_of
from service.datasets.selection import Source
from service.http.schemas import Place
from service.storage.tables import DatasetRow


class Origin(BaseModel):
    """Job and model that computed a dataset: enough to reproduce it."""

    job_id: str = Field(description="Id of the batch inference.")
    dataset_id: str = Field(description="Id of the dataset that the model was applied to.")
    dataset_sha256: str = Field(description="SHA-256 of the tasks in that dataset.")
    model: str = Field(description="Model name.")
    version: int = Field(description="Version number.")
    version_id: str = Field(description="Id of the version.")
    method: str = Field(description="Method of the model, such as transform.")
    tasks: dict[str, str] | None = Field(
        description="For each task, the task of the model that was used; null for the same names."
    )


class Dataset(BaseModel):
    """A dataset."""

    id: str = Field(description="Id of the dataset.")
    name: str = Field(description="Name given at upload.")
    state: str = Field(description="uploaded or ingesting; finally ready or rejected.")
    media_type: str = Field(description="Media type of the upload.")
    options: dict[str, Any] = Field(description="Options of the upload.")
    size_bytes: int = Field(description="Size of the upload.")
    parsed_bytes: int | None = Field(
        description="Number of these bytes that have been parsed, while the state is ingesting; "
        "null if unknown, as for formats that are read as a whole."
    )
    upload_sha256: str = Field(description="SHA-256 of the uploaded bytes.")
    content_sha256: str | None = Field(description="SHA-256 of the stored tasks.")
    n_tasks: int | None = Field(description="Number of tasks; null until it is ready.")
    n_samples: int | None = Field(description="Number of rows in all tasks.")
    n_features: list[int] | None = Field(description="Distinct numbers of columns of the tasks.")
    origin: Origin | None = Field(description="Job that computed it; null for an upload.")
    derived_from: list[Source] | None = Field(
        description="Selections of datasets that it combines; null for an upload."
    )
    issues: list[Place] = Field(
        description="Reasons of the rejection, or of a delay: `resource-shortage`."
    )
    warnings: list[str] = Field(description="Warnings about the data.")
    created_at: datetime = Field(description="Time of the upload.")

    @classmethod
    def from_row(cls, row: DatasetRow) -> "Dataset":
        """Return the schema of a row."""
        tasks = None if row.manifest is None else row.manifest["tasks"]
        return cls(
            id=row.id,
            name=row.name,
            state=row.state,
            media_type=row.media_type,
            options=row.options,
            size_bytes=row.size_bytes,
            parsed_bytes=row.parsed_bytes,
            upload_sha256=row.upload_sha256,
            content_sha256=row.content_sha256,
            n_tasks=None if tasks is None else len(tasks),
            n_samples=None if tasks is None else sum(task["n_samples"] for task in tasks),
            n_features=None if tasks is None else sorted({task["n_features"] for task in tasks}),
            origin=None if row.origin is None else Origin.model_validate(row.origin),
            derived_from=None
            if row.sources is None
            else [Source.model_validate(source, strict=False) for source in row.sources],
            issues=[Place(**place) for place in error_entries(row.issues)],
            warnings=[] if row.manifest is None else warnings_of(row.manifest),
            created_at=row.created_at,
        )


class FeatureSummary(BaseModel):
    """Statistics of each column of a task."""

    min: list[float | None] = Field(description="Minimum, by column; null without a value.")
    max: list[float | None] = Field(description="Maximum, by column; null without a value.")
    mean: list[float | None] = Field(description="Mean, by column; null if it overflows.")
    std: list[float | None] = Field(
        description="Standard deviation, by column; null if it overflows."
    )
    missing: list[int] | None = Field(None, description="Number of missing values, by column.")
    n_counted: int | None = Field(
        None, description="Number of first rows in which distinct values are counted."
    )
    distinct: list[int] | None = Field(
        None,
        description=f"Number of distinct values, of the first {MAX_COLUMNS} columns. With very "
        "many columns, later tasks have neither these numbers nor `counts`.",
    )
    counts: list[list[int]] | None = Field(
        None,
        description=f"Rows in each of {N_BINS} equal intervals from min to max, or by level of a "
        f"category, of the first {MAX_COLUMNS} columns.",
    )


class TargetSummary(BaseModel):
    """Distribution of the targets of a task."""

    kind: str = Field(description="numbers or classes.")
    counts: dict[str, int] | None = Field(
        None, description=f"Rows by class, the {MAX_CLASSES} most frequent."
    )
    min: float | None = Field(None, description="Smallest number.")
    max: float | None = Field(None, description="Largest number.")
    mean: float | None = Field(None, description="Mean of the numbers.")


class Column(BaseModel):
    """A column of all tasks."""

    name: str = Field(description="Name of the column.")
    kind: str = Field(description="number, boolean, category or date.")
    levels: list[str] | None = Field(
        None, description="Values of a category. Its stored numbers are positions in this list."
    )


class Task(BaseModel):
    """A task of a dataset."""

    name: str = Field(description="Task name.")
    n_samples: int = Field(description="Number of rows.")
    n_features: int = Field(description="Number of columns.")
    input: str = Field(description="rows or covariances.")
    target: str = Field(description="none, numbers or classes.")
    classes: list[str | int] | None = Field(None, description="Labels, if the target is classes.")
    rows_of: str | None = Field(None, description="Another task with the same rows.")
    feature_names: list[str] | None = Field(
        None, description="Names of the columns, if tasks differ."
    )
    rows_hash: str | None = Field(
        None, description="Hash of the rows; equal for tasks with the same rows in the same order."
    )
    has_groups: bool = Field(default=False, description="Whether rows have groups.")
    has_weights: bool = Field(default=False, description="Whether rows have weights.")
    n_divisible: int | None = Field(
        None,
        description="Number of rows that can be held out while other rows of their class stay in "
        "training; equal rows and rows of one group are not divided.",
    )
    n_units: int | None = Field(
        None,
        description="Number of sets of rows that are held out together: equal rows, and rows of "
        "one group.",
    )
    n_unlabelled: int = Field(
        0,
        description="Number of further rows, which have no target: methods that need targets do "
        "not use them.",
    )
    n_stored: int | None = Field(
        None, description="Number of stored values of sparse rows; null for dense rows."
    )
    features: FeatureSummary | None = Field(None, description="Omitted for large datasets.")
    target_summary: TargetSummary | None = Field(
        None, description="Distribution of the targets; null without targets."
    )


class Manifest(BaseModel):
    """Contents of a dataset."""

    format: str = Field(description="Format of the stored file, with its version.")
    tasks: list[Task] = Field(description="The tasks.")
    feature_names: list[str] | None = Field(
        description="Column names if all tasks share them; null if they differ or are missing."
    )
    columns: list[Column] | None = Field(
        None, description="Kinds of the columns; null if all are numbers without missing values."
    )
    task_column: str | None = Field(
        None, description="Column of the table with the task of each row; null without one."
    )
    ignored: list[str] = Field(
        default_factory=list,
        description="Columns of the table that are not features: targets, groups, weights, and "
        "columns left out. Rows for a model may have these columns, which are not used.",
    )
    groups: list[str | int | float] | None = Field(
        None, description="Labels of the groups; omitted if there are very many."
    )
    warnings: list[str] = Field(default_factory=list, description="Warnings about the data.")


def error_entries(issues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return issues as entries of the ``errors`` of a problem."""
    return [{"code": "invalid-dataset", **issue} for issue in issues]
