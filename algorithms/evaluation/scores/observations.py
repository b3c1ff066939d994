"""True values and predictions of models on rows of tasks, which metrics compare."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.methods import DEFAULT_LEVEL
from algorithms.interface.model import (
    IntervalModel,
    InvertibleModel,
    PredictingModel,
    ProbabilisticModel,
    ScoringModel,
    SetModel,
)
from algorithms.interface.tasks import Task
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import centre_columns, column_means
from algorithms.splits.splits import labels_of
from algorithms.wrappers.preparation.model import PreparedModel, unwrap
from algorithms.wrappers.wrapped_model import WrappedModel

#: True values and predictions, row by row.
TruthAndPrediction = tuple[Any, Any]


def correctness(model: PredictingModel, task: Task) -> TruthAndPrediction:
    """Return 1 for each row, and whether its label is right (tasks may have different labels)."""
    right = model.predict(task.X, task=task.name) == labels_of(task)
    return np.ones(len(right)), right.astype(np.float64)


def class_scores(model: ScoringModel, task: Task) -> TruthAndPrediction:
    """Return whether each row has each class, and its scores; one column for two classes."""
    y, classes = labels_of(task), model.classes(task.name)
    scores = model.decision_function(task.X, task=task.name)
    if scores.ndim == 1:  # scores of the class that sorts last
        return np.equal(y, classes[-1])[:, np.newaxis], scores[:, np.newaxis]
    return np.stack([y == label for label in classes], axis=1), scores


def probability_losses(
    losses: Callable[[Array, NDArray[np.intp]], Array],
) -> Callable[[ProbabilisticModel, Task], TruthAndPrediction]:
    """Return the function that observes the loss of each row (tasks may have different labels)."""

    def observe(model: ProbabilisticModel, task: Task) -> TruthAndPrediction:
        position = {label: i for i, label in enumerate(model.classes(task.name))}
        codes = np.array([position.get(label, -1) for label in labels_of(task).tolist()])
        values = losses(model.predict_proba(task.X, task=task.name), codes)
        return np.zeros(len(values)), values

    return observe


def _interval_ends(model: IntervalModel, task: Task) -> Array:
    """Return the ends of the intervals; NaN if the task has too few rows for them."""
    try:
        return model.predict_interval(task.X, task=task.name, level=DEFAULT_LEVEL)
    except InvalidData:
        return np.full((task.n_samples, 2), np.nan)


def interval_coverage(model: IntervalModel, task: Task) -> TruthAndPrediction:
    """Return 0 for each row, and whether its target is in its interval; NaN without intervals."""
    low, high = _interval_ends(model, task).T
    is_covered = np.where(np.isnan(low), np.nan, (low <= task.y) & (task.y <= high))
    return np.zeros(task.n_samples), is_covered


def interval_widths(model: IntervalModel, task: Task) -> TruthAndPrediction:
    """Return 0 for each row, and the width of its interval; NaN without intervals."""
    low, high = _interval_ends(model, task).T
    return np.zeros(task.n_samples), high - low


def set_coverage(model: SetModel, task: Task) -> TruthAndPrediction:
    """Return 0 for each row, and whether its class is in its set."""
    is_in = model.predict_set(task.X, task=task.name, level=DEFAULT_LEVEL)
    truth = labels_of(task)[:, np.newaxis] == np.asarray(model.classes(task.name))
    return np.zeros(task.n_samples), (is_in * truth).sum(axis=1)


def set_sizes(model: SetModel, task: Task) -> TruthAndPrediction:
    """Return 0 for each row, and the number of classes in its set."""
    is_in = model.predict_set(task.X, task=task.name, level=DEFAULT_LEVEL)
    return np.zeros(task.n_samples), is_in.sum(axis=1)


def numbers(model: PredictingModel, task: Task) -> TruthAndPrediction:
    """Return the targets, and the predictions of them."""
    if task.y is None or task.target != "numbers":
        raise InvalidData(
            f"task '{task.name}' has no numeric targets to compare predictions with", task=task.name
        )
    return task.y, model.predict(task.X, task=task.name)


def entries(model: InvertibleModel, task: Task) -> TruthAndPrediction:
    """Return the entries of the centred rows and of their reconstructions."""
    if task.input != "rows":
        raise InvalidData(
            f"task '{task.name}' has covariance matrices; models can be scored on rows only",
            task=task.name,
        )
    model, task = _prepared_space(model, task)
    latent = model.transform(task.X, task=task.name)
    image = model.inverse_transform(latent, task=task.name)
    if task.weights is None:
        return centre_columns(task.X).ravel(), (image - column_means(task.X)).ravel()
    mean = column_means(task.X, task.weights)
    return (task.X - mean).ravel(), (image - mean).ravel()


def _prepared_space(model: Any, task: Task) -> tuple[Any, Task]:
    """Return the model of prepared rows, which it reconstructs, and the prepared task."""
    while isinstance(model, WrappedModel) and not isinstance(model, PreparedModel):
        model = model.inner
    model, (task,) = unwrap(model, [task])
    return model, task
