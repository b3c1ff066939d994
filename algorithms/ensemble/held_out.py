"""Outputs of the contenders for rows that were held out of their fits, and what they are worth."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model, apply
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.units import units_of
from algorithms.interface.weights import weigh, weights_of
from algorithms.splits.folds import NEVER, spread_folds
from algorithms.splits.splits import rows_of
from algorithms.wrappers.calibration.scores import class_scores

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Labels = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows of all tasks, one task after another, each held out in one fold.

    Parameters
    ----------
    tasks
        Sorted by name.
    labels
        Labels of all tasks, sorted; empty for numbers.
    owner, fold, weights : (n,)
        Position of the task, fold, and weight of each row. Rows of fold −1 always train.
    y : (n,)
        Numbers, or positions in ``labels``.
    is_possible : (n, C)
        Whether the task of a row has each label.
    """

    tasks: TaskSet
    labels: Labels
    owner: Indices
    fold: Indices
    weights: Array
    y: NDArray[Any]
    is_possible: NDArray[np.bool_]

    @classmethod
    def of(cls, tasks: TaskSet, *, n_folds: int, seed: int) -> Self:
        """Return the rows of tasks, which are sorted by name, with folds."""
        owner = np.repeat(np.arange(len(tasks)), [task.n_samples for task in tasks])
        y = np.concatenate([np.asarray(task.y) for task in tasks])
        labels: Labels = ()
        is_possible = np.ones((len(y), 1), dtype=bool)
        if tasks.tasks[0].target == "classes":
            own = [task.class_labels() for task in tasks]
            every = np.unique(np.concatenate(own))
            labels, y = tuple(every.tolist()), np.searchsorted(every, y)
            is_possible = np.array([np.isin(every, some) for some in own])[owner]
        weights = np.concatenate([weights_of(task) for task in tasks])
        fold = _folds(tasks, y if labels else None, n_folds=n_folds, seed=seed)
        return cls(tasks, labels, owner, fold, weights, y, is_possible)

    @cached_property
    def folds(self) -> list[int]:
        """The folds that have a row."""
        return sorted(set(self.fold.tolist()) - {NEVER})

    def train(self, fold: int) -> TaskSet:
        """Return the tasks without the rows of a fold."""
        keep = [np.flatnonzero(part != fold) for part in self._by_task]
        rows = zip(self.tasks, keep, strict=True)
        return weigh(TaskSet(tuple(task.take(positions) for task, positions in rows)))

    def test(self, fold: int) -> list[tuple[Task, Indices]]:
        """Return the rows of a fold, by task, with their positions among all rows."""
        found, start = [], 0
        for task, part in zip(self.tasks, self._by_task, strict=True):
            rows = np.flatnonzero(part == fold)
            if rows.size:
                found.append((task.take(rows), start + rows))
            start += len(part)
        return found

    def mean_error(self, outputs: Array) -> float:
        """Return the mean squared error of the outputs (n, C) that are known, or error rate."""
        is_known = np.isfinite(outputs[:, 0])
        if self.labels:
            return float((outputs[is_known].argmax(axis=1) != self.y[is_known]).mean())
        return float((((outputs[:, 0] - self.y)[is_known] / self.unit) ** 2).mean())

    @cached_property
    def unit(self) -> float:
        """Standard deviation of the numbers."""
        return float(np.std(self.y)) or 1.0

    @property
    def _by_task(self) -> list[Indices]:
        return np.split(self.fold, np.flatnonzero(np.diff(self.owner)) + 1)


def _folds(tasks: TaskSet, codes: Indices | None, *, n_folds: int, seed: int) -> Indices:
    """Return the fold of each row, (n,).

    As in an evaluation, but classes of which a task has a single row count together over all tasks,
    so that such rows are held out, too: else the scored rows would lack the rare class.
    """
    rows = rows_of(tasks, units_of(tasks), seed=[seed])
    if codes is not None:
        single = np.bincount(rows.cell)[rows.cell] == 1
        cell = np.unique(np.where(single, -1 - codes, rows.cell), return_inverse=True)[1]
        rows = replace(rows, cell=cell.astype(np.intp))
    return spread_folds(rows, n_folds=n_folds)


def outputs_of(model: Model, task: Task, labels: Labels) -> Array:
    """Return predicted numbers (n, 1), or a score for each label (n, C).

    Labels that the model does not know have the smallest score of the row. If it knows a single
    one, that has the score 1, and others -1.
    """
    if not labels:
        return np.asarray(apply(model, "predict", task.X, task=task.name))[:, np.newaxis]
    scores = class_scores(model, task.X, task=task.name)
    if not np.isfinite(scores).all():
        raise InvalidData(f"the scores of task '{task.name}' overflow", task=task.name)
    known = model.classes(task.name)
    if len(known) == 1:
        scores = np.tile([-1.0, 1.0], (len(scores), 1))
    elif scores.shape[1] == 1:
        scores = np.hstack([-scores, scores])
    outputs = np.tile(scores.min(axis=1, keepdims=True), len(labels))
    columns = np.searchsorted(np.asarray(labels), known)
    outputs[:, columns] = scores[:, -len(columns) :]
    return outputs
