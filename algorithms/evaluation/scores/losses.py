"""Losses of models on held-out rows, by which algorithms select parameters."""

from collections.abc import Callable, Mapping

import numpy as np

from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.scores.observations import numbers
from algorithms.interface.model import PredictingModel
from algorithms.interface.tasks import TaskSet
from algorithms.numerics.centering import weighted_mean


def error_rates(model: PredictingModel, tasks: TaskSet) -> dict[str, float]:
    """Return the (weighted) share of wrong labels in each task."""
    metric = METRICS["error_rate"]
    return {task.name: metric.score(model, task) for task in tasks}


def mean_squared_error(
    model: PredictingModel, tasks: TaskSet, scales: Mapping[str, float]
) -> float:
    """Return the mean over tasks of the mean squared error, in units of each task's scale.

    With weights of rows, the mean over the rows of a task is weighted.
    """
    errors = [np.subtract(*numbers(model, task)) / scales.get(task.name, 1.0) for task in tasks]
    means = [
        weighted_mean(error**2, task.weights) for error, task in zip(errors, tasks, strict=True)
    ]
    return float(np.mean(means))


def mean_error_rate(model: PredictingModel, tasks: TaskSet) -> float:
    """Return the mean over tasks of the share of wrong labels."""
    return float(np.mean(list(error_rates(model, tasks).values())))


def held_out_loss(scales: Mapping[str, float]) -> Callable[[PredictingModel, TaskSet], float]:
    """Return the loss function for parameter selection; it takes a model and held-out tasks.

    The loss is the mean over tasks of the error rate, or of the mean squared error.

    Parameters
    ----------
    scales
        Divisors of the errors of each task, so that no task outweighs the others; 1 by default.
    """

    def loss(model: PredictingModel, tasks: TaskSet) -> float:
        if tasks.tasks[0].target == "numbers":
            return mean_squared_error(model, tasks, scales)
        return mean_error_rate(model, tasks)

    return loss
