"""Scores of the classes, from any method of a classifier."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.model import Model
from algorithms.numerics.arrays import Array

#: Methods that have scores, the most informative first.
SCORE_METHODS: Final = ("decision_function", "distances", "predict")


def class_scores(model: Model, X: Any, *, task: str) -> Array:
    """Return scores that are larger for rows of the class.

    Distances become margins, the smallest distance to another class minus the distance to the
    class. If a classifier has only labels, the score is 1 for the predicted class and -1 for the
    others.

    Returns
    -------
    (n_samples, 1) for two classes, where the score belongs to the class that sorts last; else
    (n_samples, n_classes).
    """
    classes = model.classes(task)
    method = next(name for name in SCORE_METHODS if name in model.available_methods())
    outputs: NDArray[Any] = getattr(model, method)(X, task=task)
    if method == "predict":
        outputs = np.where(outputs[:, np.newaxis] == np.asarray(classes), 1.0, -1.0)
    elif method == "distances":
        outputs = _margins(outputs)
    if outputs.ndim == 1:
        outputs = outputs[:, np.newaxis]
    is_pair = len(classes) == 2
    scores: Array = outputs[:, -1:] if is_pair else outputs
    return scores


def _margins(distances: Array) -> Array:
    """Return the smallest distance to another class minus the distance to the class."""
    order = np.argsort(distances, axis=1)
    nearest, second = (np.take_along_axis(distances, order[:, [i]], axis=1) for i in (0, 1))
    is_nearest = np.arange(distances.shape[1]) == order[:, :1]
    margins: Array = np.where(is_nearest, second, nearest) - distances
    return margins
