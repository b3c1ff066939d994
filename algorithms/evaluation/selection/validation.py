"""Cross-validation: fit on the training rows of each split and score the held-out rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from algorithms.evaluation.scores.gains import LEVEL
from algorithms.evaluation.scores.metrics import METRICS, Average, Metric
from algorithms.evaluation.scores.observations import TruthAndPrediction
from algorithms.evaluation.scores.predictions import (
    Predictions,
    PredictionSampler,
    join_predictions,
)
from algorithms.evaluation.scores.ratios import MIN_RATIO_ROWS, N_SUMS, add_sums
from algorithms.interface.errors import Diverged, InvalidData
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import LoopState, Trace
from algorithms.interface.weights import positive_rows, weights_of
from algorithms.numerics.arrays import Array
from algorithms.splits.splits import Split, Splits, divide, explain_nothing_held_out
from algorithms.wrappers.preparation.model import unwrap


class Scores(TypedDict):
    """Scores on some splits, as JSON.

    Parameters
    ----------
    by_task
        ``{metric: {task: [value in each split]}}``; None if the split holds out no row of the task.
        Values of ratios are linearised (:mod:`algorithms.evaluation.scores.ratios`).
    over_rows
        ``{metric: [value over the held-out rows of all tasks in each split]}``.
    sums
        What is added over splits, for metrics that are ratios: ``{metric: {task: [sums in each
        split]}}``; absent from results of earlier versions.
    few_rows
        Tasks with too few held-out rows for a ratio.
    failed
        Why a fit failed; absent if none did.
    predictions
        A sample of the predictions for held-out rows; absent if none was asked for.
    """

    by_task: dict[str, dict[str, list[float | None]]]
    over_rows: dict[str, list[float | None]]
    sums: NotRequired[dict[str, dict[str, list[list[float] | None]]]]
    few_rows: NotRequired[list[str]]
    failed: NotRequired[str]
    predictions: NotRequired[Predictions]


_MEANS: Final[dict[str, Average]] = {"mean": "tasks", "over_rows": "rows"}

#: Fit one model per candidate on the given training rows; the error if a fit failed.
Fit = Callable[[TaskSet, np.random.Generator], Sequence[Model | Diverged]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SplitScores(LoopState):
    """Values (n_splits, n_candidates, n_metrics, n_tasks + 1, 7), NaN if there is no value.

    The last entry of the axis of tasks is the value over the rows of all. The last axis has the
    value, and the sums of a ratio. ``has_failed``
    (n_splits, n_candidates) marks fits that failed. ``predictions`` (n_splits, n_rows, 2) are
    predictions of the first candidate for a sample of the held-out rows.
    """

    values: Array
    predictions: Array
    has_failed: NDArray[np.bool_]
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
    n_predictions: int = 0,
) -> list[Scores]:
    """Return the scores of each candidate on the splits with the given indices.

    Parameters
    ----------
    fit
        Called with the training rows of a split and a generator that depends on ``seed`` and the
        split alone.
    indices
        Positions of the splits.
    min_rows
        Minimum number of training rows per task and split.
    n_predictions
        Number of held-out rows of a split for which predictions of the first candidate are kept.
    """
    held_out = splits.held_out(tasks, indices, seed=seed, min_rows=min_rows)
    sampler = PredictionSampler(tasks, splits, indices, held_out, metrics, limit=n_predictions)
    reasons: dict[int, str] = {}

    def step(state: _SplitScores) -> _SplitScores:
        which = state.n_done
        values, has_failed = state.values.copy(), state.has_failed.copy()
        predictions = state.predictions.copy()
        split = divide(tasks, held_out[which])
        if split is not None:
            models = fit(split.train, np.random.default_rng([seed, indices[which]]))
            for candidate, model in enumerate(models):
                if isinstance(model, Diverged):
                    has_failed[which, candidate] = True
                    reasons.setdefault(candidate, model.message)
                else:
                    values[which, candidate] = _values(model, split, tasks.names, metrics)
                    if candidate == 0:
                        predictions[which] = sampler.observe(model, split, which, held_out[which])
        return _split_scores(values, has_failed, predictions, n_done=which + 1)

    shape = (len(held_out), n_candidates, len(metrics), len(tasks) + 1, 1 + N_SUMS)
    unknown, has_failed = np.full(shape, np.nan), np.zeros(shape[:2], dtype=bool)
    start = _split_scores(unknown, has_failed, np.full(sampler.shape, np.nan), n_done=0)
    end = trace.run("splits", step, start, max_iter=len(held_out), tolerance=0.0)
    results = [
        _scores(end.values[:, candidate], metrics, tasks.names) for candidate in range(n_candidates)
    ]
    for candidate in np.flatnonzero(end.has_failed.any(axis=0)):
        # the reason is not in a checkpoint
        results[candidate]["failed"] = reasons.get(int(candidate), "the fit diverged")
    if n_predictions:
        results[0]["predictions"] = sampler.to_json(end.predictions)
    return results


def score_model(
    model: Model, split: Split, names: Sequence[str], metrics: Sequence[Metric]
) -> Scores:
    """Return the scores of a model on the held-out rows of one split.

    Parameters
    ----------
    names
        Names of all tasks.
    """
    return _scores(_values(model, split, names, metrics)[np.newaxis], metrics, names)


def concatenate_scores(pieces: Sequence[Scores]) -> Scores:
    """Return the scores of consecutive pieces of the splits as the scores of all, in order."""
    joined: Scores = {"by_task": {}, "over_rows": {}}
    for piece in pieces:
        for metric, by_task in piece["by_task"].items():
            for task, values in by_task.items():
                joined["by_task"].setdefault(metric, {}).setdefault(task, []).extend(values)
        for metric, values in piece["over_rows"].items():
            joined["over_rows"].setdefault(metric, []).extend(values)
        if "failed" in piece:
            joined.setdefault("failed", piece["failed"])
    predictions = [piece["predictions"] for piece in pieces if "predictions" in piece]
    if predictions:
        joined["predictions"] = join_predictions(predictions)
    sums = [piece["sums"] for piece in pieces if "sums" in piece]
    if not sums or len(sums) < len(pieces):
        return joined
    joined["sums"] = {
        metric: {task: list(chain(*(piece[metric][task] for piece in sums))) for task in by_task}
        for metric, by_task in sums[0].items()
    }
    joined["few_rows"] = pieces[0].get("few_rows", [])
    return _with_pooled_ratios(joined)


def _with_pooled_ratios(scores: Scores) -> Scores:
    """Return scores whose ratios have the value of each split that follows from all splits."""
    by_task, over_rows = dict(scores["by_task"]), dict(scores["over_rows"])
    for name, of_metric in scores.get("sums", {}).items():
        ratio = METRICS[name].ratio
        assert ratio is not None
        sums = np.array(
            [
                [[np.nan] * N_SUMS if s is None else s for s in splits]
                for splits in of_metric.values()
            ]
        )
        by_task[name] = {
            task: [
                None if task in scores.get("few_rows", ()) else _finite(value)
                for value in ratio.per_split(sums[t])
            ]
            for t, task in enumerate(of_metric)
        }
        of_all = np.array([add_sums(of_split) for of_split in sums.swapaxes(0, 1)])
        over_rows[name] = [_finite(value) for value in ratio.per_split(of_all)]
    return {**scores, "by_task": by_task, "over_rows": over_rows}


def without_small_ratios(pieces: Sequence[Scores], splits: Splits) -> list[Scores]:
    """Return the pieces of all splits, without ratios of tasks with too few held-out rows."""
    repeats = splits.repeats if splits.scheme == "kfold" else 1  # hold the same rows out again
    n_rows = {
        task: sum(sums[0] for sums in of_splits if sums is not None) / repeats
        for by_task in concatenate_scores(pieces).get("sums", {}).values()
        for task, of_splits in by_task.items()
    }
    few_rows = [task for task, n in n_rows.items() if n < MIN_RATIO_ROWS]
    return [{**piece, "few_rows": few_rows} for piece in pieces]


def check_has_scores(scores: Scores, tasks: TaskSet) -> None:
    """Raise InvalidData if no split had a row to test on."""
    by_task = (values for by_name in scores["by_task"].values() for values in by_name.values())
    if all(value is None for values in by_task for value in values):
        raise InvalidData(
            f"no split holds out a row of task '{tasks.names[0]}' or of any other: "
            f"{explain_nothing_held_out(tasks)}, or the splits name too few rows; add rows, or "
            "hold out more"
        )


def mean_score(scores: Scores, metric: str, average: Average) -> float | None:
    """Return the mean of a metric.

    For the average "rows", it is the mean over splits of the value over all rows. For "tasks", it
    is the mean over tasks of each task's mean over splits; tasks without a value are left out.
    """
    if average == "rows":
        return mean_known(scores["over_rows"][metric])
    return mean_known([mean_known(values) for values in scores["by_task"][metric].values()])


def score_per_split(scores: Scores, metric: str, average: Average) -> list[float | None]:
    """Return the value of a metric in each split: over all rows, or the mean over tasks."""
    if average == "rows":
        return scores["over_rows"][metric]
    return [mean_known(values) for values in zip(*scores["by_task"][metric].values(), strict=True)]


def mean_scores(scores: Scores) -> dict[str, dict[str, float | None]]:
    """Return the mean of every metric over tasks and over rows, as JSON."""
    return {
        name: {metric: mean_score(scores, metric, average) for metric in scores["over_rows"]}
        for name, average in _MEANS.items()
    }


def means_by_task(scores: Scores) -> dict[str, dict[str, float | None]]:
    """Return the mean of every metric over the splits, ``{metric: {task: value}}``."""
    return {
        metric: {task: mean_known(values) for task, values in by_task.items()}
        for metric, by_task in scores["by_task"].items()
    }


def mean_interval(
    scores: Scores, metric: Metric, average: Average, *, ratio: float, spans_tasks: bool
) -> dict[str, float | None]:
    """Return the 95 % interval of the mean over splits as JSON; None with fewer than two splits.

    The variance is corrected as in :mod:`algorithms.evaluation.scores.gains`. That over few splits
    is hardly known. Tasks whose rows are different have independent errors, so for the mean over
    tasks their variances over the splits are added, with Satterthwaite's degrees of freedom, if
    each task that has a value has two. The interval ends at the bounds of the metric.

    Parameters
    ----------
    ratio
        Held-out rows per training row, n_test/n_train.
    spans_tasks
        Whether some rows of different tasks are held out together, as their errors are alike.
    """
    per_split = score_per_split(scores, metric.name, average)
    by_task = list(scores["by_task"][metric.name].values())
    series = [per_split] if spans_tasks or average == "rows" else by_task
    known = [np.array([value for value in one if value is not None]) for one in series]
    if any(len(values) == 1 for values in known):
        known = [np.array([value for value in per_split if value is not None])]
    known = [values for values in known if len(values) > 1]
    mean = mean_known(per_split)
    if mean is None or not known:
        return {"low": None, "high": None}
    n = np.array([len(values) for values in known])
    variances = np.array([values.var(ddof=1) for values in known]) * (1 / n + ratio)
    reach = 0.0
    if variances.any():
        shares = variances / variances.max()  # of which squares neither overflow nor underflow
        df = shares.sum() ** 2 / (shares**2 / (n - 1)).sum()
        reach = float(stdtrit(df, 1 - LEVEL / 2) * np.sqrt(variances.mean() / len(n)))
    smallest, largest = metric.bounds
    return {"low": max(mean - reach, smallest), "high": min(mean + reach, largest)}


def tasks_without_value(scores: Scores, metric: str) -> list[str]:
    """Return the tasks that have no value in any split, which are left out of means."""
    by_task = scores["by_task"][metric]
    return [task for task, values in by_task.items() if mean_known(values) is None]


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if all are None."""
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if numbers else None


