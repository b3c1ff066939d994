"""Automatic choice of a method, and an unbiased estimate of its score.

Contenders a select their parameters inside the training rows of every outer split f, which gives
inner scores s(a, f) and outer scores o(a, f) (:mod:`algorithms.evaluation.selection.nested`). A
choice among a set S of contenders is a pipeline like any other: in split f it takes the contender
of S with the best s(a, f), so that its score in that split is o(a*(f), f). The mean over splits is
an unbiased estimate of the score of the choice. The best mean of o(a, ·) over contenders is biased:
it is the best of many.

The verdict on learning together has its size from two such pipelines, the choice among methods that
learn tasks together or pooled, and the choice among methods that learn each task alone. That is one
comparison, which needs no correction for the number of methods. Its level is that of a test of the
tasks' functions (:mod:`algorithms.evaluation.choice.sharing`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import ConfigDict, Field
from scipy.special import stdtrit

from algorithms.evaluation.choice.alignment import Alignment
from algorithms.evaluation.choice.per_task import divided_entry, tasks_of, with_divided
from algorithms.evaluation.choice.pipelines import Entry, Pipeline, choose
from algorithms.evaluation.choice.sharing import (
    TASK_LEVEL,
    gain_of_sharing,
    gain_test,
    gains_of_tasks,
    sharing_verdict,
    test_json,
)
from algorithms.evaluation.comparison.families import verdict_of
from algorithms.evaluation.comparison.no_verdict import APART, TOGETHER
from algorithms.evaluation.scores.gains import LEVEL, gain_of
from algorithms.evaluation.scores.metrics import Metric, MetricChoice
from algorithms.evaluation.scores.predictions import Predictions, without_scores
from algorithms.evaluation.selection.validation import (
    Scores,
    mean_known,
    score_per_split,
    tasks_without_value,
)
from algorithms.splits.splits import Splits


class AutomaticOptions(MetricChoice):
    """How an algorithm is chosen automatically."""

    splits: Splits = Field(
        default_factory=Splits,
        description="Outer splits, which hold out the rows for the reported scores.",
    )
    n_inner_folds: int | None = Field(
        None,
        ge=2,
        le=20,
        description="Folds of the training rows, by which methods and parameters are chosen. "
        "Default: 3; 5 with fewer than 200 distinct rows, and 10 with fewer than 50.",
    )
    budget_s: float = Field(
        600.0,
        gt=0.0,
        le=1e7,
        description="Processor time of all methods together, in seconds. After the first split, "
        "methods that would exceed it are left out, the slowest first.",
    )
    algorithms: list[str] | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Names of the algorithms to compare. Default: all that suit the data.",
    )
    min_effect: float = Field(
        0.01,
        ge=0.0,
        le=1.0,
        description="Smallest relevant difference, relative to the value of the method that learns "
        "each task alone. The verdict on a smaller difference is 'equal'.",
    )
    curve: bool = Field(
        default=False,
        description="Make the choice also with 1/4, 1/2 and 3/4 of the training rows of each task, "
        "for an estimate of the number of rows per task from which learning together no longer "
        "helps. Takes about one and a half times as long again, within `budget_s`.",
    )
    per_task: bool = Field(
        default=False,
        description="Compare also a choice for each task: learned together by the best method that "
        "learns together, or alone by the best method for the remaining tasks. It is taken if its "
        "inner score is better than the score of one method by `min_effect`; the model then "
        "has two fits. Needs the average 'tasks'.",
    )

    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True, slots=True)
class AutomaticChoice:
    """An automatic choice.

    Parameters
    ----------
    chosen
        The contender that is chosen with all rows.
    report
        The report, as JSON.
    predictions
        A sample of the predictions for held-out rows, each by the contender that was chosen without
        them; None if none were kept.
    """

    chosen: Entry
    report: dict[str, Any]
    predictions: Predictions | None


def report_choice(
    entries: Sequence[Entry],
    metric: Metric,
    options: AutomaticOptions,
    *,
    n_inner_folds: int,
    ratio: float,
    alignment: Alignment | None = None,
    n_rows: Mapping[str, int] | None = None,
) -> AutomaticChoice:
    """Return the choice among some contenders.

    Parameters
    ----------
    n_inner_folds
        Number of inner folds that the options, or the rows, have led to.
    ratio
        Held-out rows per training row in the outer splits.
    alignment
        The test whether the functions of tasks point the same way; None if there is none.
    n_rows
        Rows of each task; unknown if None.
    """
    common = choose(entries, (*TOGETHER, *APART), metric, is_compared=False)
    assert common is not None  # the caller has at least one contender that may be chosen
    together = choose(entries, TOGETHER, metric)
    apart = choose(entries, APART, metric)
    # the average over rows does not follow from the scores of tasks
    divided, alone = None, 0
    n_tasks = len(entries[0].scores["by_task"][metric.name])
    is_divisible = options.average == "tasks" and n_tasks > 1
    if together is not None and apart is not None and is_divisible:
        members = [i for i, entry in enumerate(entries) if entry.role in APART]
        divided, alone = divided_entry(entries, together, metric, apart=members)
    everything = common
    is_allowed = together is not None and entries[together.final].may_be_chosen
    if options.per_task and divided is not None and is_allowed:
        everything = with_divided(entries, common, divided, metric, min_effect=options.min_effect)
        entries = [*entries, divided]
    chosen = entries[everything.final]
    report: dict[str, Any] = {
        "metric": metric.name,
        "title": metric.title,
        "larger_is_better": metric.larger_is_better,
        "average": options.average,
        "min_effect": options.min_effect,
        "splits": options.splits.to_json(),
        "n_splits": options.splits.count(),
        "n_inner_folds": n_inner_folds,
        "without_value": tasks_without_value(everything.scores, metric.name),
        "chosen": chosen.label(),
        "alone": None,
        "estimate": {
            **_estimate(everything.scores, metric, options, ratio=ratio),
            "chosen": [entries[i].label() for i in everything.chosen],
        },
        "leaderboard": _leaderboard(entries, everything, metric, options, ratio=ratio),
        "choice_or_best": _against_best(entries, everything, metric, options, ratio=ratio),
        "alignment": None if alignment is None else asdict(alignment),
        "together_or_apart": _sharing(
            entries, together, apart, metric, options, ratio=ratio, alignment=alignment
        ),
        "multi_task_or_pooled": _pair(
            entries,
            choose(entries, ("multi_task",), metric),
            choose(entries, ("pooled",), metric),
            metric,
            options,
            ratio=ratio,
        ),
        "tasks": gains_of_tasks(
            common,
            together,
            apart,
            metric,
            min_effect=options.min_effect,
            ratio=ratio,
            n_rows=n_rows or {},
        ),
        "task_confidence": 1 - TASK_LEVEL,
        "per_task": None,
    }
    if divided is not None and together is not None:
        pair = (entries[together.final], entries[alone])
        per_task = _per_task(divided, pair, common, metric, options, ratio=ratio)
        report["per_task"] = per_task
        if chosen is divided:
            report["alone"] = _alone(per_task, pair[1])
    return AutomaticChoice(chosen, report, _predictions(entries, everything))


def _predictions(entries: Sequence[Entry], everything: Pipeline) -> Predictions | None:
    """Return the held-out predictions of the choice; with scores if one method has made them all.

    Scores of different methods have different scales, so a ROC curve cannot join them.
    """
    predictions: Predictions | None = everything.scores.get("predictions")
    chosen = [entries[i] for i in set(everything.chosen)]
    is_one = len(chosen) == 1 and chosen[0].role != "per_task"
    return predictions if predictions is None or is_one else without_scores(predictions)


def _estimate(
    scores: Scores, metric: Metric, options: AutomaticOptions, *, ratio: float
) -> dict[str, float | None]:
    """Return the mean over splits with its 95 % interval, by the corrected variance.

    As in all comparisons, it is the mean over splits of the mean over tasks, which differs from the
    mean over tasks of means over splits if some splits hold out no row of a task. The interval ends
    at the bounds of the metric.
    """
    per_split = score_per_split(scores, metric.name, options.average)
    values = np.array([value for value in per_split if value is not None])
    mean = mean_known(per_split)
    if len(values) < 2 or mean is None:
        return {"value": mean, "low": None, "high": None}
    reach = float(stdtrit(len(values) - 1, 1 - LEVEL / 2))
    reach *= float(np.sqrt(values.var(ddof=1) * (1 / len(values) + ratio)))
    smallest, largest = metric.bounds
    return {
        "value": mean,
        "low": max(mean - reach, smallest),
        "high": min(mean + reach, largest),
    }


def _leaderboard(
    entries: Sequence[Entry],
    everything: Pipeline,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
) -> list[dict[str, Any]]:
    """Return a row for each contender, the best outer mean first."""
    wins = _wins(entries, metric)
    rows = [
        {
            **entry.label(),
            **_estimate(entry.scores, metric, options, ratio=ratio),
            "inner": entry.final["inner"],
            "left_out_tasks": entry.final.get("left_out_tasks"),
            "n_task_wins": wins[i],
            "n_chosen": everything.chosen.count(i),
            "fit_s": float(np.mean([result["fit_s"] for result in entry.results])),
            "predict_s": float(np.mean([result["predict_s"] for result in entry.results])),
            "total_s": float(sum(result["seconds"] for result in (*entry.results, entry.final))),
            "params": entry.final["params"],
        }
        for i, entry in enumerate(entries)
    ]
    sign = -1.0 if metric.larger_is_better else 1.0
    return sorted(
        rows, key=lambda row: math.inf if row["value"] is None else sign * float(row["value"])
    )


def _wins(entries: Sequence[Entry], metric: Metric) -> list[int]:
    """Return the number of tasks in which each contender has the best outer mean; ties count."""
    sign = -1.0 if metric.larger_is_better else 1.0
    wins = [0] * len(entries)
    by_task = [entry.scores["by_task"][metric.name] for entry in entries]
    for task in by_task[0]:
        means = [mean_known(scores[task]) for scores in by_task]
        losses = [sign * mean for mean in means if mean is not None]
        for i, mean in enumerate(means):
            wins[i] += mean is not None and sign * mean <= min(losses)
    return wins


def _pair(
    entries: Sequence[Entry],
    first: Pipeline | None,
    second: Pipeline | None,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
) -> dict[str, Any] | None:
    """Return the comparison of two choices; None if one has no contender."""
    if first is None or second is None:
        return None
    ours, theirs = (
        score_per_split(pipeline.scores, metric.name, options.average)
        for pipeline in (first, second)
    )
    test = gain_test(gain_of(ours, theirs, metric, ratio=ratio), min_effect=options.min_effect)
    return {
        "verdict": verdict_of(test),
        "first": entries[first.final].label(),
        "second": entries[second.final].label(),
        "first_value": mean_known(ours),
        "second_value": mean_known(theirs),
        **test_json(test),
    }


def _against_best(
    entries: Sequence[Entry],
    everything: Pipeline,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
) -> dict[str, Any] | None:
    """Return the comparison of the choice with the contender of the best outer mean.

    That one is the best of many, so the comparison is biased against the choice.
    """
    sign = -1.0 if metric.larger_is_better else 1.0
    means = [
        mean_known(score_per_split(entry.scores, metric.name, options.average)) for entry in entries
    ]
    losses = [math.inf if mean is None else sign * mean for mean in means]
    best = losses.index(min(losses))
    fixed = Pipeline((best,) * len(everything.chosen), best, entries[best].scores)
    return _pair(entries, everything, fixed, metric, options, ratio=ratio)


def _sharing(
    entries: Sequence[Entry],
    together: Pipeline | None,
    apart: Pipeline | None,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
    alignment: Alignment | None,
) -> dict[str, Any] | None:
    """Return the verdict on learning together; None if a side has no contender."""
    pair = _pair(entries, together, apart, metric, options, ratio=ratio)
    if pair is None or together is None or apart is None:
        return None
    gain = gain_of_sharing(together, apart, metric, options.average, ratio=ratio)
    found = sharing_verdict(gain, alignment, min_effect=options.min_effect)
    return {**pair, **test_json(gain_test(gain, min_effect=options.min_effect)), **asdict(found)}


def _per_task(
    divided: Entry,
    sides: tuple[Entry, Entry],
    common: Pipeline,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
) -> dict[str, Any]:
    """Return the estimate of a choice for each task between both sides, made by inner scores.

    Its gain is that over one method for all tasks.
    """
    values, others = (
        score_per_split(scores, metric.name, options.average)
        for scores in (divided.scores, common.scores)
    )
    test = gain_test(gain_of(values, others, metric, ratio=ratio), min_effect=options.min_effect)
    together, apart = tasks_of(sides[0].final, sides[1].final, metric)
    return {
        "verdict": verdict_of(test),
        "value": mean_known(values),
        **test_json(test),
        "together": together,
        "apart": apart,
    }


def _alone(per_task: dict[str, Any], apart: Entry) -> dict[str, Any] | None:
    """Return how some tasks are learned alone; None if all tasks get the same method."""
    if not per_task["together"] or not per_task["apart"]:
        return None
    return {
        "algorithm": apart.algorithm,
        "variant": apart.variant,
        "params": apart.final["params"],
        "tasks": per_task["apart"],
    }
