"""Weights of rows in a fit: their scale, and row weights from weights of classes.

A fit sees rows of positive weight only, with weights of mean 1 in each task. So a common factor of
the weights of a task changes nothing, the strength of a regularisation keeps its meaning, and a row
of weight 0 is as good as absent. How much a task counts among others is not for weights of rows.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.arrays import Array

#: ``"balanced"``: every class of a task has the same total weight. A mapping: weights by class.
ClassWeight = Literal["none", "balanced"] | dict[str, Annotated[float, Field(gt=0, lt=1e100)]]
CLASS_WEIGHT_DESCRIPTION: Final = (
    "Weights of the classes in the fit, which multiply the weights of the rows and are computed "
    "from the training rows of each fit. 'balanced': every class of a task has the same total "
    "weight. "
    "{class: weight}: weights by class; classes that are not named have weight 1."
)


def has_class_weight(class_weight: ClassWeight | None) -> bool:
    """Return whether the classes have different weights."""
    return class_weight is not None and class_weight != "none"


def weigh(tasks: TaskSet, class_weight: ClassWeight | None = None) -> TaskSet:
    """Return the tasks as a fit sees them: without rows of weight 0, with weights of mean 1.

    Tasks whose weights are all equal have no weights.

    Raises
    ------
    InvalidData
        Classes have weights, but a task has no classes, or no task has a class that is named.
    """
    if has_class_weight(class_weight):
        _check_classes(tasks, class_weight)
    return TaskSet(tuple(_weigh(task, class_weight) for task in tasks))


def positive_rows(task: Task) -> Task:
    """Return the task without rows of weight 0."""
    if task.weights is None or task.weights.all():
        return task
    return task.take(np.flatnonzero(task.weights))


def scaled(weights: Array | None) -> Array | None:
    """Return weights (n,) divided by their mean; None if all are equal."""
    if weights is None or (weights == weights[0]).all():
        return None
    relative = weights / weights.max()
    return np.asarray(relative / relative.mean())


def scaled_positive(weights: Array | None) -> Array | None:
    """Return weights (n,) divided by the mean of the positive ones; None if these are equal."""
    if weights is None:
        return None
    is_positive = weights > 0
    positive = scaled(weights[is_positive])
    if positive is None:
        return None
    scaled_weights = np.zeros(len(weights))
    scaled_weights[is_positive] = positive
    return scaled_weights


def weights_of(task: Task) -> Array:
    """Return the weight of each row of a task, (n_samples,); 1 without weights."""
    return np.ones(task.n_samples) if task.weights is None else task.weights


def joint_weights(tasks: TaskSet) -> Array | None:
    """Return the weights of the rows of all tasks, in their order; None if no task has weights."""
    if all(task.weights is None for task in tasks):
        return None
    return np.concatenate([weights_of(task) for task in tasks])


def class_weights(y: NDArray[Any], weights: Array, class_weight: ClassWeight | None) -> Array:
    """Return the weight of the class of each row, (n,).

    Balanced weights are n/(k n_c) for k classes, where n and n_c are sums of weights.

    Parameters
    ----------
    y, weights : (n,)
        Labels, and weights of the rows.
    """
    labels, codes = np.unique(y, return_inverse=True)
    if isinstance(class_weight, Mapping):
        return np.array([class_weight.get(str(label), 1.0) for label in labels.tolist()])[codes]
    sums = np.bincount(codes, weights=weights)
    return np.asarray((sums.sum() / (len(labels) * sums))[codes])


def no_classes(task: str) -> InvalidData:
    """Return the error that classes have weights, but a task has no classes."""
    return InvalidData(
        f"task '{task}' has no classes, which class weights need; train without class_weight",
        task=task,
    )


def _weigh(task: Task, class_weight: ClassWeight | None) -> Task:
    if task.weights is not None and not task.weights.any():
        raise InvalidData(
            f"the weights of the training rows of task '{task.name}' are all zero; give some a "
            "positive weight",
            task=task.name,
        )
    task = positive_rows(task)
    weights = task.weights
    if has_class_weight(class_weight):
        assert task.y is not None  # checked
        weights = weights_of(task)
        weights = weights * class_weights(task.y, weights, class_weight)
    return replace(task, weights=scaled(weights))


def _check_classes(tasks: TaskSet, class_weight: ClassWeight | None) -> None:
    classes: dict[str, None] = {}
    for task in tasks:
        if task.y is None or task.target != "classes":
            raise no_classes(task.name)
        classes |= dict.fromkeys(str(label) for label in np.unique(task.y).tolist())
    for label in class_weight if isinstance(class_weight, Mapping) else ():
        if label not in classes:
            listed = ", ".join(f"'{name}'" for name in list(classes)[:20])
            raise InvalidData(
                f"class_weight names the class '{label}', which no task has; the classes are "
                f"{listed}"
            )
