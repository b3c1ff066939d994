"""Automatic choice of a model: its options, and the report of its scores on held-out rows.

Contenders are weighted by their outputs for held-out rows (:mod:`algorithms.ensemble`). The scores
of a mixture of them are cross-fitted: in every split the weights are those without the held-out
rows, so that the estimate of the model is that of the whole choice, made anew. The best contender
of the leaderboard is the best of many, whose score is optimistic.

The verdict on learning together has its size from two such mixtures, of all contenders and of those
that learn each task alone. That is one comparison, which needs no correction for the number of
methods. Its level is that of a test of the tasks' functions
(:mod:`algorithms.evaluation.choice.sharing`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pydantic import ConfigDict, Field

from algorithms.evaluation.choice.alignment import Alignment
from algorithms.evaluation.choice.entries import Entry, Side, Sides
from algorithms.evaluation.choice.sharing import (
    TASK_LEVEL,
    gain_of_sharing,
    gain_test,
    gains_of_tasks,
    sharing_verdict,
    test_json,
)
from algorithms.evaluation.comparison.families import verdict_of
from algorithms.evaluation.scores.gains import gain_of
from algorithms.evaluation.scores.metrics import Metric, MetricChoice
from algorithms.evaluation.selection.validation import (
    Scores,
    mean_interval,
    mean_known,
    score_per_split,
    tasks_without_value,
)
from algorithms.interface.params import Params
from algorithms.splits.splits import Splits


class AutomaticOptions(MetricChoice, Params):
    """How an algorithm is chosen automatically."""

    splits: Splits = Field(
        default_factory=lambda: Splits(repeats=1),
        description="Splits that hold out the rows by which methods are weighted and scored. "
        "Default: five folds.",
    )
    budget_s: float = Field(
        60.0,
        gt=0.0,
        le=1e7,
        description="Processor time of all methods together, in seconds. Methods that would exceed "
        "it are left out, those that are rarely needed first; one method is always fitted.",
    )
    single: bool = Field(
        default=False,
        description="Whether the model is the one method with the smallest mean error on held-out "
        "rows, which is easier to explain and a few percent worse on average, instead of a "
        "weighted mean of the best.",
    )
    algorithms: list[str] | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Names of the algorithms to compare, in the order in which they are fitted. "
        "Default: about ten that cover what tasks can have in common, as far as they suit the "
        "data, and those of other packages.",
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
        description="Fit the methods also to 1/4, 1/2 and 3/4 of the training rows of each task, "
        "for an estimate of the number of rows per task from which learning together no longer "
        "helps. Takes about one and a half times as long again, within `budget_s`.",
    )

    model_config = ConfigDict(frozen=True)


#: Options of earlier versions, and what to do instead.
REMOVED: Final = {
    "per_task": "weights of methods for each task are no better than common ones; leave it out",
    "n_inner_folds": "methods are weighted by the rows that 'splits' holds out, and select their "
    "parameters themselves; leave it out, or set splits={'n_folds': ...}",
}


def report_choice(
    entries: Sequence[Entry],
    sides: Sides,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
    spans_tasks: bool = False,
    alignment: Alignment | None = None,
    n_rows: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the report of a choice among some contenders, as JSON.

    Parameters
    ----------
    ratio
        Held-out rows per training row in the splits.
    spans_tasks
        Whether some rows of different tasks are held out together.
    alignment
        The test whether the functions of tasks point the same way; None if there is none.
    n_rows
        Rows of each task; unknown if None.
    """
    scores, chosen = sides.model.scores, dict(sides.model.label)
    tests = (metric, options)

    def estimate(scores: Scores) -> dict[str, float | None]:
        """Return the mean with its interval.

        As in all comparisons, it is the mean over splits of the mean over tasks, which differs from
        the mean over tasks of means over splits if some splits hold out no row of a task.
        """
        mean = mean_known(score_per_split(scores, metric.name, options.average))
        average = options.average
        ends = mean_interval(scores, metric, average, ratio=ratio, spans_tasks=spans_tasks)
        return {"value": mean, **ends}

    return {
        "metric": metric.name,
        "title": metric.title,
        "larger_is_better": metric.larger_is_better,
        "average": options.average,
        "min_effect": options.min_effect,
        "splits": options.splits.to_json(),
        "n_splits": options.splits.count(),
        "without_value": tasks_without_value(scores, metric.name),
        "chosen": chosen,
        "estimate": {
            **estimate(scores),
            "chosen": [chosen] * options.splits.count(),
            "by_task": {metric.name: _by_task(scores, metric)},
        },
        "leaderboard": _leaderboard(entries, metric, estimate),
        "kinds": [
            {"kind": kind, **side.label, **estimate(side.scores)}
            for kind, side in sides.by_kind().items()
        ],
        "choice_or_best": _pair(sides.model, _best(entries, *tests), *tests, ratio=ratio),
        "alignment": None if alignment is None else asdict(alignment),
        "together_or_apart": _sharing(sides, *tests, ratio=ratio, alignment=alignment),
        "together_or_pooled": _pair(sides.together, sides.pooled, *tests, ratio=ratio),
        "multi_task_or_pooled": _pair(sides.multi_task, sides.pooled, *tests, ratio=ratio),
        "tasks": gains_of_tasks(
            scores,
            None if sides.together is None else sides.together.scores,
            None if sides.apart is None else sides.apart.scores,
            metric,
            min_effect=options.min_effect,
            ratio=ratio,
            n_rows=n_rows or {},
        ),
        "task_confidence": 1 - TASK_LEVEL,
    }


