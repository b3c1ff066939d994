"""Scores of predictions against true values."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_variances, is_flat, weighted_mean


def error_rate(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return the share of rows whose label is wrong."""
    return weighted_mean((truth != prediction).astype(np.float64), weights)


def auc(is_class: Any, scores: Any, weights: Array | None = None) -> float:
    """Return the area under the ROC curve.

    For several classes, it is the mean of the areas of each class against the rest. It is NaN if
    the rows lack a class.

    Parameters
    ----------
    is_class, scores : (n_samples, n_classes), or one column where there are two classes
    weights : (n_samples,) or None
    """
    pairs = zip(scores.T, is_class.T, strict=True)
    return float(np.mean([_area(s, p, weights) for s, p in pairs]))


def rmse(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return the root mean squared error over all entries; 0 if it is at the level of rounding."""
    square = weighted_mean((truth - prediction) ** 2, weights)
    return 0.0 if is_flat(square, np.abs(truth).max()) else float(np.sqrt(square))


def r2(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return 1 - Σ(y - f)² / Σ(y - mean of y)²; NaN if y is constant up to rounding."""
    residual = weighted_mean((truth - prediction) ** 2, weights)
    return _explained_share(residual, _variance(truth, weights))


def explained_variance(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return 1 - Var(y - f) / Var(y), which ignores a constant error; NaN if y is constant."""
    unexplained = _spread(truth - prediction, weights)
    return _explained_share(unexplained, _variance(truth, weights))


def retained_variance(centred: Any, image: Any, weights: Array | None = None) -> float:
    """Return 1 - Σ(X - image)² / Σ(X - mean)²; NaN if the rows are constant."""
    residual, total = (centred - image) ** 2, centred**2
    if weights is not None:
        residual, total = weights * residual, weights * total
    return _explained_share(float(np.sum(residual)), float(np.sum(total)))


def brier_losses(p: Array, codes: NDArray[np.intp]) -> Array:
    """Return Σ_k (p_k - o_k)² of each row, where o is 1 for its class; half of it for two classes.

    Parameters
    ----------
    p : (n_samples, n_classes)
    codes : (n_samples,)
        Column of the class of each row; -1 if no column is.
    """
    truth = codes[:, np.newaxis] == np.arange(p.shape[1])
    losses: Array = ((p - truth) ** 2).sum(axis=1) / (2 if p.shape[1] == 2 else 1)
    return losses


def log_losses(p: Array, codes: NDArray[np.intp]) -> Array:
    """Return -log p of the class of each row; a probability of 0 counts as the smallest step.

    Parameters
    ----------
    p, codes
        As in :func:`brier_losses`.
    """
    of_class = np.where(codes < 0, 0.0, p[np.arange(len(p)), codes])
    losses: Array = -np.log(np.maximum(of_class, np.finfo(np.float64).eps))
    return losses


def recall_by_class(
    true: Sequence[str], predicted: Sequence[str], *, limit: int
) -> dict[str, dict[str, Any]]:
    """Return rows, answers and recall of each class, the rarest first.

    Parameters
    ----------
    limit
        Maximum number of classes.
    """
    n_rows, n_answered = Counter(true), Counter(predicted)
    n_found = Counter(label for label, other in zip(true, predicted, strict=True) if label == other)
    rarest = sorted(n_rows, key=lambda label: (n_rows[label], label))[:limit]
    return {
        label: {
            "n_rows": n_rows[label],
            "n_answered": n_answered[label],
            "recall": n_found[label] / n_rows[label],
        }
        for label in rarest
    }


def mean_value(zeros: Any, values: Any, weights: Array | None = None) -> float:
    """Return the mean of values, such as losses; the true values are zeros."""
    del zeros
    return weighted_mean(values, weights)


def plain_mean(zeros: Any, values: Any, weights: Array | None = None) -> float:
    """Return the mean without weights: intervals and sets promise a share of the rows."""
    del zeros, weights
    return float(np.mean(values))


def _area(scores: Any, is_positive: Any, weights: Array | None) -> float:
    if weights is not None:
        return _weighted_area(scores, is_positive, weights)
    positive, negative = scores[is_positive], np.sort(scores[~is_positive])
    if positive.size == 0 or negative.size == 0:
        return float("nan")
    # negative rows with a smaller score, and half of the rows with the same score
    n_smaller = negative.searchsorted(positive, "left").sum()
    n_not_larger = negative.searchsorted(positive, "right").sum()
    return float((n_smaller + n_not_larger) / (2 * positive.size * negative.size))


def _weighted_area(scores: Any, is_positive: Any, weights: Array) -> float:
    order = np.argsort(scores[~is_positive])
    negative, positive = scores[~is_positive][order], scores[is_positive]
    # total weight of the first negative rows
    totals = np.append(0.0, np.cumsum(weights[~is_positive][order]))
    positive_weights = weights[is_positive]
    if not (positive_weights.sum() > 0 and totals[-1] > 0):
        return float("nan")
    smaller = totals[negative.searchsorted(positive, "left")]
    not_larger = totals[negative.searchsorted(positive, "right")]
    return float(
        positive_weights @ (smaller + not_larger) / (2 * positive_weights.sum() * totals[-1])
    )


def _spread(values: Any, weights: Array | None) -> float:
    if weights is None:
        return float(np.var(values))
    return float(column_variances(values[:, np.newaxis], weights)[0])


def _variance(truth: Any, weights: Array | None) -> float:
    """Return the variance; 0 if it is at the level of rounding errors."""
    variance = _spread(truth, weights)
    return 0.0 if is_flat(variance, np.abs(truth).max()) else variance


def _explained_share(residual: float, total: float) -> float:
    return float(1.0 - residual / total) if total > 0 else float("nan")