def _values(model: Model, split: Split, names: Sequence[str], metrics: Sequence[Metric]) -> Array:
    values = np.full((len(metrics), len(names) + 1, 1 + N_SUMS), np.nan)
    position = {name: i for i, name in enumerate(names)}
    # raw rows are scored as they were prepared: reconstructions have prepared columns
    model, test = unwrap(model, split.test.tasks)
    for m, metric in enumerate(metrics):
        # listed rows may have weight 0
        suitable = [
            positive_rows(task) for task in test if metric.suits(task) and weights_of(task).any()
        ]
        pairs = [metric.observe(model, task) for task in suitable]
        weights = [
            metric.weights(task, truth) for task, (truth, _) in zip(suitable, pairs, strict=True)
        ]
        for task, pair, task_weights in zip(suitable, pairs, weights, strict=True):
            values[m, position[task.name], 0] = metric.measure(*pair, task_weights)
            if metric.ratio is not None:
                sums = metric.ratio.sums(task.n_samples, *pair, task_weights)
                values[m, position[task.name], 1:] = sums
        if metric.ratio is None and pairs:
            truth, prediction = (np.concatenate(side) for side in zip(*pairs, strict=True))
            values[m, -1, 0] = metric.measure(truth, prediction, _joint(weights, pairs))
    return values