def _by_task(scores: Scores, metric: Metric) -> dict[str, float | None]:
    """Return the mean over splits of each task."""
    return {task: mean_known(found) for task, found in scores["by_task"][metric.name].items()}


def _leaderboard(
    entries: Sequence[Entry], metric: Metric, estimate: Callable[[Scores], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row for each contender, the best mean first."""
    wins = _wins(entries, metric)
    rows = [
        {
            **entry.label(),
            **estimate(entry.scores),
            "inner": None,
            "weight": entry.weight,
            "loss": entry.loss,
            "left_out_tasks": entry.left_out_tasks,
            "n_task_wins": wins[i],
            "n_chosen": entry.n_chosen,
            "fit_s": entry.fit_s,
            "predict_s": entry.predict_s,
            "total_s": entry.total_s,
            "params": dict(entry.params),
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
    first: Side | None,
    second: Side | None,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
) -> dict[str, Any] | None:
    """Return the comparison of two mixtures; None if one has no contender."""
    if first is None or second is None:
        return None
    ours, theirs = (
        score_per_split(side.scores, metric.name, options.average) for side in (first, second)
    )
    test = gain_test(gain_of(ours, theirs, metric, ratio=ratio), min_effect=options.min_effect)
    return {
        "verdict": verdict_of(test),
        "first": dict(first.label),
        "second": dict(second.label),
        "first_value": mean_known(ours),
        "second_value": mean_known(theirs),
        **test_json(test),
    }


def _best(entries: Sequence[Entry], metric: Metric, options: AutomaticOptions) -> Side:
    """Return the contender of the best mean.

    That one is the best of many, so a comparison with it is biased against the choice.
    """
    sign = -1.0 if metric.larger_is_better else 1.0
    means = [
        mean_known(score_per_split(entry.scores, metric.name, options.average)) for entry in entries
    ]
    losses = [math.inf if mean is None else sign * mean for mean in means]
    best = entries[losses.index(min(losses))]
    return Side(label=best.label(), scores=best.scores)


def _sharing(
    sides: Sides,
    metric: Metric,
    options: AutomaticOptions,
    *,
    ratio: float,
    alignment: Alignment | None,
) -> dict[str, Any] | None:
    """Return the verdict on learning together; None if a side has no contender."""
    pair = _pair(sides.together, sides.apart, metric, options, ratio=ratio)
    if pair is None or sides.together is None or sides.apart is None:
        return None
    gain = gain_of_sharing(
        sides.together.scores, sides.apart.scores, metric, options.average, ratio=ratio
    )
    found = sharing_verdict(gain, alignment, min_effect=options.min_effect)
    return {**pair, **test_json(gain_test(gain, min_effect=options.min_effect)), **asdict(found)}
