"""Does learning together help? An algorithm and its baselines on the same splits.

Every method sees the same training rows and chooses its free parameters inside them. For each
split the *gain* of a method over another is the difference of the deciding metric, positive where
the first is better (:mod:`algorithms.evaluation.gains`). Two questions are answered apart:

- Does learning together in any form beat learning each task alone? The candidate, other multi-task
  methods and pooled ones are one family, single-task methods the other
  (:mod:`algorithms.evaluation.families`).
- Which method is best? The one of best mean, with those that cannot be told from it.

Statements on single tasks are corrected for the number of tasks (Benjamini-Hochberg), gains of the
candidate for the number of baselines (Holm).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from algorithms.evaluation.choices import with_inner_selection
from algorithms.evaluation.families import Contest, contest, verdict_of
from algorithms.evaluation.gains import LEVEL, Gain, benjamini_hochberg, gain, holm
from algorithms.evaluation.metrics import Average, Metric, MetricChoice
from algorithms.evaluation.splits import Splits
from algorithms.evaluation.validation import (
    Scores,
    mean_known,
    mean_score,
    mean_scores,
    score_per_split,
)
from algorithms.interface.algorithm import Algorithm, Role

#: What predicts the same for every row of a task; every comparison has it.
TRIVIAL: Final = "constant"


class CompareOptions(MetricChoice):
    """How an algorithm is compared with its baselines."""

    splits: Splits = Field(default_factory=Splits, description="How rows are held out.")
    min_effect: float = Field(
        0.01,
        ge=0.0,
        le=1.0,
        description="Smallest difference worth naming, as a part of the deciding metric's value "
        "of the method that learns each task alone: of an error rate of 0.2 the default is 0.002. "
        "What is smaller is 'equal'.",
    )


class EvaluateOptions(BaseModel):
    """How an algorithm is judged by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    splits: Splits = Field(default_factory=Splits, description="How rows are held out.")


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """A method in a comparison.

    Parameters
    ----------
    role
        ``"candidate"`` for the algorithm in question, ``"trivial"`` for the constant prediction,
        or the role of the baseline.
    values
        Its parameters, as they are given to its ``Params``.
    variant
        What tells it from another baseline of the same algorithm and role.
    """

    algorithm: str
    role: Role | Literal["candidate", "trivial"]
    values: dict[str, Any]
    variant: str = ""


@dataclass(frozen=True, slots=True)
class MethodScores:
    """A method and its scores in every split."""

    method: ComparedMethod
    scores: Scores

    def label(self) -> dict[str, str]:
        """Return what names the method in a report."""
        method = self.method
        return {"algorithm": method.algorithm, "role": method.role, "variant": method.variant}


def compared_methods(
    algorithm: Algorithm[Any, Any], values: Mapping[str, Any]
) -> list[ComparedMethod]:
    """Return the algorithm itself, its baselines and the trivial one, each with its parameters.

    Parameters
    ----------
    values
        Parameters as the user gave them.
    """
    candidate = ComparedMethod(algorithm.name, "candidate", with_inner_selection(algorithm, values))
    # from the given values: a fixed parameter of the candidate does not bind the baselines
    params = algorithm.Params.model_validate(values, strict=False)
    baselines = [
        ComparedMethod(
            baseline.algorithm,
            baseline.role,
            baseline.params_from(params),
            baseline.variant,
        )
        for baseline in algorithm.baselines_for(params)
    ]
    return [candidate, *baselines, ComparedMethod(TRIVIAL, "trivial", {})]


@dataclass(frozen=True, slots=True)
class _Table:
    """Values (one list over splits for each method), of all tasks or of one."""

    methods: Sequence[MethodScores]
    values: Sequence[Sequence[float | None]]
    metric: Metric
    ratio: float

    def gain(self, one: int, other: int) -> Gain | None:
        return gain(self.values[one], self.values[other], self.metric, ratio=self.ratio)

    def of_role(self, *roles: str) -> list[int]:
        return [i for i, entry in enumerate(self.methods) if entry.method.role in roles]

    def contest(self, together: Sequence[int], min_effect: float) -> Contest | None:
        return contest(
            together,
            self.of_role("single_task"),
            self.gain,
            min_effect=min_effect,
            trivial=self.of_role("trivial"),
        )

    def families(self, min_effect: float) -> Contest | None:
        """Return the contest of all that learn together with all that learn apart."""
        return self.contest(self.of_role("candidate", "multi_task", "pooled"), min_effect)


