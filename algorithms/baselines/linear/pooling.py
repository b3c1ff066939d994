"""Pooling of tasks, checks of their classes, and adaptation of linear models to a new task."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from algorithms.families.linear.design import Design
from algorithms.families.linear.model import LinearModel
from algorithms.families.linear.targets import Targets
from algorithms.interface.errors import InvalidData
from algorithms.interface.needs import check_same_classes
from algorithms.interface.tasks import Task, TaskSummary

Array = NDArray[np.float64]


def pooled(design: Design) -> Design:
    """Return the design of a single task with the rows of all tasks.

    Raises
    ------
    InvalidData
        The tasks have different labels.
    """
    check_same_classes(design.names, [target.classes for target in design.targets])
    Y = np.concatenate([target.Y for target in design.targets])
    targets = replace(design.targets[0], Y=Y, weights=design.weights_of_rows)
    return replace(design, names=("all",), rows=(np.concatenate(design.rows),), targets=(targets,))


def adapt_linear_model(
    model: LinearModel,
    task: Task,
    *,
    is_pooled: bool,
    has_intercept: bool,
    fit: Callable[[Array, Targets], tuple[Array, Array]],
) -> LinearModel:
    """Return the model with a new task: a function fitted to its rows, or the common one.

    Parameters
    ----------
    is_pooled
        The model has one function for all tasks.
    fit
        Returns W (p, m) and b (m,) for rows (n, p) and targets.
    """
    functions = model.functions
    A, targets = functions.new_rows(task, has_intercept=has_intercept)
    if is_pooled:
        check_same_classes([model.tasks[0], task.name], [functions.classes[0], targets.classes])
        first = functions.columns(0)
        W, b = functions.W[:, first] / targets.scale, functions.intercept[first] / targets.scale
    else:
        W, b = fit(A, targets)
    return LinearModel(functions.with_task(task.name, targets, W, intercept=b, fitted=A @ W + b))


def check_two_classes(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData if a task has more than two classes."""
    for task in summaries:
        if task.n_classes > 2:
            raise InvalidData(
                f"task '{task.name}' has {task.n_classes} classes; {algorithm} supports numbers or "
                "two classes per task: merge classes, or use ridge",
                task=task.name,
            )
