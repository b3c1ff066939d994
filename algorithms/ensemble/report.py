"""The report of a race: what each method and their mixture are worth, in the metric of users."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from scipy.special import stdtrit

from algorithms.ensemble.contenders import Contender
from algorithms.ensemble.stack import Stack
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.numerics.arrays import Array

#: Level of the interval of the expected score.
LEVEL: Final = 0.95


def metric_of(stack: Stack) -> str:
    """Return the name of the metric that is reported."""
    return "error_rate" if stack.rows.labels else "rmse"


def scores_by_task(stack: Stack, predictions: Array) -> dict[str, float]:
    """Return the root mean squared error, or the error rate, by task.

    Squares are pooled over the folds before the root.

    Parameters
    ----------
    predictions : (n, C)
        For held-out rows.
    """
    rows, chosen = stack.rows, stack.scored
    found = predictions[chosen]
    if rows.labels:
        found = np.where(rows.is_possible[chosen], found, -np.inf)
        values = stack.means((found.argmax(axis=1) != rows.y[chosen]).astype(np.float64), chosen)
    else:
        residuals = (found[:, 0] - rows.y[chosen]) / rows.unit
        values = rows.unit * np.sqrt(stack.means(residuals**2, chosen))
    names = [rows.tasks.names[t] for t in np.unique(rows.owner[chosen])]
    return dict(zip(names, values.tolist(), strict=True))


def describe_expected(stack: Stack, predictions: Array) -> dict[str, Any]:
    """Return the expected score on new rows of the tasks: its mean, an interval, and by task.

    Parameters
    ----------
    predictions : (n, C)
        By weights that were learned without the fold of each row.
    """
    by_task = scores_by_task(stack, predictions)
    values = np.array(list(by_task.values()))
    T = len(values)
    half = None
    if T > 1:
        half = float(stdtrit(T - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(T))
    mean, metric = float(values.mean()), metric_of(stack)
    smallest, largest = METRICS[metric].bounds
    return {
        "metric": metric,
        "value": mean,
        "low": None if half is None else max(mean - half, smallest),
        "high": None if half is None else min(mean + half, largest),
        "by_task": by_task,
    }


def describe_contenders(
    contenders: Sequence[Contender],
    stack: Stack,
    labels: Sequence[str],
    weights: Mapping[str, float],
    left_out: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return what each contender is worth, the best first, then why others are left out.

    ``loss`` is the mean over tasks of the logarithm of the mean squared error in units of the
    variance of all targets, or of the mean log loss of probabilities; methods are chosen by it.
    """
    losses = stack.task_losses(stack.scored).mean(axis=0)
    described = []
    for a in np.argsort(losses, kind="stable"):
        contender = next(one for one in contenders if one.label == labels[a])
        by_task = scores_by_task(stack, stack.predictions(int(a)))
        described.append(
            {
                **_label(contender),
                "weight": weights.get(contender.label, 0.0),
                "loss": float(losses[a]),
                "value": float(np.mean(list(by_task.values()))),
                "by_task": by_task,
            }
        )
    by_label = {one.label: one for one in contenders}
    return described + [
        {**_label(by_label[label]), "reason": reason} for label, reason in left_out.items()
    ]


def _label(contender: Contender) -> dict[str, Any]:
    return {
        "label": contender.label,
        "algorithm": contender.algorithm.name,
        "params": dict(contender.values),
    }
