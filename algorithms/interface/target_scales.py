"""Units in which numeric targets are learned: they are divided by a scale, predictions multiplied.

Tasks whose targets spread twenty times as far dominate a sum of squared errors, the strength of a
penalty that all tasks share, and its choice. In units of its own spread every task counts alike.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.tasks import Task, TaskSet, check_magnitudes
from algorithms.numerics.moderated_scales import ScalePrior, estimate_prior

Array = NDArray[np.float64]

#: Targets that vary less than this part of their size are constant up to rounding.
FLAT_RTOL = 1e-12

ScaleTargets = Literal["moderated", "task", "all", "none"]
#: The parameter of every method that learns numbers.
ScaleTargetsField = Annotated[
    ScaleTargets,
    Field(
        title="Scale of numeric targets",
        description="Numbers are divided by it before the fit, and predictions multiplied by it. "
        "'task': the standard deviation of the task's own targets, so that every task counts "
        "alike whatever its unit. 'moderated': the same, drawn towards the deviation of all tasks "
        "as far as chance explains the differences (empirical Bayes), for a deviation of few rows "
        "says little. 'all': one standard deviation for all tasks. 'none': 1. A task of constant "
        "targets takes what is typical of the others; class labels are never scaled.",
    ),
]


def scale_prior(tasks: Sequence[Task], how: ScaleTargets, *, is_centered: bool) -> ScalePrior:
    """Return what the targets of these tasks tell of the scale of one; 1 for class labels.

    Parameters
    ----------
    is_centered
        Deviations are about the mean of each task; else they are about 0.
    """
    if how == "none" or tasks[0].target != "numbers":
        return ScalePrior(1.0, math.inf)
    parts = [numeric_targets(task) for task in tasks]
    if how == "all":
        return ScalePrior(deviation(parts, is_centered=is_centered) or 1.0, math.inf)
    own = [_own(y, is_centered=is_centered) for y in parts]
    known = [scale for scale, _ in own if scale > 0]
    if not known:
        return ScalePrior(1.0, math.inf)
    if how == "task":
        return ScalePrior(float(np.median(known)), 0.0)
    return estimate_prior(*zip(*own, strict=True))


def target_scale(task: Task, prior: ScalePrior, *, is_centered: bool) -> float:
    """Return what the targets of a task are divided by; 1 for class labels."""
    if task.target != "numbers":
        return 1.0
    return prior.moderate(*_own(numeric_targets(task), is_centered=is_centered))


def scales_by_task(tasks: TaskSet, how: ScaleTargets, *, is_centered: bool) -> dict[str, float]:
    """Return the scales of tasks that have scales of their own; none under 'all' and 'none'.

    Raises
    ------
    InvalidData
        Squares of targets, or of values of a column, are no numbers.
    """
    if how in ("all", "none"):
        return {}
    check_magnitudes(tasks)
    prior = scale_prior(tasks.tasks, how, is_centered=is_centered)
    return {task.name: target_scale(task, prior, is_centered=is_centered) for task in tasks}


def deviation(parts: Sequence[Array], *, is_centered: bool) -> float:
    """Return the root mean square of all numbers about the mean of their part, or about 0.

    0 where rounding explains it. Squares of the numbers may overflow or vanish.
    """
    rest = np.concatenate([y - y.mean() if is_centered else y for y in parts])
    peak = float(np.abs(rest).max())
    if peak <= FLAT_RTOL * max(float(np.abs(y).max()) for y in parts):
        return 0.0
    return peak * float(np.sqrt(np.mean(rest**2 / peak**2)))


def numeric_targets(task: Task) -> Array:
    """Return the numeric targets of a task, (n_samples,)."""
    assert task.y is not None
    return task.y.astype(np.float64)


def prior_to_json(prior: ScalePrior) -> dict[str, Any]:
    """Return the prior as JSON, an infinite weight as null."""
    return {"scale": prior.scale, "weight": None if math.isinf(prior.weight) else prior.weight}


def prior_from_json(values: Mapping[str, Any] | None, *, scale: float) -> ScalePrior:
    """Return the prior of a header; of one without, this scale for every task."""
    if values is None:
        return ScalePrior(scale, math.inf)
    weight = values["weight"]
    return ScalePrior(float(values["scale"]), math.inf if weight is None else float(weight))


def _own(y: Array, *, is_centered: bool) -> tuple[float, int]:
    """Return standard deviation and degrees of freedom; 0 where the targets are constant."""
    size = deviation([y], is_centered=is_centered)
    freedom = len(y) - is_centered
    return (size * math.sqrt(len(y) / freedom) if size > 0 else 0.0), freedom
