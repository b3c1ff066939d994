"""Cross-validation of one algorithm with one choice of parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.metrics import Metric
from algorithms.evaluation.splits import Split, fold_split
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]

#: ``{metric: {task: [value in each split]}}``; None where the task has no row to test on.
Scores = dict[str, dict[str, list[float | None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged(LoopState):
    """Values (n_splits, n_metrics, n_tasks); NaN where there is none."""

    values: Array
    n_done: int


def cross_validate(
    algorithm: Algorithm[Any, Any],
    tasks: TaskSet,
    params: Params,
    *,
    metrics: Sequence[Metric],
    n_folds: int,
    seed: int,
    trace: Trace,
) -> Scores:
    """Give every metric on every task in every fold, each fold judged by a fit without it.

    Raises
    ------
    InvalidData
        No task has two rows (of a class), so that nothing can be held out.
    """
    parts = [fold_split(tasks, fold=fold, n_folds=n_folds, seed=seed) for fold in range(n_folds)]
    splits = [part for part in parts if part is not None]
    if not splits:
        raise InvalidData(
            f"task '{tasks.names[0]}' and all others have too few rows to hold any out",
            task=tasks.names[0],
        )

    def step(state: _Judged) -> _Judged:
        fold = state.n_done
        rng = np.random.default_rng([seed, fold])
        model = algorithm.fit(splits[fold].train, params, trace=Trace(), rng=rng)
        values = state.values.copy()
        values[fold] = _judge(model, splits[fold], tasks.names, metrics)
        return _judged(values, n_done=fold + 1)

    start = _judged(np.full((len(splits), len(metrics), len(tasks)), np.nan), n_done=0)
    loop = "cross-validation"
    values = trace.run(loop, step, start, max_iter=len(splits), tolerance=0.0).values
    return {
        metric.name: {
            name: [_known(value) for value in values[:, m, t]] for t, name in enumerate(tasks.names)
        }
        for m, metric in enumerate(metrics)
    }


def mean_score(scores: Mapping[str, Sequence[float | None]]) -> float:
    """Give the mean over tasks of the mean over splits; tasks without a value are left out."""
    known = [[v for v in values if v is not None] for values in scores.values()]
    return float(np.mean([np.mean(values) for values in known if values]))


def _judge(model: Any, split: Split, names: Sequence[str], metrics: Sequence[Metric]) -> Array:
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
