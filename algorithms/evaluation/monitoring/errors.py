"""Errors on labelled rows against the error that training promised, by task and over all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from algorithms.evaluation.monitoring.pooling import Z_95, PooledChange, pool_changes
from algorithms.evaluation.monitoring.sequential import (
    design_effect,
    excess_bets,
    first_above,
    log_evidence,
)
from algorithms.numerics.arrays import Array

#: A loss counts at most as so many promised ones, so that one wrong target is no alarm.
_MAX_RATIO: Final = 16.0
#: Errors of huge targets are taken as this, so that squares of their squares are finite.
_MAX_ERROR: Final = 1e75
#: Standard errors by which a promise may be too small.
_Z_PROMISE: Final = 2.576
_MIN_RATE: Final = 1e-3
_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Promise:
    """Mean loss on held-out rows: of squared errors, or of wrong classes.

    Attributes
    ----------
    n_rows
        Number of these rows.
    """

    loss: float
    n_rows: int


@dataclass(frozen=True, slots=True, eq=False)
class TaskErrors:
    """Losses of labelled rows of a task, in the order in which the targets came.

    Attributes
    ----------
    losses : (n,)
        Squared errors, or 1 for a wrong class.
    days : (n,)
        Days in the period on which the targets came.
    row_days : (n,)
        Days on which the rows came. Those of one day may have errors that are alike.
    """

    losses: Array
    days: Array
    row_days: Array


@dataclass(frozen=True, slots=True)
class ErrorChange:
    """The mean loss of a task, or of all, and its relation to the promise.

    Attributes
    ----------
    low, high
        Ends of the 95 % interval of the mean loss, for one look at it.
    bound
        What the mean loss is at most if the promise, which has an error, holds; None without it.
        Of all tasks, those without a promise may have any loss.
    log_e
        Logarithm of the largest evidence that the loss is larger than promised; None without
        promise.
    alarm_day
        Day on which the evidence reached the threshold; None if it did not.
    """

    n_rows: int
    loss: float
    low: float
    high: float
    promised: float | None
    bound: float | None = None
    log_e: float | None = None
    alarm_day: float | None = None


def squared_errors(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return squared errors (n,); a huge error counts as :data:`_MAX_ERROR`."""
    with np.errstate(over="ignore"):
        errors = np.asarray(predictions, float) - np.asarray(targets, float)
    return np.asarray(np.minimum(np.abs(errors), _MAX_ERROR) ** 2)


def error_changes(
    errors: Mapping[str, TaskErrors],
    promises: Mapping[str, Promise],
    *,
    is_rate: bool,
    n_days: float,
    alpha: float,
) -> tuple[dict[str, ErrorChange], ErrorChange | None]:
    """Return the change of each task that has labelled rows, and that of all together.

    Parameters
    ----------
    is_rate
        Whether losses are 1 for a wrong class, else 0; otherwise they are squared errors.
    n_days
        Length of the period.
    alpha
        Probability of any false alarm in it, however often it is looked at.
    """
    bounds = _upper_bounds(promises, is_rate=is_rate)
    threshold = np.log((len(promises) + 1) / alpha)
    bets, changes = {}, {}
    for task, of_task in errors.items():
        if not len(of_task.losses):
            continue
        bound = bounds.get(task, 1.0)
        if task in bounds and not (is_rate and bound >= 1):
            relative = np.minimum(of_task.losses / bound, _MAX_RATIO)
            bets[task] = TaskErrors(relative, of_task.days, of_task.row_days)
        promised = promises[task].loss if task in promises else None
        alarm = _alarm(bets.get(task), n_days, threshold)
        changes[task] = _change(of_task.losses, promised, bounds.get(task), alarm, is_rate=is_rate)
    if not changes:
        return {}, None
    losses = np.concatenate([of_task.losses for of_task in errors.values()])
    known = [task for task in changes if task in promises]
    mean: float | None = None
    highest: float | None = None
    if known:
        n_rows = {task: change.n_rows for task, change in changes.items()}
        weights = [n_rows[task] for task in known]
        mean = float(np.average([promises[t].loss for t in known], weights=weights))
        limits = [bounds.get(task, change.loss) for task, change in changes.items()]
        highest = float(np.average(limits, weights=[*n_rows.values()]))
    alarm = _alarm(_of_all_tasks([*bets.values()]), n_days, threshold)
    return changes, _change(losses, mean, highest, alarm, is_rate=is_rate)


