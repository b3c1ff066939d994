"""Nested cross-validation of one contender.

In every outer split the contender selects its parameters by cross-validation of the training rows,
is fitted to all of them, and is scored on the held-out rows. The inner score of the selected
parameters is kept too: an automatic choice compares contenders by inner scores alone.

Inner folds must leave almost as many rows as the final fit has: of 20 distinct rows, three folds
leave 13, which do not determine 14 coefficients that 20 rows do. Few rows are cheap to fit, so they
get more folds (:func:`default_inner_folds`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NotRequired, TypedDict

import numpy as np

from algorithms.evaluation.scores.metrics import Average, Metric, metrics_for
from algorithms.evaluation.scores.predictions import PredictionSampler
from algorithms.evaluation.selection.left_out_tasks import score_left_out_tasks
from algorithms.evaluation.selection.paths import fit_candidates, fit_single
from algorithms.evaluation.selection.search import rank_candidates
from algorithms.evaluation.selection.validation import Scores, mean_score, score_model, score_splits
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import AlgorithmError, Cancelled, Diverged, InvalidData
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.splits.requirements import fitting_candidates, min_train_rows
from algorithms.splits.splits import HeldOut, Splits, divide
from algorithms.splits.subsamples import N_PARTS, subsample

Algo = Algorithm[Any, Any]

#: Numbers of inner folds, and the number of distinct rows below which each is the default.
_FOLDS_OF_FEW_ROWS: Final = ((10, 50), (5, 200))
#: Default number of inner folds with more rows.
_FOLDS: Final = 3


class TimeLimit(Exception):
    """A split took longer than its limit."""


class SplitResult(TypedDict):
    """Result of one contender in one outer split, as JSON.

    Parameters
    ----------
    index
        Position of the outer split; None: all rows are training rows, and nothing is held out.
    inner
        Mean inner score of the selected parameters.
    inner_by_task
        The same by task, in each inner fold; None if the fold holds out no row of the task.
    outer
        Scores on the held-out rows, with a sample of the predictions; None if there are none.
    n_rows
        Training rows of a task, on the mean over tasks.
    seconds
        Processor time of selection, fit and scores together.
    fit_s, predict_s
        Processor time of the final fit, and of predictions per 1,000 rows.
    left_out_tasks
        Mean score on left-out tasks, with all rows of the others; None or absent if it is unknown.
    """

    index: int | None
    params: dict[str, Any]
    inner: float | None
    inner_by_task: dict[str, list[float | None]]
    outer: Scores | None
    n_rows: float
    seconds: float
    fit_s: float
    predict_s: float
    left_out_tasks: NotRequired[float | None]


@dataclass(frozen=True, slots=True)
class NestedOptions:
    """How contenders are scored.

    Parameters
    ----------
    splits
        Outer splits.
    n_inner_folds
        Folds of the training rows.
    min_rows
        Minimum number of training rows per task in an outer split.
    limit_s
        Limit on the processor time of one outer split; None: none.
    n_predictions
        Number of held-out rows of an outer split whose predictions are kept.
    n_parts
        Number of parts of the training rows (:mod:`algorithms.splits.subsamples`).
    leaves_tasks_out
        Whether the contender selected with all rows is scored on left-out tasks.
    """

    splits: Splits
    metric: Metric
    average: Average
    n_inner_folds: int
    min_rows: int
    seed: int
    limit_s: float | None = None
    n_predictions: int = 0
    n_parts: int = N_PARTS
    leaves_tasks_out: bool = False


def default_inner_folds(tasks: TaskSet) -> int:
    """Return the default number of inner folds, by the number of distinct rows of all tasks.

    Rows that must be held out together, such as the rows of a group, count as one.
    """
    n_units = len(units_of(tasks).sizes)
    return next((folds for folds, limit in _FOLDS_OF_FEW_ROWS if n_units < limit), _FOLDS)


def score_contender(
    algorithm: Algo,
    candidates: Sequence[Mapping[str, Any]],
    tasks: TaskSet,
    indices: Sequence[int | None],
    options: NestedOptions,
    *,
    trace: Trace,
) -> list[SplitResult]:
    """Return the results of a contender in some outer splits.

    Parameters
    ----------
    indices
        Positions of the splits; None for all rows.

    Raises
    ------
    Diverged
        All candidates failed in a split, or the fit with the selected one did.
    TimeLimit
        A split took longer than its limit.
    """
    return [
        _score_split(algorithm, candidates, tasks, index, options) for index in trace.parts(indices)
    ]


def _score_split(
    algorithm: Algo,
    candidates: Sequence[Mapping[str, Any]],
    tasks: TaskSet,
    index: int | None,
    options: NestedOptions,
) -> SplitResult:
    started = time.process_time()
    new_trace = _limited(started, options.limit_s)
    seed, metric = options.seed, options.metric
    held_out = _held_out(tasks, index, options)
    split = None if held_out is None else divide(tasks, held_out)
    train = subsample(tasks if split is None else split.train, options.n_parts, seed=seed)
    if options.n_parts < N_PARTS:
        candidates = _fitting(algorithm, candidates, train, options)
    try:
        chosen, inner = _select(algorithm, candidates, train, options, new_trace)
        before = time.process_time()
        rng = np.random.default_rng([seed, options.splits.count() if index is None else index])
        (model,) = algorithm.fit_path(
            train, [algorithm.parse(candidates[chosen])], trace=new_trace(), rng=rng
        )
    except Cancelled:
        raise TimeLimit(
            f"one split took longer than its share of the budget, {options.limit_s:.3g} s; raise "
            "budget_s"
        ) from None
    fit_s = time.process_time() - before
    task = train.tasks[0]
    before = time.process_time()
    model.predict(task.X, task=task.name)
    predict_s = (time.process_time() - before) / task.n_samples * 1000
    outer = None
    if index is not None and held_out is not None and split is not None:
        outer = score_model(model, split, tasks.names, [metric])
        metrics, limit = metrics_for([algorithm], tasks.tasks), options.n_predictions
        sampler = PredictionSampler(
            tasks, options.splits, [index], [held_out], metrics, limit=limit
        )
        predicted = sampler.observe(model, split, 0, held_out)
        outer["predictions"] = sampler.to_json(predicted[np.newaxis])
    left_out_tasks = None
    if index is None and options.leaves_tasks_out:
        left_out_tasks = _score_left_out(algorithm, candidates[chosen], tasks, options, new_trace())
    return {
        "index": index,
        "params": dict(candidates[chosen]),
        "inner": mean_score(inner, metric.name, options.average),
        "inner_by_task": inner["by_task"][metric.name],
        "outer": outer,
        "n_rows": float(np.mean([task.n_samples for task in train])),
        "seconds": time.process_time() - started,
        "fit_s": fit_s,
        "predict_s": predict_s,
        "left_out_tasks": left_out_tasks,
    }


def _score_left_out(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: TaskSet,
    options: NestedOptions,
    trace: Trace,
) -> float | None:
    """Return the mean score on left-out tasks; None if the method cannot be fitted without them."""
    fit = fit_single(algorithm, values)
    metric = options.metric
    try:
        scores = score_left_out_tasks(fit, tasks, [metric], seed=options.seed, trace=trace)
    except Cancelled:
        raise
    except AlgorithmError:
        return None
    return mean_score(scores, metric.name, options.average)


def _held_out(tasks: TaskSet, index: int | None, options: NestedOptions) -> HeldOut | None:
    """Return the held-out rows of an outer split; None if all rows are training rows."""
    if index is None:
        return None
    (masks,) = options.splits.held_out(tasks, [index], seed=options.seed, min_rows=options.min_rows)
    return masks


def _fitting(
    algorithm: Algo,
    candidates: Sequence[Mapping[str, Any]],
    train: TaskSet,
    options: NestedOptions,
) -> tuple[dict[str, Any], ...]:
    """Return the candidates that suit few training rows; raise InvalidData if none does."""
    splits = Splits(n_folds=options.n_inner_folds, repeats=1)
    fitting, reason = fitting_candidates(algorithm, candidates, train.summaries(), splits)
    if not fitting:
        raise InvalidData(reason)
    return fitting


def _select(
    algorithm: Algo,
    candidates: Sequence[Mapping[str, Any]],
    train: TaskSet,
    options: NestedOptions,
    new_trace: Callable[[], Trace],
) -> tuple[int, Scores]:
    """Return the best candidate in cross-validation of the training rows, and its scores."""
    parsed = [algorithm.parse(values) for values in candidates]
    splits = Splits(n_folds=options.n_inner_folds, repeats=1)
    scores = score_splits(
        fit_candidates(algorithm, candidates, new_trace=new_trace),
        train,
        splits,
        range(splits.count()),
        n_candidates=len(candidates),
        metrics=[options.metric],
        seed=options.seed,
        trace=new_trace(),
        min_rows=min(options.min_rows, min_train_rows(algorithm, parsed[:1], train.summaries())),
    )
    ranked = rank_candidates(dict(enumerate(scores)), options.metric, options.average)
    if not ranked:
        raise Diverged(f"all {len(candidates)} candidates failed: {scores[0].get('failed')}")
    if mean_score(scores[ranked[0]], options.metric.name, options.average) is None:
        raise InvalidData(
            f"no inner fold holds out rows from which {options.metric.title} can be computed (two "
            "classes of a task for AUC), so the method cannot be compared; use another metric"
        )
    return ranked[0], scores[ranked[0]]


def _limited(started: float, limit_s: float | None) -> Callable[[], Trace]:
    """Return a function that makes traces which stop at the time limit."""
    if limit_s is None:
        return Trace
    return lambda: Trace(is_cancelled=lambda: time.process_time() - started > limit_s)
