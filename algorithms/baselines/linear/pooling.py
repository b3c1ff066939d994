"""Pooling of tasks, checks of their classes, and adaptation of linear models to a new task."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import polygamma

from algorithms.baselines.linear.choice import mean_known
from algorithms.baselines.linear.params import PooledParams
from algorithms.families.linear.design import Design
from algorithms.families.linear.model import LinearModel
from algorithms.families.linear.targets import Targets
from algorithms.interface.errors import InvalidData
from algorithms.interface.needs import check_same_classes
from algorithms.interface.target_scales import ScaleTargets, scale_prior
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.task_intercepts import InterceptPath, TaskIntercepts

#: Values of κ: numbers of rows that the intercept of all tasks counts for in that of a task.
INTERCEPT_ROWS: Final = (1000.0, 16.0, 4.0, 1.0, 0.1)
#: Standard deviation over tasks of the logarithm of the variance of targets above which pooled
#: tasks have scales of their own.
MIN_LOG_DEVIATION: Final = 1.4


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


def scales_of_pooled(tasks: TaskSet, params: PooledParams, how: ScaleTargets) -> ScaleTargets:
    """Return the scale of numeric targets of pooled tasks.

    Tasks with intercepts of their own have scales of their own if their deviations truly differ.
    """
    if not params.has_task_intercepts or how in ("all", "none"):
        return "all"
    prior = scale_prior(tasks.tasks, how, is_centered=True)
    log_deviation = float(np.sqrt(polygamma(1, prior.weight / 2)))
    return how if how == "task" or log_deviation > MIN_LOG_DEVIATION else "all"


def intercept_errors(
    pool: Design, sizes: Sequence[int], units: Sequence[Indices], ridges: Sequence[float]
) -> Array:
    """Return the mean squared leave-one-out errors (n_ridges, n_kappas) of pooled rows.

    Those without a row that can be held out are infinite.

    Parameters
    ----------
    sizes
        Number of rows of each task.
    units
        The rows of units of several rows.
    """
    X, target, weights = pool.rows[0], pool.targets[0], pool.weights_of_rows
    errors = np.zeros((len(ridges), len(INTERCEPT_ROWS)))
    for k, kappa in enumerate(INTERCEPT_ROWS):
        path = InterceptPath.of(X, target.Y, TaskIntercepts.of(sizes, weights, kappa))
        for r, ridge in enumerate(ridges):
            squares = np.mean(path.errors(ridge, units=units) ** 2, axis=1)
            errors[r, k] = mean_known(squares, weights)
    return np.where(np.isfinite(errors), errors, np.inf)


def adapt_linear_model(
    model: LinearModel,
    task: Task,
    *,
    is_pooled: bool,
    has_intercept: bool,
    fit: Callable[[Array, Targets], tuple[Array, Array]],
    fit_intercept: Callable[[Array, Targets, Array], Array],
) -> LinearModel:
    """Return the model with a new task: a function fitted to its rows, or the common one.

    Parameters
    ----------
    is_pooled
        The model has one function for all tasks, up to intercepts and scales.
    fit
        Returns W (p, m) and b (m,) for rows (n, p) and targets.
    fit_intercept
        Returns b (m,) for values (n, m) of the common W, targets, and the b (m,) of all tasks.
    """
    functions = model.functions
    A, targets = functions.new_rows(task, has_intercept=has_intercept)
    if is_pooled:
        check_same_classes([model.tasks[0], task.name], [functions.classes[0], targets.classes])
        if functions.common is None:
            first = functions.columns(0)
            W, b = functions.W[:, first] / targets.scale, functions.intercept[first] / targets.scale
        else:
            common = functions.common / functions.target_prior.scale
            W, b = common[:-1], fit_intercept(A @ common[:-1], targets, common[-1])
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