def _of_all_tasks(tasks: Sequence[TaskErrors]) -> TaskErrors | None:
    """Return the errors of all tasks in the order in which the targets came."""
    if not tasks:
        return None
    order = np.argsort(np.concatenate([task.days for task in tasks]), kind="stable")
    parts = zip(*((task.losses, task.days, task.row_days) for task in tasks), strict=True)
    return TaskErrors(*(np.concatenate(part)[order] for part in parts))


def _alarm(
    relative: TaskErrors | None, n_days: float, threshold: float
) -> tuple[float | None, float | None]:
    """Return the largest evidence that relative losses are above 1, and the day of an alarm."""
    if relative is None:
        return None, None
    effect = design_effect(relative.losses, relative.row_days)
    evidence = log_evidence(excess_bets(relative.losses) / effect, relative.days, n_days)
    first = first_above(evidence, threshold)
    return float(evidence.max()), None if first is None else float(relative.days[first])


def pooled_ratios(
    changes: Mapping[str, ErrorChange], promises: Mapping[str, Promise], *, is_rate: bool
) -> tuple[list[str], PooledChange] | None:
    """Return tasks, and the changes of the logarithms of their losses against the promises.

    None if no task has labelled rows and a promise.
    """
    tasks = [task for task in changes if task in promises]
    if not tasks:
        return None
    now = [(changes[t].loss, changes[t].n_rows) for t in tasks]
    then = [(promises[t].loss, promises[t].n_rows) for t in tasks]
    logs = [_log_and_variance(loss, n, is_rate=is_rate) for loss, n in (*now, *then)]
    x, variances = np.array(logs).T
    n = len(tasks)
    return tasks, pool_changes(x[:n] - x[n:], variances[:n] + variances[n:])


def share_interval(n_hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Clopper and Pearson)."""
    tail = (1 - _LEVEL) / 2
    low = 0.0 if n_hits == 0 else float(betaincinv(n_hits, n - n_hits + 1, tail))
    high = 1.0 if n_hits == n else float(betaincinv(n_hits + 1, n - n_hits, 1 - tail))
    return low, high


def _log_and_variance(loss: float, n: int, *, is_rate: bool) -> tuple[float, float]:
    """Return the logarithm of a mean loss of n rows, and the variance of its error."""
    if is_rate:
        rate = (loss * n + 0.5) / (n + 1)
        return float(np.log(rate)), (1 - rate) / (n * rate)
    return float(np.log(max(loss, np.finfo(float).tiny))), 2 / n


def _upper_bounds(promises: Mapping[str, Promise], *, is_rate: bool) -> dict[str, float]:
    """Return what mean losses may be at most if the promises hold, drawn to that of all tasks."""
    if not promises:
        return {}
    logs = [_log_and_variance(p.loss, p.n_rows, is_rate=is_rate) for p in promises.values()]
    x, variances = np.array(logs).T
    pooled = pool_changes(x, variances)
    upper = np.exp(pooled.mean + pooled.own + _Z_PROMISE * np.hypot(pooled.own_se, pooled.mean_se))
    if is_rate:
        upper = np.clip(upper, _MIN_RATE, 1.0)
    return dict(zip(promises, upper.tolist(), strict=True))


def _change(
    losses: Array,
    promised: float | None,
    bound: float | None,
    alarm: tuple[float | None, float | None],
    *,
    is_rate: bool,
) -> ErrorChange:
    n, loss = len(losses), float(losses.mean())
    if is_rate:
        low, high = share_interval(int(losses.sum()), n)
    else:
        # squared errors have at least the variance of those of normal errors
        relative = max(float(np.var(losses / (loss or 1.0))), 2.0) / n
        factor = float(np.exp(Z_95 * relative**0.5))
        low, high = loss / factor, loss * factor
    return ErrorChange(n, loss, low, high, promised, bound, *alarm)


def covered(hits: Sequence[bool]) -> tuple[float, float, float]:
    """Return a share and the ends of its 95 % interval."""
    n, n_hits = len(hits), int(sum(hits))
    return n_hits / n, *share_interval(n_hits, n)
