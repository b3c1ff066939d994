"""Scores of outputs for held-out rows, by the metric of users, in the splits that hold them out.

A split holds out few rows of a task, and the root of a mean over few rows is too small on average:
by 11 % with three rows. So squared errors are pooled over the splits before the root. With squared
errors S_f and weights W_f of the rows of split f, and R² = Σ S_f / Σ W_f, the value of a split is

    R + F/(2R) (S_f − R² W_f) / Σ W_f,

to first order what the split adds to R. The mean over splits is R, and their variance that of R.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.ensemble.held_out import HeldOutRows, Labels, places_of
from algorithms.evaluation.scores.metrics import METRICS, Metric
from algorithms.evaluation.scores.predictions import (
    Predictions,
    PredictionSampler,
    predictions_per_split,
)
from algorithms.evaluation.selection.validation import (
    Scores,
    concatenate_scores,
    score_model,
    without_small_ratios,
)
from algorithms.interface.tasks import TaskSet
from algorithms.numerics.arrays import Array
from algorithms.splits.splits import Split, Splits


class Answers:
    """Predictions (n, C) for held-out rows, with the methods of a model.

    Its rows are their positions among the held-out rows, (n_samples, 1).
    """

    def __init__(self, rows: HeldOutRows, predictions: Array) -> None:
        self._predictions = predictions
        self._labels = {
            task.name: task.class_labels() for task in rows.tasks if task.target == "classes"
        }
        self._places = {
            name: places_of(labels, rows.labels) for name, labels in self._labels.items()
        }

    def classes(self, task: str) -> Labels:
        """Return the labels of a task; empty for numbers."""
        return tuple(self._labels[task].tolist()) if task in self._labels else ()

    def predict(self, X: Array, *, task: str) -> NDArray[Any]:
        """Return the numbers, or the most probable labels."""
        if task not in self._labels:
            return np.asarray(self._predictions[X[:, 0].astype(np.intp), 0])
        best = self.predict_proba(X, task=task).argmax(axis=1)
        return np.asarray(self._labels[task][best])

    def predict_proba(self, X: Array, *, task: str) -> Array:
        """Return the probabilities of the classes."""
        return np.asarray(self._predictions[X[:, 0].astype(np.intp)][:, self._places[task]])

    def decision_function(self, X: Array, *, task: str) -> Array:
        """Return logarithms of the probabilities; of two classes, of the odds of the second."""
        p = self.predict_proba(X, task=task)
        logarithms = np.log(np.maximum(p, np.finfo(np.float64).tiny))
        return logarithms[:, 1] - logarithms[:, 0] if p.shape[1] == 2 else logarithms


class Scorer:
    """Scores of predictions for held-out rows.

    Parameters
    ----------
    splits
        Options of the splits that hold the rows out.
    """

    def __init__(self, rows: HeldOutRows, splits: Splits, metric: Metric) -> None:
        self._rows, self._splits, self._metric = rows, splits, metric
        self._names = rows.tasks.names

    @cached_property
    def _parts(self) -> list[Split]:
        """The held-out rows of each fold, as their positions."""
        parts = []
        for fold in self._rows.folds:
            tests = TaskSet(
                tuple(
                    replace(task, X=where[:, np.newaxis].astype(np.float64), feature_names=None)
                    for task, where in self._rows.test(fold)
                )
            )
            parts.append(Split(tests, tests))
        return parts

    def scores(self, predictions: Array) -> Scores:
        """Return the scores of predictions (n, C) in each split."""
        answers: Any = Answers(self._rows, predictions)
        pieces = [score_model(answers, part, self._names, [self._metric]) for part in self._parts]
        scores = concatenate_scores(without_small_ratios(pieces, self._splits))
        return self._with_pooled_roots(scores) if self._metric.name == "rmse" else scores

    def sample(self, predictions: Array) -> Predictions:
        """Return a sample of the predictions as a report has them."""
        folds = self._rows.folds
        held_out = [self._rows.held_out[fold] for fold in folds]
        limit = predictions_per_split(self._splits)
        # with scores for a ROC curve, whatever the metric
        names = ("error_rate", "auc") if self._rows.labels else ("rmse",)
        metrics = [METRICS[name] for name in names]
        sampler = PredictionSampler(
            self._rows.tasks, self._splits, folds, held_out, metrics, limit=limit
        )
        answers: Any = Answers(self._rows, predictions)
        found = [
            sampler.observe(answers, part, i, held_out[i]) for i, part in enumerate(self._parts)
        ]
        return sampler.to_json(np.stack(found))

    def _with_pooled_roots(self, scores: Scores) -> Scores:
        """Return scores whose root mean squared errors are pooled over the splits."""
        weights = np.zeros((len(self._names), len(self._parts)))
        which = np.searchsorted(self._rows.folds, self._rows.fold)
        np.add.at(weights, (self._rows.owner, which), self._rows.weights)
        by_task = {
            name: pooled_roots(values, weights[t])
            for t, (name, values) in enumerate(scores["by_task"]["rmse"].items())
        }
        over_rows = pooled_roots(scores["over_rows"]["rmse"], weights.sum(axis=0))
        return {**scores, "by_task": {"rmse": by_task}, "over_rows": {"rmse": over_rows}}


def pooled_roots(roots: Sequence[float | None], weights: Array) -> list[float | None]:
    """Return the value of each split, whose mean is the root over all of them.

    Parameters
    ----------
    roots
        Root mean squared errors; None in splits without rows.
    weights : (K,)
        Sum of the weights of the rows of each split.
    """
    known = [i for i, root in enumerate(roots) if root is not None]
    values: list[float | None] = [None] * len(roots)
    if not known:
        return values
    w = weights[known]
    squares = w * np.array([roots[i] for i in known], dtype=np.float64) ** 2
    mean = squares.sum() / w.sum()
    root = float(np.sqrt(mean))
    scale = len(known) / (2.0 * root * w.sum()) if root > 0 else 0.0
    for i, value in zip(known, root + scale * (squares - mean * w), strict=True):
        values[i] = float(value)
    return values
