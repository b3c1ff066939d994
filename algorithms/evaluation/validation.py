"""Fits on one part of the rows, judged on the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.metrics import Metric
from algorithms.evaluation.splits import Split, Splits, nothing_to_hold_out
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]

#: ``{metric: {task: [value in each split]}}``; None where the split holds out no row of the task.
Scores = dict[str, dict[str, list[float | None]]]

#: Gives the model of some training rows.
Fit = Callable[[TaskSet, np.random.Generator], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged(LoopState):
    """Values (n_splits, n_metrics, n_tasks); NaN where there is none."""

    values: Array
    n_done: int


def judge(
    fit: Fit,
    tasks: TaskSet,
    splits: Splits,
    indices: Sequence[int],
    *,
    metrics: Sequence[Metric],
    seed: int,
    trace: Trace,
) -> Scores:
    """Give every metric on the held-out rows of every task in some of the splits.

    Parameters
    ----------
    fit
        Called with the training rows of a split, and a generator that depends on ``seed`` and the
        split alone.

    Raises
    ------
    InvalidData
        Nothing can be held out in any of them.
    """
    parts = [splits.split(tasks, index, seed=seed) for index in indices]
    if all(part is None for part in parts):
        raise nothing_to_hold_out(tasks)

    def step(state: _Judged) -> _Judged:
        which = state.n_done
        values = state.values.copy()
        split = parts[which]
        if split is not None:
            model = fit(split.train, np.random.default_rng([seed, indices[which]]))
            values[which] = _values(model, split, tasks.names, metrics)
        return _judged(values, n_done=which + 1)

    start = _judged(np.full((len(parts), len(metrics), len(tasks)), np.nan), n_done=0)
    values = trace.run("splits", step, start, max_iter=len(parts), tolerance=0.0).values
    return {
        metric.name: {
            name: [_known(value) for value in values[:, m, t]] for t, name in enumerate(tasks.names)
        }
        for m, metric in enumerate(metrics)
    }


def mean_score(scores: Mapping[str, Sequence[float | None]]) -> float:
    """Give the mean over tasks of the mean over splits; tasks without a value are left out."""
    means = [mean_known(values) for values in scores.values()]
    return float(np.mean([mean for mean in means if mean is not None]))


def mean_known(values: Sequence[float | None]) -> float | None:
    """Give the mean of the values that are there; None where none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _values(model: Any, split: Split, names: Sequence[str], metrics: Sequence[Metric]) -> Array:
    values = np.full((len(metrics), len(names)), np.nan)
    for task in split.test:
        for m, metric in enumerate(metrics):
            values[m, names.index(task.name)] = metric.of(model, task)
    return values


def _judged(values: Array, *, n_done: int) -> _Judged:
    done = values[:n_done, 0]
    known = done[np.isfinite(done)]
    objective = float(known.mean()) if known.size else 0.0
    left = 1.0 - n_done / len(values)
    return _Judged(objective=objective, residual=left, values=values, n_done=n_done)


def _known(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None
