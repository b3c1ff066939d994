"""Targets of any kind as columns of numbers: numbers as they are, classes as ±1.

A task of two classes has one column, +1 for the class that sorts last; of more, one column per
class (one against the rest).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task

Array = NDArray[np.float64]
Classes = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The targets of one task.

    Parameters
    ----------
    Y : (n_t, m_t)
        Numbers (m_t = 1), or ±1.
    classes
        Sorted labels; ``None`` for numbers.
    """

    Y: Array
    classes: Classes | None


def code_targets(task: Task) -> Targets:
    """Give the targets of a task as columns."""
    assert task.y is not None
    if task.target == "numbers":
        return Targets(task.y.astype(np.float64)[:, np.newaxis], None)
    labels = np.unique(task.y)
    positive = labels[1:] if len(labels) == 2 else labels
    Y = np.where(task.y[:, np.newaxis] == positive, 1.0, -1.0)
    return Targets(Y, tuple(labels.tolist()))


def n_columns(classes: Classes | None) -> int:
    """Give m_t for the classes of a task."""
    return 1 if classes is None or len(classes) == 2 else len(classes)


def names_of_columns(task: str, classes: Classes | None) -> list[str]:
    """Give a name for each column of a task: the task, or task and class."""
    return [task] if n_columns(classes) == 1 else [f"{task}: {label}" for label in classes or ()]


def decode(scores: Array, classes: Classes | None) -> NDArray[Any]:
    """Give numbers or labels (n,) for columns of scores (n, m_t); a tie takes the first label."""
    if classes is None:
        return scores[:, 0]
    labels = np.array(classes)
    if len(classes) == 2:
        return np.asarray(labels[(scores[:, 0] > 0).astype(np.intp)])
    return np.asarray(labels[scores.argmax(axis=1)])


def training_scores(
    names: Sequence[str], targets: Sequence[Targets], fitted: Sequence[Array]
) -> dict[str, dict[str, float]]:
    """Give R² of each task of numbers, or the share of right labels, on the training rows."""
    is_numbers = targets[0].classes is None
    score = _explained if is_numbers else _accuracy
    values = {name: score(one, F) for name, one, F in zip(names, targets, fitted, strict=True)}
    return {"r2" if is_numbers else "accuracy": values}


def _explained(targets: Targets, F: Array) -> float:
    error = float(np.sum((targets.Y - F) ** 2))
    total = float(np.sum((targets.Y - targets.Y.mean(axis=0)) ** 2))
    return 1 - error / total if total > 0 else float(error == 0)


def _accuracy(targets: Targets, F: Array) -> float:
    if F.shape[1] == 1:
        return float(np.mean((F > 0) == (targets.Y > 0)))
    return float(np.mean(F.argmax(axis=1) == targets.Y.argmax(axis=1)))
