"""Preview of a dataset before training: first rows, columns, targets and suitable algorithms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from algorithms.interface.tasks import Task
from algorithms.numerics.sparse_rows import is_sparse
from algorithms.wrappers.preparation.columns import Column
from service.datasets.canonical import read_tasks
from service.datasets.distributions import (
    MAX_COLUMNS,
    MAX_ROWS_COUNTED,
    N_BINS,
    Value,
    column_summary,
    describe_all,
    describe_targets,
    shown_value,
    summarise,
    task_columns,
)
from service.datasets.manifest import columns_of_manifest, summaries, warnings_of
from service.datasets.schemas import TargetSummary
from service.datasets.suitability import Outlook, outlooks
from service.settings import MIB
from service.storage.tables import DatasetRow

MAX_TASKS: Final = 20


class ColumnSummary(BaseModel):
    """The values of a column."""

    name: str = Field(description="Name of the column, or its number if it has none.")
    missing: float = Field(description="Share of the rows without a value, 0 to 1.")
    n_distinct: int = Field(description="Number of distinct values.")
    min: Value = Field(description="Smallest value; null for categories and without a value.")
    max: Value = Field(description="Largest value; null for categories and without a value.")
    counts: list[int] = Field(
        description=f"Rows in each of {N_BINS} equal intervals from min to max, or by value of a "
        "category in the order of `values`."
    )
    values: list[str] | None = Field(None, description="Values of a category.")


class ColumnPreview(ColumnSummary):
    """A column of a task."""

    kind: str = Field(description="number, boolean, category or date.")


class WeightSummary(BaseModel):
    """Weights of the rows of a task."""

    min: float = Field(description="Smallest weight.")
    max: float = Field(description="Largest weight.")
    n_zero: int = Field(description="Number of rows of weight 0, which do not count.")


class TaskPreview(BaseModel):
    """A task."""

    name: str = Field(description="Task name.")
    n_samples: int = Field(description="Number of rows, or of covariance matrices.")
    n_unlabelled: int = Field(description="Number of further rows, which have no target.")
    n_features: int = Field(description="Number of columns.")
    input: str = Field(description="rows or covariances.")
    stored: float | None = Field(
        None, description="Share of the values of sparse rows that are stored; null for dense rows."
    )
    n_counted: int = Field(
        description="Number of first rows in which distinct values are counted. With very many "
        "columns, all statistics of a column are from these rows."
    )
    columns: list[ColumnPreview] = Field(
        description=f"The first {MAX_COLUMNS} columns; none for covariances."
    )
    target: TargetSummary | None = Field(description="Targets; null if it has none.")
    weights: WeightSummary | None = Field(description="Weights of rows; null if it has none.")
    rows: list[dict[str, Value]] = Field(description="The requested rows, by column.")
    targets: list[float | str] | None = Field(
        None, description="The targets of these rows; null if the task has none."
    )


class Suitability(BaseModel):
    """Whether an algorithm can be trained on the dataset with default parameters."""

    algorithm: str = Field(description="Name in job specifications.")
    can_train: bool = Field(description="Whether it can be trained.")
    reason: str | None = Field(description="Why it cannot, with advice; null if it can.")
    memory_mb: float | None = Field(
        description="Expected peak memory of a job in MiB, mostly right within a factor of 2; null "
        "if it cannot be trained, or has a parameter without default."
    )


class Preview(BaseModel):
    """Preview of a dataset."""

    dataset_id: str = Field(description="Id of the dataset.")
    name: str = Field(description="Name of the dataset.")
    n_tasks: int = Field(description="Number of tasks.")
    n_samples: int = Field(description="Number of rows in all tasks.")
    columns: list[ColumnPreview] = Field(
        description="The first columns over all tasks, if these have the same columns. Of very "
        "many rows, the first ones of each task."
    )
    target: ColumnPreview | None = Field(
        description="The targets over all tasks; null if they have none, or of several kinds."
    )
    tasks: list[TaskPreview] = Field(description="The requested tasks, or the first ones.")
    algorithms: list[Suitability] = Field(description="Whether each algorithm can be trained.")
    warnings: list[str] = Field(description="Notes about the data and how they were read.")


def preview(
    row: DatasetRow, content: Path, *, names: Sequence[str], n_tasks: int, shown: slice
) -> Preview:
    """Return the preview of a dataset that is ready.

    Parameters
    ----------
    content
        The file with the tasks.
    names
        The tasks to show; if empty, the first ``n_tasks``.
    shown
        The rows of each task to show.

    Raises
    ------
    UnknownTask
        There is no task of one of the names.
    """
    manifest: Mapping[str, Any] = row.manifest or {}
    tasks = read_tasks(content, manifest)
    chosen = [tasks[name] for name in names] if names else list(tasks)[:n_tasks]
    columns = columns_of_manifest(manifest)
    entries = {entry["name"]: entry for entry in manifest["tasks"]}
    # manifests of earlier versions do not have it
    overall = manifest.get("overall") or describe_all(list(tasks), columns)
    return Preview(
        dataset_id=row.id,
        name=row.name,
        n_tasks=len(tasks),
        n_samples=sum(task.n_samples for task in tasks),
        columns=[ColumnPreview(**column) for column in overall["columns"]],
        target=_target(overall["target"], row.options),
        tasks=[_task(task, entries[task.name], columns, shown) for task in chosen],
        algorithms=[
            _suitability(name, outlook) for name, outlook in outlooks(summaries(manifest)).items()
        ],
        warnings=warnings_of(manifest),
    )


def _target(found: dict[str, Any] | None, options: Mapping[str, Any]) -> ColumnPreview | None:
    if found is None:
        return None
    names = options.get("target_column") or []
    return ColumnPreview(**{**found, "name": names[0] if len(names) == 1 else "target"})


def _suitability(algorithm: str, outlook: Outlook) -> Suitability:
    reason, memory_bytes = outlook.obstacle, outlook.memory_bytes
    memory_mb = None if memory_bytes is None else round(memory_bytes / MIB, 1)
    return Suitability(
        algorithm=algorithm, can_train=reason is None, reason=reason, memory_mb=memory_mb
    )


def _task(
    task: Task, entry: Mapping[str, Any], kinds: Sequence[Column] | None, shown: slice
) -> TaskPreview:
    columns = task_columns(task, kinds)
    counted = _dense(task.X[:MAX_ROWS_COUNTED], len(columns))
    rows: list[dict[str, Value]] = [
        {column.name: shown_value(column, x[j]) for j, column in enumerate(columns)}
        for x in _dense(task.X[shown], len(columns))
    ]
    features = entry.get("features") or {}
    n_described = task.n_samples
    if columns and "counts" not in features:  # many columns, or a dataset of an earlier version
        features = summarise(counted[:, : len(columns)], columns)
        n_described = len(counted)
    return TaskPreview(
        name=task.name,
        n_samples=task.n_samples,
        n_unlabelled=entry.get("n_unlabelled", 0),
        n_features=task.n_features,
        input=task.input,
        stored=None
        if task.n_stored is None
        else task.n_stored / (task.n_samples * task.n_features),
        n_counted=len(counted),
        columns=[
            ColumnPreview(**column_summary(column, j, features, n_described))
            for j, column in enumerate(columns)
        ],
        target=entry.get("target_summary") or describe_targets(task),
        weights=_weights(task),
        rows=rows if columns else [],
        targets=_targets(task, shown) if columns else None,
    )


def _dense(rows: Any, n_columns: int) -> Any:
    """Return rows as a dense array; for sparse rows, of the first columns only."""
    return rows[:, :n_columns].toarray() if is_sparse(rows) else rows


def _targets(task: Task, shown: slice) -> list[float | str] | None:
    """Return the targets of some rows: numbers, or classes as text."""
    if task.y is None:
        return None
    is_number = task.target == "numbers"
    return [float(y) if is_number else str(y) for y in task.y[shown]]


def _weights(task: Task) -> WeightSummary | None:
    if task.weights is None:
        return None
    low, high = float(task.weights.min()), float(task.weights.max())
    return WeightSummary(min=low, max=high, n_zero=int((task.weights == 0).sum()))
