"""A look at a dataset before training: first rows, columns, targets, and what can be trained."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from algorithms.interface.tasks import Task
from algorithms.preparation.columns import UNKNOWN_LEVEL, Column
from service.datasets.canonical import columns_of_manifest, read_tasks, summaries, warnings_of
from service.datasets.suitability import obstacles
from service.rows import DatasetRow

#: Columns of a task that are shown, and rows from which their values are counted.
MAX_COLUMNS: Final = 100
_MAX_ROWS_COUNTED: Final = 100_000
MAX_TASKS: Final = 20
N_BINS: Final = 10
_MAX_CLASSES: Final = 50

Value = float | str | bool | None


class ColumnPreview(BaseModel):
    """A column of a task."""

    name: str = Field(description="Name of the column, or its number if it has none.")
    kind: str = Field(description="number, boolean, category or date.")
    missing: float = Field(description="Share of the rows without a value, 0 to 1.")
    n_distinct: int = Field(description="Number of distinct values.")
    min: Value = Field(description="Smallest value; null for categories and without a value.")
    max: Value = Field(description="Largest value; null for categories and without a value.")
    counts: list[int] = Field(
        description=f"Rows in each of {N_BINS} equal intervals from min to max, or by value of a "
        "category in the order of `values`."
    )
    values: list[str] | None = Field(None, description="Values of a category.")


class TargetPreview(BaseModel):
    """The targets of a task."""

    kind: str = Field(description="numbers or classes.")
    counts: dict[str, int] | None = Field(
        None, description=f"Rows by class, the {_MAX_CLASSES} most frequent."
    )
    min: float | None = Field(None, description="Smallest number.")
    max: float | None = Field(None, description="Largest number.")
    mean: float | None = Field(None, description="Mean of the numbers.")


class TaskPreview(BaseModel):
    """A task."""

    name: str = Field(description="Task name.")
    n_samples: int = Field(description="Number of rows, or of covariance matrices.")
    n_features: int = Field(description="Number of columns.")
    input: str = Field(description="rows or covariances.")
    n_counted: int = Field(description="Number of first rows from which columns are described.")
    columns: list[ColumnPreview] = Field(
        description=f"The first {MAX_COLUMNS} columns; none for covariances."
    )
    target: TargetPreview | None = Field(description="Targets; null if it has none.")
    rows: list[dict[str, Value]] = Field(description="The first rows, by column.")


class Suitability(BaseModel):
    """Whether an algorithm can be trained on the dataset with default parameters."""

    algorithm: str = Field(description="Name in job specifications.")
    can_train: bool = Field(description="Whether it can be trained.")
    reason: str | None = Field(description="Why not, and what to change.")


class Preview(BaseModel):
    """A look at a dataset."""

    dataset_id: str = Field(description="Id of the dataset.")
    name: str = Field(description="Name of the dataset.")
    n_tasks: int = Field(description="Number of tasks.")
    n_samples: int = Field(description="Number of rows in all tasks.")
    tasks: list[TaskPreview] = Field(description="The tasks asked for, or the first ones.")
    algorithms: list[Suitability] = Field(description="What can be trained.")
    warnings: list[str] = Field(description="Notes about the data and how they were read.")


def preview(
    row: DatasetRow, content: Path, *, names: Sequence[str], n_tasks: int, n_rows: int
) -> Preview:
    """Return a look at a dataset that is ready.

    Parameters
    ----------
    content
        The file with the tasks.
    names
        The tasks to show; if empty, the first ``n_tasks``.

    Raises
    ------
    UnknownTask
        A name is not that of a task.
    """
    manifest: Mapping[str, Any] = row.manifest or {}
    tasks = read_tasks(content, manifest)
    shown = [tasks[name] for name in names] if names else list(tasks)[:n_tasks]
    columns = columns_of_manifest(manifest)
    return Preview(
        dataset_id=row.id,
        name=row.name,
        n_tasks=len(tasks),
        n_samples=sum(task.n_samples for task in tasks),
        tasks=[_task(task, columns, n_rows) for task in shown],
        algorithms=[
            Suitability(algorithm=name, can_train=reason is None, reason=reason)
            for name, reason in obstacles(summaries(manifest)).items()
        ],
        warnings=warnings_of(manifest),
    )


def _task(task: Task, known: Sequence[Column] | None, n_rows: int) -> TaskPreview:
    columns = [] if task.input == "covariances" else _columns(task, known)
    counted = task.X[:_MAX_ROWS_COUNTED]
    described = [_column(column, counted[:, j]) for j, column in enumerate(columns)]
    rows: list[dict[str, Value]] = [
        {column.name: _value(column, x[j]) for j, column in enumerate(columns)}
        for x in counted[:n_rows]
    ]
    return TaskPreview(
        name=task.name,
        n_samples=task.n_samples,
        n_features=task.n_features,
        input=task.input,
        n_counted=len(counted),
        columns=described,
        target=_target(task),
        rows=rows if columns else [],
    )


def _columns(task: Task, known: Sequence[Column] | None) -> list[Column]:
    """Return the first columns of a task, in its order."""
    n_shown = min(task.n_features, MAX_COLUMNS)
    names = task.feature_names or [str(j) for j in range(n_shown)]
    kinds = {column.name: column for column in known or ()}
    return [kinds.get(name, Column(name)) for name in names[:n_shown]]


def _column(column: Column, x: NDArray[np.float64]) -> ColumnPreview:
    values = x[~np.isnan(x)]
    n_distinct = len(np.unique(values))
    missing = 1 - len(values) / len(x)
    if column.kind == "category":
        positions = values[values != UNKNOWN_LEVEL].astype(np.intp)
        counts = np.bincount(positions, minlength=len(column.levels))
        return ColumnPreview(
            name=column.name,
            kind=column.kind,
            missing=missing,
            n_distinct=n_distinct,
            min=None,
            max=None,
            counts=counts.tolist(),
            values=list(column.levels),
        )
    low, high = (values.min(), values.max()) if len(values) else (None, None)
    return ColumnPreview(
        name=column.name,
        kind=column.kind,
        missing=missing,
        n_distinct=n_distinct,
        min=None if low is None else _value(column, low),
        max=None if high is None else _value(column, high),
        counts=_histogram(values),
    )


def _histogram(values: NDArray[np.float64]) -> list[int]:
    """Return the number of values in equal intervals from the smallest to the largest."""
    if not len(values):
        return [0] * N_BINS
    low, high = values.min() / 2, values.max() / 2  # halves, as a difference may overflow
    if low == high:
        return [len(values)] + [0] * (N_BINS - 1)
    shares = (values / 2 - low) / (high - low)
    bins = np.minimum((shares * N_BINS).astype(np.intp), N_BINS - 1)
    counts: list[int] = np.bincount(bins, minlength=N_BINS).tolist()
    return counts


def _value(column: Column, number: float) -> Value:
    """Return a stored number as it was uploaded."""
    if np.isnan(number):
        return None
    if column.kind == "boolean":
        return bool(number)
    if column.kind == "category":
        return None if number == UNKNOWN_LEVEL else column.levels[int(number)]
    if column.kind == "date":
        try:
            return datetime.fromtimestamp(float(number), UTC).isoformat().removesuffix("+00:00")
        except (ValueError, OverflowError, OSError):
            return float(number)
    return float(number)


def _target(task: Task) -> TargetPreview | None:
    y = task.y
    if y is None:
        return None
    if task.target == "classes":
        labels, counts = np.unique(y, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:_MAX_CLASSES]
        found = {str(labels[i]): int(counts[i]) for i in order}
        return TargetPreview(kind="classes", counts=found)
    return TargetPreview(
        kind="numbers", min=float(y.min()), max=float(y.max()), mean=float((y / len(y)).sum())
    )
