"""Fits on one part of the rows, judged on the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.metrics import Average, Metric
from algorithms.evaluation.splits import Split, Splits, divide, explain_nothing_held_out
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]


class Scores(TypedDict):
    """What came of some splits, as JSON.

    Parameters
    ----------
    by_task
        ``{metric: {task: [value in each split]}}``; None where the split holds out no row of the
        task.
    over_rows
        ``{metric: [value of all held-out rows of all tasks in each split]}``; None where the
        metric cannot be taken over tasks.
    """

    by_task: dict[str, dict[str, list[float | None]]]
    over_rows: dict[str, list[float | None]]


_MEANS: Final[dict[str, Average]] = {"mean": "tasks", "over_rows": "rows"}

#: Gives the models of some training rows: one for each candidate that is judged.
Fit = Callable[[TaskSet, np.random.Generator], Sequence[Model]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SplitScores(LoopState):
    """Values (n_splits, n_candidates, n_metrics, n_tasks + 1), the last of all rows.

    NaN where there is none.
    """

    values: Array
    n_done: int


def score_splits(
    fit: Fit,
    tasks: TaskSet,
    splits: Splits,
    indices: Sequence[int],
    *,
    n_candidates: int = 1,
    metrics: Sequence[Metric],
    seed: int,
    trace: Trace,
    min_rows: int = 1,
) -> list[Scores]:
    """Give, for each candidate, every metric on the held-out rows in some of the splits.

    Parameters
    ----------
    fit
        Called with the training rows of a split, and a generator that depends on ``seed`` and the
        split alone.
    min_rows
        Rows of every task that every training part keeps.
    """
    held = splits.held_out(tasks, indices, seed=seed, min_rows=min_rows)

    def step(state: _SplitScores) -> _SplitScores:
        which = state.n_done
        values = state.values.copy()
        split = divide(tasks, held[which])
        if split is not None:
            models = fit(split.train, np.random.default_rng([seed, indices[which]]))
            for candidate, model in enumerate(models):
                values[which, candidate] = _values(model, split, tasks.names, metrics)
        return _split_scores(values, n_done=which + 1)

    shape = (len(held), n_candidates, len(metrics), len(tasks) + 1)
    start = _split_scores(np.full(shape, np.nan), n_done=0)
    values = trace.run("splits", step, start, max_iter=len(held), tolerance=0.0).values
    return [
        _scores(values[:, candidate], metrics, tasks.names) for candidate in range(n_candidates)
    ]


def concatenate_scores(pieces: Sequence[Scores]) -> Scores:
    """Return the scores of some splits and of others as those of all, in their order."""
    whole: Scores = {"by_task": {}, "over_rows": {}}
    for piece in pieces:
        for metric, by_task in piece["by_task"].items():
            for task, values in by_task.items():
                whole["by_task"].setdefault(metric, {}).setdefault(task, []).extend(values)
        for metric, values in piece["over_rows"].items():
            whole["over_rows"].setdefault(metric, []).extend(values)
    return whole


def check_has_scores(scores: Scores, tasks: TaskSet) -> None:
    """Raise InvalidData where nothing could be held out in any split."""
    by_task = (values for found in scores["by_task"].values() for values in found.values())
    if all(value is None for values in by_task for value in values):
        raise InvalidData(
            f"no split holds out a row by which task '{tasks.names[0]}' or another can be judged: "
            f"{explain_nothing_held_out(tasks)}, or the splits name too few; add rows, or hold "
            "out more"
        )


def mean_score(scores: Scores, metric: str, average: Average) -> float | None:
    """Return the mean over splits: of the value of all rows, or of the mean over tasks.

    The mean over tasks is that of each task's mean over its splits; tasks without a value are left
    out.
    """
    if average == "rows":
        return mean_known(scores["over_rows"][metric])
    return mean_known([mean_known(values) for values in scores["by_task"][metric].values()])


def score_per_split(scores: Scores, metric: str, average: Average) -> list[float | None]:
    """Return the value in each split: of all rows, or the mean over tasks."""
    if average == "rows":
        return scores["over_rows"][metric]
    return [mean_known(values) for values in zip(*scores["by_task"][metric].values(), strict=True)]


def mean_scores(scores: Scores) -> dict[str, dict[str, float | None]]:
    """Return the mean over tasks and that over rows of every metric, as JSON."""
    return {
        name: {metric: mean_score(scores, metric, average) for metric in scores["over_rows"]}
        for name, average in _MEANS.items()
    }


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are there; None where none is."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _values(model: Model, split: Split, names: Sequence[str], metrics: Sequence[Metric]) -> Array:
    values = np.full((len(metrics), len(names) + 1), np.nan)
    for m, metric in enumerate(metrics):
        suited = [task for task in split.test if metric.suits(task)]
        seen = [metric.observe(model, task) for task in suited]
        for task, observation in zip(suited, seen, strict=True):
            values[m, names.index(task.name)] = metric.measure(*observation)
        if metric.pools and seen:
            truth, answer = (np.concatenate(side) for side in zip(*seen, strict=True))
            values[m, -1] = metric.measure(truth, answer)
    return values


def _scores(values: Array, metrics: Sequence[Metric], names: Sequence[str]) -> Scores:
    """Return values (n_splits, n_metrics, n_tasks + 1) by their names."""
    return {
        "by_task": {
            metric.name: {
                name: [_known(value) for value in values[:, m, t]] for t, name in enumerate(names)
            }
            for m, metric in enumerate(metrics)
        },
        "over_rows": {
            metric.name: [_known(value) for value in values[:, m, -1]]
            for m, metric in enumerate(metrics)
        },
    }


def _split_scores(values: Array, *, n_done: int) -> _SplitScores:
    done = values[:n_done, :, 0, :-1]
    known = done[np.isfinite(done)]
    objective = float(known.mean()) if known.size else 0.0
    left = 1.0 - n_done / len(values)
    return _SplitScores(objective=objective, residual=left, values=values, n_done=n_done)


def _known(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None