def _joint(weights: Sequence[Array | None], pairs: Sequence[TruthAndPrediction]) -> Array | None:
    """Return the weights of the values of all tasks; None if no task has weights."""
    if all(task_weights is None for task_weights in weights):
        return None
    return np.concatenate(
        [
            np.ones(len(truth)) if task_weights is None else task_weights
            for task_weights, (truth, _) in zip(weights, pairs, strict=True)
        ]
    )


def _scores(values: Array, metrics: Sequence[Metric], names: Sequence[str]) -> Scores:
    """Return values (n_splits, n_metrics, n_tasks + 1, 7) by the names of metrics and tasks."""
    scores: Scores = {
        "by_task": {
            metric.name: {
                name: [_finite(value) for value in values[:, m, t, 0]]
                for t, name in enumerate(names)
            }
            for m, metric in enumerate(metrics)
        },
        "over_rows": {
            metric.name: [_finite(value) for value in values[:, m, -1, 0]]
            for m, metric in enumerate(metrics)
        },
        "sums": {
            metric.name: {
                name: [
                    sums.tolist() if np.isfinite(sums).all() else None
                    for sums in values[:, m, t, 1:]
                ]
                for t, name in enumerate(names)
            }
            for m, metric in enumerate(metrics)
            if metric.ratio is not None
        },
        "few_rows": [],
    }
    return _with_pooled_ratios(scores)


def _split_scores(
    values: Array, has_failed: NDArray[np.bool_], predictions: Array, *, n_done: int
) -> _SplitScores:
    done = values[:n_done, :, 0, :-1, 0]
    finite = done[np.isfinite(done)]
    objective = float(finite.mean()) if finite.size else 0.0
    left = 1.0 - n_done / len(values)
    return _SplitScores(
        objective=objective,
        residual=left,
        values=values,
        predictions=predictions,
        has_failed=has_failed,
        n_done=n_done,
    )


def _finite(value: np.float64) -> float | None:
    return float(value) if np.isfinite(value) else None
