"""Datasets on the wire."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from service.datasets.canonical import warnings_of
from service.http import Place
from service.rows import DatasetRow


class Origin(BaseModel):
    """Where a dataset of outputs comes from: enough to compute it again."""

    job_id: str
    dataset_id: str
    dataset_sha256: str
    model: str
    version: int
    version_id: str
    method: str
    tasks: dict[str, str] | None = Field(
        description="Its tasks with the task of the model that each was called as; null where "
        "every one was called by its own name."
    )


class Dataset(BaseModel):
    """A dataset as it stands."""

    id: str
    name: str
    state: str = Field(description="uploaded, ingesting; then ready or rejected for good.")
    media_type: str
    options: dict[str, Any] = Field(description="How the upload was read.")
    size_bytes: int = Field(description="Of the upload.")
    upload_sha256: str
    content_sha256: str | None = Field(description="Of the tasks in their stored form.")
    n_tasks: int | None
    n_samples: int | None = Field(description="In all tasks together.")
    n_features: list[int] | None = Field(description="Each number of columns that tasks have.")
    origin: Origin | None = Field(description="What it was computed from; null for an upload.")
    issues: list[Place] = Field(description="Why it was rejected.")
    warnings: list[str] = Field(description="What its user should know of it, in sentences.")
    created_at: datetime

    @classmethod
    def from_row(cls, row: DatasetRow) -> "Dataset":
        """Return the wire form of a row."""
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
            issues=[Place(**place) for place in places(row.issues)],
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
    rows_of: str | None = Field(None, description="The task that has the very same rows.")
    feature_names: list[str] | None = Field(
        None, description="Names of its columns, where tasks differ in them."
    )
    rows_hash: str | None = Field(
        None, description="The same in tasks of the very same rows, in the same order."
    )
    has_groups: bool = Field(
        default=False, description="Whether it tells which rows belong together."
    )
    n_divisible: int | None = Field(
        None,
        description="Rows that can be held out while others of their class train; equal rows, and "
        "rows of one group, are not divided.",
    )
    features: FeatureSummary | None = Field(None, description="Left out of large datasets.")


class Manifest(BaseModel):
    """What is in a dataset."""

    format: str
    tasks: list[Task]
    feature_names: list[str] | None = Field(
        description="Names of the columns that all tasks share; null where they differ, or have "
        "no names."
    )
    groups: list[str | int | float] | None = Field(
        None, description="Labels of the groups of rows; left out where there are very many."
    )
    warnings: list[str] = Field(
        default_factory=list, description="What its user should know of it, in sentences."
    )


def places(issues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return issues as entries of ``errors``."""
    return [{"code": "invalid-dataset", **issue} for issue in issues]
