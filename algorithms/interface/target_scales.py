"""Scales of numeric targets: targets are divided by a scale, predictions multiplied by it.

A task whose targets have a much larger standard deviation than others dominates a sum of squared
errors, and the strength of a shared penalty. After scaling, all tasks count the same.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from algorithms.interface.tasks import Task, TaskSet, check_magnitudes
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import weighted_mean
from algorithms.numerics.moderated_scales import ScalePrior, estimate_prior

#: Targets whose relative variation is below this are constant up to rounding.
FLAT_RTOL = 1e-12

ScaleTargets = Literal["moderated", "task", "all", "none"]
#: The parameter of all methods for numeric targets.
ScaleTargetsField = Annotated[
    ScaleTargets,
    Field(
        title="Scale of numeric targets",
        description="Targets are divided by the scale before the fit, and predictions multiplied "
        "by it. 'task': the standard deviation of the task's targets, so that all tasks count the "
        "same, whatever their units. 'moderated': the same, shrunk towards the deviation of all "
        "tasks (empirical Bayes), because a deviation of few rows is uncertain. 'all': one "
        "standard deviation for all tasks. 'none': 1. A task with constant targets gets a typical "
        "scale of the others. Class labels are never scaled.",
    ),
]


def _prior_from_json(values: Mapping[str, Any]) -> ScalePrior:
    weight = values["weight"]
    return ScalePrior(float(values["scale"]), math.inf if weight is None else float(weight))


#: A prior that a header has as JSON; an infinite weight is null.
StoredPrior = Annotated[ScalePrior, BeforeValidator(_prior_from_json)]
#: The prior of old headers, which have none: every task has the same scale.
NO_PRIOR: Final = {"scale": 1.0, "weight": None}


def scale_prior(tasks: Sequence[Task], how: ScaleTargets, *, is_centered: bool) -> ScalePrior:
    """Return the prior of a task's scale, estimated from the targets of tasks; 1 for class labels.

    Parameters
    ----------
    is_centered
        Deviations are from the mean of each task if true, from 0 otherwise.
    """
    if how == "none" or tasks[0].target != "numbers":
        return ScalePrior(1.0, math.inf)
    if how == "all":
        return ScalePrior(deviation_of(tasks, is_centered=is_centered) or 1.0, math.inf)
    scales = [_own(task, is_centered=is_centered) for task in tasks]
    positive = [scale for scale, _ in scales if scale > 0]
    if not positive:
        return ScalePrior(1.0, math.inf)
    if how == "task":
        return ScalePrior(float(np.median(positive)), 0.0)
    return estimate_prior(*zip(*scales, strict=True))


def target_scale(task: Task, prior: ScalePrior, *, is_centered: bool) -> float:
    """Return the scale of a task's targets; 1 for class labels."""
    if task.target != "numbers":
        return 1.0
    return prior.moderate(*_own(task, is_centered=is_centered))


def scales_by_task(tasks: TaskSet, how: ScaleTargets, *, is_centered: bool) -> dict[str, float]:
    """Return the scale of each task; empty for 'all' and 'none', where tasks share one scale.

    Raises
    ------
    InvalidData
        Squares of targets, or of values of a column, overflow or underflow.
    """
    if how in ("all", "none"):
        return {}
    check_magnitudes(tasks)
    prior = scale_prior(tasks.tasks, how, is_centered=is_centered)
    return {task.name: target_scale(task, prior, is_centered=is_centered) for task in tasks}


def deviation(
    parts: Sequence[Array],
    *,
    is_centered: bool,
    weights: Sequence[Array | None] | None = None,
) -> float:
    """Return the root mean square of all numbers after centring each part, or as they are.

    It is 0 if the numbers vary by rounding errors only. It is computed without overflow or
    underflow of squares.

    Parameters
    ----------
    weights
        Weights of the numbers of each part; None: equal ones.
    """
    part_weights = weights or [None] * len(parts)
    means = [
        weighted_mean(y, w) if is_centered else 0.0
        for y, w in zip(parts, part_weights, strict=True)
    ]
    centred = np.concatenate([y - mean for y, mean in zip(parts, means, strict=True)])
    peak = float(np.abs(centred).max())
    if peak <= FLAT_RTOL * max(float(np.abs(y).max()) for y in parts):
        return 0.0
    if all(w is None for w in part_weights):
        return peak * float(np.sqrt(np.mean(centred**2 / peak**2)))
    joint = [np.ones(len(y)) if w is None else w for y, w in zip(parts, part_weights, strict=True)]
    return peak * float(np.sqrt(weighted_mean(centred**2 / peak**2, np.concatenate(joint))))


def deviation_of(tasks: Sequence[Task], *, is_centered: bool) -> float:
    """Return the :func:`deviation` of the targets of tasks."""
    return deviation(
        [numeric_targets(task) for task in tasks],
        is_centered=is_centered,
        weights=[task.weights for task in tasks],
    )


def numeric_targets(task: Task) -> Array:
    """Return the numeric targets of a task, (n_samples,)."""
    assert task.y is not None
    return task.y.astype(np.float64)


def _own(task: Task, *, is_centered: bool) -> tuple[float, int]:
    """Return standard deviation and degrees of freedom; 0 deviation if targets are constant."""
    size, n = deviation_of([task], is_centered=is_centered), task.n_samples
    freedom = n - is_centered
    return (size * math.sqrt(n / freedom) if size > 0 else 0.0), freedom
