"""Calibration for tasks that are not trained: whole tasks are left out in turn.

Task t was left out of the model μ_k(t), and R_i = |y_i - μ_k(t)(x_i)| for its rows, by the common
part of that model. Rows of a task without rows of its own have intervals and sets by CV+ as others
(:mod:`algorithms.wrappers.calibration.conformal`), with weights 1/((T + 1) n_t) for the n_t rows of
each of T tasks. They count how far the tasks are from what they have in common. If tasks are
exchangeable, a row of a new task is covered about as often as the level says, on the mean over such
tasks; all rows of one task may be covered more or less often. Levels reach up to T/(T + 1).

Reference: Dunn, Wasserman, Ramdas, *Distribution-free prediction sets for two-layer hierarchical
models*, JASA 2022, doi:10.1080/01621459.2022.2060112; Lee, Barber, Willett, *Distribution-free
inference with hierarchical data*, 2023
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model, apply
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.weights import positive_rows
from algorithms.numerics.arrays import Array
from algorithms.numerics.scores import brier_losses, log_losses
from algorithms.wrappers.calibration.conformal import (
    HeldOutScores,
    Weighted,
    adaptive_scores,
    loaded_scores,
    lowest_target,
)
from algorithms.wrappers.calibration.probabilities import ProbabilityMap, Scored, learn_maps
from algorithms.wrappers.calibration.scores import class_scores
from algorithms.wrappers.stored import Arrays, Load, below, inside, numbered

#: Name of the only task of the models without some tasks.
NEW: Final = "new"


@dataclass(frozen=True, slots=True, eq=False)
class TaskScores(HeldOutScores):
    """Scores of the rows of tasks that were left out."""

    def of_task(self, task: int, level: float) -> Weighted:
        """Return the left-out rows for rows of a new task, whatever its position."""
        del task, level
        counts = np.bincount(self.owner)
        n_tasks = int((counts > 0).sum())
        weights = 1.0 / (counts[self.owner].astype(np.float64) * (n_tasks + 1.0))
        return Weighted(self.scores, self.folds, weights, is_borrowed=True, lowest=self.lowest)


@dataclass(frozen=True, slots=True, eq=False)
class LeftOutTasks:
    """Calibration for tasks that were not trained.

    Attributes
    ----------
    folds
        The common part of the model without each fold of the tasks.
    maps
        Map from scores to probabilities; none for numbers.
    errors
        Errors on the rows of left-out tasks, each the mean over tasks.
    """

    folds: Sequence[Model]
    maps: Sequence[ProbabilityMap]
    conformal: TaskScores
    errors: Mapping[str, float]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers of the calibration and of its models by name."""
        arrays = inside("conformal", self.conformal.to_arrays())
        for i, task_map in enumerate(self.maps):
            arrays |= inside(f"maps/{i}", task_map.to_arrays())
        for i, model in enumerate(self.folds):
            arrays |= inside(f"folds/{i}", model.to_arrays())
        return arrays

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return {"errors": dict(self.errors), "folds": [model.header() for model in self.folds]}


def leave_tasks_out(
    algorithm: Algorithm[Any, Any],
    tasks: TaskSet,
    params: Params,
    *,
    n_folds: int,
    trace: Trace,
    seed: int,
) -> LeftOutTasks:
    """Return the calibration for tasks that are not trained.

    Raises
    ------
    InvalidData
        The tasks have different classes, or the algorithm cannot be fitted without some of them.
    """
    fold_of = fold_tasks(tasks.names, n_folds=n_folds, seed=seed)
    models, owners, folds, left_out = [], [], [], []
    for fold in sorted(set(fold_of.values())):
        train = TaskSet(tuple(task for task in tasks if fold_of[task.name] != fold))
        algorithm.check(train.summaries(), params)
        rng = np.random.default_rng([seed, fold])
        model: Model = algorithm.fit(train, params, trace=trace.nested(), rng=rng)
        models.append(model.for_new_tasks((NEW,)))
        for t, task in enumerate(map(positive_rows, tasks)):
            if fold_of[task.name] == fold:
                left_out.append((task, models[-1]))
                owners.append(np.full(task.n_samples, t))
                folds.append(np.full(task.n_samples, fold))
    owner, fold_of_row = np.concatenate(owners), np.concatenate(folds)
    if tasks.tasks[0].target == "numbers":
        scores = np.concatenate([_residuals(task, model) for task, model in left_out])
        errors = mean_errors(scores, owner)
        lowest = lowest_target(tasks)
        return LeftOutTasks(
            models, (), TaskScores(scores, fold_of_row, owner, lowest=lowest), errors
        )
    scored = _scored(left_out, owner)
    (task_map,) = learn_maps({NEW: scored}).values()
    p = task_map.apply(scored.scores)
    u = np.random.default_rng(seed).random(len(owner))
    scores = adaptive_scores(p, u)[np.arange(len(owner)), scored.codes]
    losses = {"brier": brier_losses(p, scored.codes), "log_loss": log_losses(p, scored.codes)}
    errors = {name: float(np.mean(_task_means(loss, owner))) for name, loss in losses.items()}
    return LeftOutTasks(models, (task_map,), TaskScores(scores, fold_of_row, owner), errors)


