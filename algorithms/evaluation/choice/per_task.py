"""Choice for each task whether it is learned with the others or alone, by inner scores.

In an outer split let d_t be the mean over inner folds of the loss of task t by the method that
learns each task alone, minus that by the method that learns them together. A task has few rows, so
that d_t is uncertain, with variance s² (the mean over tasks of the variance over folds, divided by
their number). Empirical Bayes shrinks it towards the mean of all tasks,

    d̂_t = d̄ + τ²/(τ² + s²) (d_t - d̄),   τ² = max(0, Var(d) - s²),

and the task is learned together if d̂_t >= 0. Where tasks do not differ more than by chance, τ² is 0
and all of them get the common choice. Folds of a task share training rows, so s² is a little small.

This choice is a contender like the others (:func:`divided_entry`). Its inner score must not come
from the folds that decided it: the tasks of an inner fold are divided by the other folds alone.

Reference: Efron, Morris, *Data analysis using Stein's estimator and its generalizations*, Journal
of the American Statistical Association 70 (1975), doi:10.1080/01621459.1975.10479864
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from algorithms.evaluation.choice.pipelines import Entry, Pipeline, scores_of
from algorithms.evaluation.scores.metrics import Metric
from algorithms.evaluation.scores.predictions import pick_predictions
from algorithms.evaluation.selection.nested import SplitResult
from algorithms.evaluation.selection.validation import Scores, mean_known

#: Inner scores of each task, in each inner fold; None if the fold holds out no row of the task.
InnerScores = Mapping[str, Sequence[float | None]]


def tasks_together(together: InnerScores, apart: InnerScores, metric: Metric) -> dict[str, bool]:
    """Return, for each task, whether it is to be learned together with the others.

    A task without inner scores gets the choice that is better on the mean of the others.
    """
    sign = -1.0 if metric.larger_is_better else 1.0
    differences = {
        task: np.array(
            [
                sign * (b - a)
                for a, b in zip(together[task], apart[task], strict=True)
                if a is not None and b is not None
            ]
        )
        for task in together
    }
    means = {task: float(d.mean()) for task, d in differences.items() if d.size}
    if not means:
        return dict.fromkeys(together, True)
    common = float(np.mean(list(means.values())))
    variances = [d.var(ddof=1) / d.size for d in differences.values() if d.size > 1]
    noise = float(np.mean(variances)) if variances else np.inf
    spread = float(np.var(list(means.values()), ddof=1)) if len(means) > 1 else 0.0
    signal = max(0.0, spread - noise)
    weight = signal / (signal + noise) if signal > 0 else 0.0
    return {task: common + weight * (means.get(task, common) - common) >= 0 for task in differences}


def tasks_of(
    together: SplitResult, apart: SplitResult, metric: Metric
) -> tuple[list[str], list[str]]:
    """Return the tasks to be learned together and alone, by the inner scores of a split."""
    shares = tasks_together(together["inner_by_task"], apart["inner_by_task"], metric)
    return (
        [task for task, is_shared in shares.items() if is_shared],
        [task for task, is_shared in shares.items() if not is_shared],
    )


def divided_entry(
    entries: Sequence[Entry], together: Pipeline, metric: Metric, *, apart: Sequence[int]
) -> tuple[Entry, int]:
    """Return the choice for each task between learning together and alone as one more contender.

    In every split, a choice has selected the method of the tasks that are learned together; the
    method of the other tasks gives the division the best inner score. Algorithm and parameters come
    from the tasks that are learned together, or from the other tasks if the final fit learns no
    tasks together.

    Parameters
    ----------
    apart
        Positions of the contenders that learn each task alone.

    Returns
    -------
    The contender, and the position of the contender that learns tasks alone with all rows.
    """
    results = []
    for f, i in enumerate(together.chosen):
        sides = {j: entries[j].results[f] for j in apart}
        results.append(_best_division(entries[i].results[f], sides, metric)[1])
    ours = entries[together.final]
    sides = {j: entries[j].final for j in apart}
    which, final = _best_division(ours.final, sides, metric)
    theirs = entries[which]
    shared, alone = tasks_of(ours.final, theirs.final, metric)
    main = ours if shared else theirs
    final["params"] = main.final["params"]
    variant = f"alone by {theirs.algorithm}" if shared and alone else main.variant
    return Entry(main.algorithm, "per_task", variant, results, final), which


def _best_division(
    ours: SplitResult, sides: Mapping[int, SplitResult], metric: Metric
) -> tuple[int, SplitResult]:
    """Return the contender that learns some tasks alone, and the result, best by inner score."""
    sign = -1.0 if metric.larger_is_better else 1.0
    divisions = {j: _divide(ours, theirs, metric) for j, theirs in sides.items()}

    def loss(j: int) -> float:
        inner = divisions[j]["inner"]
        return math.inf if inner is None else sign * inner

    best = min(divisions, key=loss)
    return best, divisions[best]


def with_divided(
    entries: Sequence[Entry], common: Pipeline, divided: Entry, metric: Metric, *, min_effect: float
) -> Pipeline:
    """Return the choice between one method for all tasks and one for each task.

    In every split, and with all rows, tasks are divided if the inner score is better by the share
    ``min_effect``: a model of one fit is simpler.

    Returns
    -------
    A choice among the contenders, with the divided one after them.
    """
    sign = -1.0 if metric.larger_is_better else 1.0

    def position(which: int, plain: SplitResult, by_task: SplitResult) -> int:
        before, after = plain["inner"], by_task["inner"]
        if before is None or after is None:
            return which
        return len(entries) if sign * (before - after) > min_effect * abs(before) else which

    chosen = tuple(
        position(i, entries[i].results[f], divided.results[f]) for f, i in enumerate(common.chosen)
    )
    final = position(common.final, entries[common.final].final, divided.final)
    return Pipeline(chosen, final, scores_of([*entries, divided], chosen))


def _divide(ours: SplitResult, theirs: SplitResult, metric: Metric) -> SplitResult:
    """Return the result of a split in which each task has the result of one of two contenders."""
    shared, _ = tasks_of(ours, theirs, metric)
    inner = _cross_fitted(ours["inner_by_task"], theirs["inner_by_task"], metric)
    return {
        "index": ours["index"],
        "params": {},
        "inner": mean_known([mean_known(values) for values in inner.values()]),
        "inner_by_task": inner,
        "outer": _pick(ours["outer"], theirs["outer"], shared, metric),
        "n_rows": ours["n_rows"],
        "seconds": ours["seconds"] + theirs["seconds"],
        "fit_s": ours["fit_s"] + theirs["fit_s"],
        "predict_s": max(ours["predict_s"], theirs["predict_s"]),
    }


def _cross_fitted(
    together: InnerScores, apart: InnerScores, metric: Metric
) -> dict[str, list[float | None]]:
    """Return the inner scores in each fold if the tasks are divided by the other folds."""
    cross_fitted: dict[str, list[float | None]] = {task: [] for task in together}
    n_folds = len(next(iter(together.values())))
    for fold in range(n_folds):
        without = [
            {task: [*scores[:fold], *scores[fold + 1 :]] for task, scores in side.items()}
            for side in (together, apart)
        ]
        shares = tasks_together(without[0], without[1], metric)
        for task, is_shared in shares.items():
            cross_fitted[task].append((together if is_shared else apart)[task][fold])
    return cross_fitted


def _pick(
    ours: Scores | None, theirs: Scores | None, shared: Sequence[str], metric: Metric
) -> Scores | None:
    """Return the outer scores of each task by its contender; None if no row was held out."""
    if ours is None or theirs is None:
        return None
    by_task = {
        task: (ours if task in shared else theirs)["by_task"][metric.name][task]
        for task in ours["by_task"][metric.name]
    }
    picked: Scores = {"by_task": {metric.name: by_task}, "over_rows": {metric.name: [None]}}
    if metric.name in ours.get("sums", {}) and metric.name in theirs.get("sums", {}):
        sums = {
            task: (ours if task in shared else theirs)["sums"][metric.name][task]
            for task in by_task
        }
        picked["sums"] = {metric.name: sums}
        picked["few_rows"] = ours.get("few_rows", [])
    if "predictions" in ours and "predictions" in theirs:
        picked["predictions"] = pick_predictions(ours["predictions"], theirs["predictions"], shared)
    return picked
