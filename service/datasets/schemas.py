"""API schemas of datasets."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from service.datasets.canonical import warnings_of
from service.http.schemas import Place
from service.rows import DatasetRow


class Origin(BaseModel):
    """Job and model that computed a dataset: enough to reproduce it."""

    job_id: str
    dataset_id: str
    dataset_sha256: str
    model: str
    version: int
    version_id: str
    method: str
    tasks: dict[str, str] | None = Field(
        description="For each task, the task of the model that was used; null for the same names."
    )


class Dataset(BaseModel):
    """A dataset."""

    id: str
    name: str
    state: str = Field(description="uploaded or ingesting; finally ready or rejected.")
    media_type: str
    options: dict[str, Any] = Field(description="Options of the upload.")
    size_bytes: int = Field(description="Size of the upload.")
    upload_sha256: str
    content_sha256: str | None = Field(description="SHA-256 of the stored tasks.")
    n_tasks: int | None
    n_samples: int | None = Field(description="Number of rows in all tasks.")
    n_features: list[int] | None = Field(description="Distinct numbers of columns of the tasks.")
    origin: Origin | None = Field(description="Job that computed it; null for an upload.")
    issues: list[Place] = Field(description="Reasons of the rejection.")
    warnings: list[str] = Field(description="Warnings about the data.")
    created_at: datetime

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
            upload_sha256=row.upload_sha256,
            content_sha256=row.content_sha256,
            n_tasks=None if tasks is None else len(tasks),
            n_samples=None if tasks is None else sum(task["n_samples"] for task in tasks),
            n_features=None if tasks is None else sorted({task["n_features"] for task in tasks}),
            origin=None if row.origin is None else Origin.model_validate(row.origin),
            issues=[Place(**place) for place in error_entries(row.issues)],
            warnings=[] if row.manifest is None else warnings_of(row.manifest),
            created_at=row.created_at,
        )


class FeatureSummary(BaseModel):
    """Statistics of each column of a task."""

    min: list[float]
    max: list[float]
    mean: list[float | None]
    std: list[float | None]


class Task(BaseModel):
    """A task of a dataset."""

    name: str
    n_samples: int
    n_features: int
    input: str = Field(description="rows or covariances.")
    target: str = Field(description="none, numbers or classes.")
    classes: list[str | int] | None = None
    rows_of: str | None = Field(None, description="Another task with the same rows.")
    feature_names: list[str] | None = Field(
        None, description="Names of the columns, if tasks differ."
    )
    rows_hash: str | None = Field(
        None, description="Hash of the rows; equal for tasks with the same rows in the same order."
    )
    has_groups: bool = Field(default=False, description="Whether rows have groups.")
    n_divisible: int | None = Field(
        None,
        description="Number of rows that can be held out while other rows of their class stay in "
        "training; equal rows and rows of one group are not divided.",
    )
    features: FeatureSummary | None = Field(None, description="Omitted for large datasets.")


class Manifest(BaseModel):
    """Contents of a dataset."""

    format: str
    tasks: list[Task]
    feature_names: list[str] | None = Field(
        description="Column names if all tasks share them; null if they differ or are missing."
    )
    groups: list[str | int | float] | None = Field(
        None, description="Labels of the groups; omitted if there are very many."
    )
    warnings: list[str] = Field(default_factory=list, description="Warnings about the data.")


def error_entries(issues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return issues as entries of the ``errors`` of a problem."""
    return [{"code": "invalid-dataset", **issue} for issue in issues]
