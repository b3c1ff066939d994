"""Encoding of targets as columns of numbers: scaled numbers, or classes as ±1.

A task with two classes has one column, with +1 for the class that sorts last. A task with more
classes has one column per class (one against the rest).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.target_scales import (
    ScaleTargets,
    deviation_of,
    numeric_targets,
    scale_prior,
)
from algorithms.interface.tasks import Task
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_variances, is_flat, weighted_mean
from algorithms.numerics.moderated_scales import ScalePrior

Classes = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The targets of one task.

    Parameters
    ----------
    Y : (n_t, m_t)
        Numbers divided by ``scale`` (m_t = 1), or ±1.
    classes
        Sorted labels; None for numbers.
    scale
        Divisor of the numbers.
    weights : (n_t,) or None
        Weights of the rows, of mean 1; equal by default.
    """

    Y: Array
    classes: Classes | None
    scale: float = 1.0
    weights: Array | None = None


def encode_targets(task: Task, scale: float) -> Targets:
    """Return the encoded targets of a task, with numbers divided by ``scale``."""
    if task.target == "numbers":
        Y = (numeric_targets(task) / scale)[:, np.newaxis]
        return Targets(Y, None, scale, task.weights)
    assert task.y is not None
    labels = task.class_labels()
    positive = labels[1:] if len(labels) == 2 else labels
    Y = np.where(task.y[:, np.newaxis] == positive, 1.0, -1.0)
    return Targets(Y, tuple(labels.tolist()), weights=task.weights)


def prior_of_targets(
    tasks: Sequence[Task], how: ScaleTargets, *, has_intercept: bool
) -> ScalePrior:
    """Return the prior of a task's target scale, estimated from the targets of tasks.

    With the square loss the function for s·y is s times the function for y, so 'all' and 'none' are
    equivalent. Numbers are then divided by the power of two nearest to their deviation: this is
    exact, and sums of squares neither overflow nor underflow.
    """
    if how not in ("all", "none") or tasks[0].target != "numbers":
        return scale_prior(tasks, how, is_centered=has_intercept)
    size = deviation_of(tasks, is_centered=has_intercept)
    size = size or deviation_of(tasks, is_centered=False)
    return ScalePrior(power_of_two(size), math.inf)


def unit_of(prior: ScalePrior) -> float:
    """Return the common divisor of numeric targets; 1 if each task has its own scale."""
    return prior.scale if math.isinf(prior.weight) else 1.0


def power_of_two(size: float) -> float:
    """Return the power of two nearest to a size; 1 for 0."""
    return 2.0 ** round(math.log2(size)) if size > 0 else 1.0


def n_columns(classes: Classes | None) -> int:
    """Return the number of target columns m_t of a task with the given classes."""
    return 1 if classes is None or len(classes) == 2 else len(classes)


def names_of_columns(task: str, classes: Classes | None) -> list[str]:
    """Return a name for each column of a task: the task, or task and class."""
    return [task] if n_columns(classes) == 1 else [f"{task}: {label}" for label in classes or ()]


def decode(scores: Array, classes: Classes | None) -> NDArray[Any]:
    """Return numbers or labels (n,) for scores (n, m_t); of equal scores, the first label."""
    if classes is None:
        return scores[:, 0]
    labels = np.array(classes)
    if len(classes) == 2:
        return np.asarray(labels[(scores[:, 0] > 0).astype(np.intp)])
    return np.asarray(labels[scores.argmax(axis=1)])


def training_scores(
    names: Sequence[str], targets: Sequence[Targets], fitted: Sequence[Array]
) -> dict[str, dict[str, float]]:
    """Return R² or the accuracy of each task on the training rows."""
    is_numbers = targets[0].classes is None
    score = _r2 if is_numbers else _accuracy
    values = {
        name: score(target, F) for name, target, F in zip(names, targets, fitted, strict=True)
    }
    return {"r2" if is_numbers else "accuracy": values}


def _r2(targets: Targets, F: Array) -> float:
    """Return R²; for constant targets, 1 if they are predicted up to rounding and 0 otherwise."""
    w = targets.weights
    error = weighted_mean(((targets.Y - F) ** 2)[:, 0], w)
    total = float(column_variances(targets.Y, w)[0])
    peak = float(np.abs(targets.Y).max())
    return float(is_flat(error, peak)) if is_flat(total, peak) else 1 - error / total


def _accuracy(targets: Targets, F: Array) -> float:
    if F.shape[1] == 1:
        is_right = ((F > 0) == (targets.Y > 0))[:, 0]
    else:
        is_right = F.argmax(axis=1) == targets.Y.argmax(axis=1)
    return weighted_mean(is_right.astype(np.float64), targets.weights)
