"""A sample of the predictions for held-out rows, for plots: not more than a report can hold."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from algorithms.evaluation.scores.metrics import Metric
from algorithms.interface.model import Model
from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.arrays import Array
from algorithms.splits.splits import HeldOut, Split, Splits
from algorithms.wrappers.preparation.model import unwrap

#: Maximum number of rows in a report.
MAX_PREDICTIONS: Final = 1000


class TaskPredictions(TypedDict):
    """Held-out rows of a task, predicted by models that had not seen them."""

    rows: Annotated[list[int], Field(description="Positions of the rows in the task, from 0.")]
    true: Annotated[list[str | int | float], Field(description="Targets.")]
    predicted: Annotated[list[str | int | float], Field(description="Predictions.")]
    scores: Annotated[
        list[float | None],
        Field(description="Decision function of the second of two classes; null elsewhere."),
    ]


class Predictions(TypedDict):
    """A sample of the predictions for held-out rows, evenly spaced."""

    n_rows: Annotated[
        int, Field(description="Number of held-out rows of which these are a sample.")
    ]
    tasks: Annotated[dict[str, TaskPredictions], Field(description="Rows by task.")]


def predictions_per_split(splits: Splits) -> int:
    """Return the number of held-out rows of a split whose predictions a report has room for."""
    # repeats hold the same rows out again
    n_splits = splits.n_folds if splits.scheme == "kfold" else splits.count()
    return max(1, MAX_PREDICTIONS // n_splits)


class PredictionSampler:
    """Chooses held-out rows, and records the models' predictions for them.

    Parameters
    ----------
    held_out
        The held-out rows of the splits with the given indices.
    limit
        Maximum number of rows of a split.
    """

    def __init__(
        self,
        tasks: TaskSet,
        splits: Splits,
        indices: Sequence[int],
        held_out: Sequence[HeldOut],
        metrics: Sequence[Metric],
        *,
        limit: int,
    ) -> None:
        targets = {metric.target for metric in metrics if "predict" in metric.methods}
        self._tasks = [
            task
            for task in tasks
            if limit and task.input == "rows" and task.target in targets and task.y is not None
        ]
        self._has_scores = any("decision_function" in metric.methods for metric in metrics)
        self._labels = {task.name: _labels(task) for task in self._tasks}
        # every row once: repeats hold the same rows out again
        is_first = [splits.scheme != "kfold" or index < splits.n_folds for index in indices]
        self.n_rows = 0
        self._chosen: list[dict[str, NDArray[np.intp]]] = []
        for is_wanted, masks in zip(is_first, held_out, strict=True):
            rows = {
                task.name: np.flatnonzero(masks[task.name]) for task in self._tasks if is_wanted
            }
            self.n_rows += sum(map(len, rows.values()))
            self._chosen.append(_sample(rows, limit))
        sizes = [sum(map(len, rows.values())) for rows in self._chosen]
        #: Number of splits, rows of a split, and values of a row.
        self.shape = (len(held_out), max(sizes, default=0), 2)

    def observe(self, model: Model, split: Split, which: int, held_out: HeldOut) -> Array:
        """Return the predictions (or positions of classes) and scores of a split, (n_rows, 2).

        Parameters
        ----------
        which
            Position of the split.
        held_out
            Whether each row is held out, by task.
        """
        values = np.full(self.shape[1:], np.nan)
        start = 0
        model, tests = unwrap(model, split.test.tasks)
        by_name = {task.name: task for task in tests}
        for name, rows in self._chosen[which].items():
            inside = np.searchsorted(np.flatnonzero(held_out[name]), rows)
            test = by_name[name].take(inside)
            part = values[start : start + len(rows)]
            part[:, 0] = self._predict(model, test)
            if self._has_scores and len(self._labels[name]) == 2:
                part[:, 1] = _second_scores(model, test)
            start += len(rows)
        return values

    def to_json(self, values: Array) -> Predictions:
        """Return recorded values (n_splits, n_rows, 2); rows of failed fits are left out."""
        by_task: dict[str, TaskPredictions] = {}
        for chosen, recorded in zip(self._chosen, values, strict=True):
            start = 0
            for task in self._tasks:
                rows = chosen.get(task.name, np.array([], dtype=np.intp))
                part = recorded[start : start + len(rows)]
                start += len(rows)
                is_known = np.isfinite(part[:, 0])
                if is_known.any():
                    entry = by_task.setdefault(task.name, _empty())
                    self._append(entry, task, rows[is_known], part[is_known])
        return {"n_rows": self.n_rows, "tasks": by_task}

    def _predict(self, model: Any, test: Task) -> Array:
        predicted = model.predict(test.X, task=test.name)
        labels = self._labels[test.name]
        if test.target == "numbers":
            return np.asarray(predicted, dtype=np.float64)
        position = {label: float(i) for i, label in enumerate(labels)}
        return np.array([position.get(label, np.nan) for label in predicted.tolist()])

    def _append(
        self, entry: TaskPredictions, task: Task, rows: NDArray[np.intp], values: Array
    ) -> None:
        assert task.y is not None
        labels = self._labels[task.name]
        entry["rows"] += rows.tolist()
        entry["true"] += task.y[rows].tolist()
        predicted = values[:, 0].tolist()
        entry["predicted"] += (
            predicted if task.target == "numbers" else [labels[int(code)] for code in predicted]
        )
        entry["scores"] += [float(score) if np.isfinite(score) else None for score in values[:, 1]]


def join_predictions(parts: Sequence[Predictions]) -> Predictions:
    """Return the samples of several pieces of the splits as one."""
    joined: Predictions = {"n_rows": sum(part["n_rows"] for part in parts), "tasks": {}}
    for part in parts:
        for name, added in part["tasks"].items():
            entry = joined["tasks"].setdefault(name, _empty())
            entry["rows"] += added["rows"]
            entry["true"] += added["true"]
            entry["predicted"] += added["predicted"]
            entry["scores"] += added["scores"]
    return joined


def _empty() -> TaskPredictions:
    return {"rows": [], "true": [], "predicted": [], "scores": []}


def _labels(task: Task) -> list[Any]:
    """Return the classes of a task, sorted; empty for numbers."""
    if task.target != "classes" or task.y is None:
        return []
    labels: list[Any] = task.class_labels().tolist()
    return labels


def _sample(rows: Mapping[str, NDArray[np.intp]], limit: int) -> dict[str, NDArray[np.intp]]:
    """Return at most ``limit`` rows, evenly spaced over the rows of all tasks."""
    n_rows = sum(map(len, rows.values()))
    if n_rows <= limit:
        return {name: task_rows for name, task_rows in rows.items() if task_rows.size}
    positions = np.linspace(0, n_rows - 1, limit).round().astype(np.intp)
    chosen, start = {}, 0
    for name, task_rows in rows.items():
        inside = positions[(positions >= start) & (positions < start + len(task_rows))] - start
        if inside.size:
            chosen[name] = task_rows[inside]
        start += len(task_rows)
    return chosen


def _second_scores(model: Any, test: Task) -> Array:
    """Return the scores of the second of two classes; NaN if the model knows other classes."""
    scores = np.asarray(model.decision_function(test.X, task=test.name), dtype=np.float64)
    return scores if scores.ndim == 1 else np.full(len(scores), np.nan)