def compare(
    methods: Sequence[MethodScores], metric: Metric, options: CompareOptions, *, ratio: float
) -> dict[str, Any]:
    """Return the comparison of methods, the candidate first, as JSON.

    Parameters
    ----------
    ratio
        Held-out rows per training row.
    """
    names = list(methods[0].scores["by_task"][metric.name])
    whole = _Table(
        methods,
        [score_per_split(entry.scores, metric.name, options.average) for entry in methods],
        metric,
        ratio,
    )
    by_task = {
        name: _Table(
            methods,
            [entry.scores["by_task"][metric.name][name] for entry in methods],
            metric,
            ratio,
        )
        for name in names
    }
    return {
        "metric": metric.name,
        "title": metric.title,
        "larger_is_better": metric.larger_is_better,
        "average": options.average,
        "min_effect": options.min_effect,
        "splits": options.splits.to_json(),
        "n_splits": options.splits.count(),
        "methods": [_method(entry, metric, options.average) for entry in methods],
        "sharing": _contest(whole, whole.families(options.min_effect)),
        "candidate": _contest(whole, whole.contest([0], options.min_effect)),
        "best": _best(whole, options),
        "overall": _gains(whole),
        "by_task": {name: _gains(table) for name, table in by_task.items()},
        "tasks": _tasks(by_task, options.min_effect),
    }


def _tasks(tables: Mapping[str, _Table], min_effect: float) -> dict[str, Any]:
    """Return the verdict of each task, at 5 % false ones among those that are told."""
    contests = {name: table.families(min_effect) for name, table in tables.items()}
    tested = {name: found.p_value for name, found in contests.items() if found is not None}
    adjusted = dict(zip(tested, benjamini_hochberg(list(tested.values())), strict=True))
    return {
        name: _contest(tables[name], found, p_adjusted=adjusted.get(name))
        for name, found in contests.items()
    }


def _contest(
    table: _Table, found: Contest | None, *, p_adjusted: float | None = None
) -> dict[str, Any]:
    verdict = {"verdict": verdict_of(found, p_value=p_adjusted)}
    keys = ("together", "apart", "gain", "low", "high", "p_value", "p_adjusted", "margin")
    if found is None:
        return {**verdict, **dict.fromkeys(keys)}
    values = (
        table.methods[found.together].label(),
        table.methods[found.apart].label(),
        found.gain,
        found.low,
        found.high,
        found.p_value,
        p_adjusted,
        found.margin,
    )
    return {**verdict, **dict(zip(keys, values, strict=True))}


def _best(table: _Table, options: CompareOptions) -> dict[str, Any] | None:
    """Return the method of best mean, and those that are not shown to be worse.

    Any two might have been the ones to tell apart, so that all pairs count (Bonferroni). What the
    candidate is shown to beat (Holm) is not among them either: the best is no worse than it.
    """
    sign = 1.0 if table.metric.larger_is_better else -1.0
    values = {
        i: sign * value
        for i, entry in enumerate(table.methods)
        if (value := mean_score(entry.scores, table.metric.name, options.average)) is not None
    }
    if not values:
        return None
    best = max(values, key=lambda i: values[i])
    n_pairs = len(list(combinations(values, 2)))
    beaten = {
        other
        for other, entry in enumerate(_gains(table), start=1)
        if entry["gain"] is not None and entry["gain"] > 0 and entry["p_adjusted"] < LEVEL
    }
    tied = []
    for other in values:
        found = None if other == best else table.gain(best, other)
        is_better = found is not None and (
            (found.p_value * n_pairs < LEVEL or other in beaten)
            and found.mean >= options.min_effect * abs(found.value)
        )
        if other != best and not is_better:
            tied.append(table.methods[other].label())
    return {**table.methods[best].label(), "value": sign * values[best], "tied": tied}


def _gains(table: _Table) -> list[dict[str, Any]]:
    """Return the gain of the candidate over every other method."""
    gains = [table.gain(0, other) for other in range(1, len(table.methods))]
    adjusted = iter(holm([found.p_value for found in gains if found is not None]))
    return [
        {
            "baseline": entry.method.algorithm,
            "role": entry.method.role,
            "variant": entry.method.variant,
            "gain": None if found is None else found.mean,
            "low": None if found is None else found.interval()[0],
            "high": None if found is None else found.interval()[1],
            "p_value": None if found is None else found.p_value,
            "p_adjusted": None if found is None else next(adjusted),
        }
        for entry, found in zip(table.methods[1:], gains, strict=True)
    ]


def _method(entry: MethodScores, metric: Metric, average: Average) -> dict[str, Any]:
    scores = entry.scores
    return {
        **entry.label(),
        "params": entry.method.values,
        "value": mean_score(scores, metric.name, average),
        **mean_scores(scores),
        "by_task": {
            task: mean_known(values) for task, values in scores["by_task"][metric.name].items()
        },
    }