def mean_errors(residuals: Array, owner: NDArray[np.intp]) -> dict[str, float]:
    """Return the errors of numbers, each the mean over the tasks that have residuals."""
    squares = _task_means(residuals**2, owner)
    return {
        "rmse": float(np.mean(np.sqrt(squares))),
        "mae": float(np.mean(_task_means(np.abs(residuals), owner))),
    }


def _task_means(values: Array, owner: NDArray[np.intp]) -> Array:
    """Return the mean of each task that has values."""
    counts = np.bincount(owner)
    means: Array = np.bincount(owner, weights=values)[counts > 0] / counts[counts > 0]
    return means


def fold_tasks(names: Sequence[str], *, n_folds: int, seed: int) -> dict[str, int]:
    """Return the fold in which each task is left out; each alone if there are enough folds.

    Raises
    ------
    InvalidData
        There is only one task.
    """
    names = sorted(names)
    if len(names) < 2:
        raise InvalidData(
            f"'{names[0]}' is the only task, so none can be left out to calibrate for new tasks; "
            "add tasks, or use new_tasks 'refuse'",
            task=names[0],
        )
    order = np.random.default_rng(seed).permutation(len(names))
    return {names[i]: int(position % n_folds) for position, i in enumerate(order)}


def _residuals(task: Task, model: Model) -> Array:
    assert task.y is not None  # checked
    residuals: Array = np.abs(task.y - apply(model, "predict", task.X, task=NEW))
    return residuals


def _scored(left_out: Sequence[tuple[Task, Model]], owner: NDArray[np.intp]) -> Scored:
    """Return the scores of all left-out rows as of one task, each task with the same weight."""
    classes = left_out[0][1].classes(NEW)
    labels = {label for task, _ in left_out for label in np.unique(np.asarray(task.y)).tolist()}
    is_same = all(model.classes(NEW) == classes for _, model in left_out)
    if not is_same or not labels <= set(classes):
        raise InvalidData(
            "tasks have different classes, so none can be left out to calibrate for new tasks; use "
            "new_tasks 'refuse'"
        )
    scores = np.concatenate([class_scores(model, task.X, task=NEW) for task, model in left_out])
    y = np.concatenate([np.asarray(task.y) for task, _ in left_out])
    weights = 1.0 / np.bincount(owner)[owner]
    codes = np.searchsorted(np.asarray(classes), y)
    return Scored(classes, scores, codes, weights / weights.mean())


def load_left_out(arrays: Arrays, header: Mapping[str, Any], *, load: Load) -> LeftOutTasks:
    """Return the calibration from the results of its methods ``to_arrays`` and ``header``.

    Parameters
    ----------
    load
        Makes a model.
    """
    folds, maps = numbered(below(arrays, "folds")), numbered(below(arrays, "maps"))
    return LeftOutTasks(
        [load(folds[i], model_header) for i, model_header in enumerate(header["folds"])],
        [ProbabilityMap.from_arrays(maps[i]) for i in range(len(maps))],
        TaskScores(**loaded_scores(below(arrays, "conformal"))),
        dict(header["errors"]),
    )
