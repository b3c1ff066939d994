"""Comparison of an algorithm with its baselines on the same splits.

Every method sees the same training rows and chooses its free parameters inside them. For each
split, the *gain* of a method over another is the difference of the deciding metric, positive if
the first is better (:mod:`algorithms.evaluation.scores.gains`). A report answers two questions:

- Is learning together better than learning each task alone? The candidate, other multi-task
  methods and pooled methods are one family, single-task methods the other
  (:mod:`algorithms.evaluation.comparison.families`).
- Which method is best? The method with the best mean, and all that are not significantly worse.

Verdicts on single tasks are corrected for the number of tasks (Benjamini-Hochberg), gains of the
candidate for the number of baselines (Holm).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from pydantic import ConfigDict, Field

from algorithms.evaluation.comparison.families import FamilyComparison, compare_families, verdict_of
from algorithms.evaluation.comparison.no_verdict import FAMILY_KEYS, TRIVIAL
from algorithms.evaluation.scores.gains import LEVEL, Gain, benjamini_hochberg, gain_of, holm
from algorithms.evaluation.scores.metrics import Average, Metric, MetricChoice
from algorithms.evaluation.selection.choices import with_inner_selection
from algorithms.evaluation.selection.validation import (
    Scores,
    mean_known,
    mean_score,
    mean_scores,
    score_per_split,
    tasks_without_value,
)
from algorithms.interface.algorithm import Algorithm, Role
from algorithms.interface.params import StrictModel
from algorithms.splits.splits import Splits


class CompareOptions(MetricChoice):
    """How an algorithm is compared with its baselines."""

    splits: Splits = Field(default_factory=Splits, description="How rows are held out.")
    min_effect: float = Field(
        0.01,
        ge=0.0,
        le=1.0,
        description="Smallest relevant difference, relative to the value of the method that learns "
        "each task alone: 0.01 of an error rate of 0.2 is 0.002. The verdict on a smaller "
        "difference is 'equal'.",
    )


class EvaluateOptions(StrictModel):
    """How an algorithm is evaluated without baselines."""

    model_config = ConfigDict(frozen=True)

    splits: Splits = Field(default_factory=Splits, description="How rows are held out.")


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """A method in a comparison.

    Parameters
    ----------
    role
        ``"candidate"`` for the compared algorithm, ``"trivial"`` for the constant prediction, or
        the role of the baseline.
    values
        Its parameter values.
    variant
        A label that distinguishes baselines of the same algorithm and role.
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
        """Return the keys that identify the method in a report."""
        method = self.method
        return {"algorithm": method.algorithm, "role": method.role, "variant": method.variant}


def compared_methods(
    algorithm: Algorithm[Any, Any], values: Mapping[str, Any]
) -> list[ComparedMethod]:
    """Return the algorithm itself, its baselines and the trivial method, with their parameters.

    Parameters
    ----------
    values
        Parameters of the job.
    """
    candidate = ComparedMethod(algorithm.name, "candidate", with_inner_selection(algorithm, values))
    # baselines start from the parameters of the job, not from the grids that were fixed above
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
    """Values of each method in each split, over all tasks or of one task."""

    methods: Sequence[MethodScores]
    values: Sequence[Sequence[float | None]]
    metric: Metric
    ratio: float

    def gain(self, method: int, other: int) -> Gain | None:
        return gain_of(self.values[method], self.values[other], self.metric, ratio=self.ratio)

    def with_role(self, *roles: str) -> list[int]:
        return [i for i, entry in enumerate(self.methods) if entry.method.role in roles]

    def compare_to_single_task(
        self, together: Sequence[int], min_effect: float
    ) -> FamilyComparison | None:
        return compare_families(
            together,
            self.with_role("single_task"),
            self.gain,
            min_effect=min_effect,
            trivial=self.with_role("trivial"),
        )

    def compare_all(self, min_effect: float) -> FamilyComparison | None:
        """Return the comparison of all methods that learn together with all single-task methods."""
        together = self.with_role("candidate", "multi_task", "pooled")
        return self.compare_to_single_task(together, min_effect)


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
    overall = _Table(
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
        "without_value": tasks_without_value(methods[0].scores, metric.name),
        "methods": [_method_json(entry, metric, options.average) for entry in methods],
        "sharing": _family_json(overall, overall.compare_all(options.min_effect)),
        "candidate": _family_json(overall, overall.compare_to_single_task([0], options.min_effect)),
        "best": _best_json(overall, options),
        "overall": _gains_json(overall),
        "by_task": {name: _gains_json(table) for name, table in by_task.items()},
        "tasks": _tasks_json(by_task, options.min_effect),
    }


def _tasks_json(tables: Mapping[str, _Table], min_effect: float) -> dict[str, Any]:
    """Return the verdict on each task, with p values adjusted for the number of tasks."""
    results = {name: table.compare_all(min_effect) for name, table in tables.items()}
    tested = {name: result.p_value for name, result in results.items() if result is not None}
    adjusted = dict(zip(tested, benjamini_hochberg(list(tested.values())), strict=True))
    return {
        name: _family_json(tables[name], result, p_adjusted=adjusted.get(name))
        for name, result in results.items()
    }


def _family_json(
    table: _Table, result: FamilyComparison | None, *, p_adjusted: float | None = None
) -> dict[str, Any]:
    verdict = {"verdict": verdict_of(result, p_value=p_adjusted)}
    if result is None:
        return {**verdict, **dict.fromkeys(FAMILY_KEYS)}
    values = (
        table.methods[result.together].label(),
        table.methods[result.apart].label(),
        result.gain,
        result.low,
        result.high,
        result.p_value,
        p_adjusted,
        result.margin,
    )
    return {**verdict, **dict(zip(FAMILY_KEYS, values, strict=True))}


def _best_json(table: _Table, options: CompareOptions) -> dict[str, Any] | None:
    """Return the method with the best mean, and the methods that are not shown to be worse.

    The best method is known only after the scores, so p values are corrected for the number of all
    pairs (Bonferroni). A method that is significantly worse than the candidate (Holm) also counts
    as worse than the best, because the best is at least as good as the candidate.
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
        for other, entry in enumerate(_gains_json(table), start=1)
        if entry["gain"] is not None and entry["gain"] > 0 and entry["p_adjusted"] < LEVEL
    }
    tied = []
    for other in values:
        gain = None if other == best else table.gain(best, other)
        is_better = gain is not None and (
            (gain.p_value * n_pairs < LEVEL or other in beaten)
            and gain.mean >= options.min_effect * abs(gain.value)
        )
        if other != best and not is_better:
            tied.append(table.methods[other].label())
    return {**table.methods[best].label(), "value": sign * values[best], "tied": tied}


def _gains_json(table: _Table) -> list[dict[str, Any]]:
    """Return the gain of the candidate over every other method."""
    gains = [table.gain(0, other) for other in range(1, len(table.methods))]
    adjusted = iter(holm([gain.p_value for gain in gains if gain is not None]))
    return [
        {
            "baseline": entry.method.algorithm,
            "role": entry.method.role,
            "variant": entry.method.variant,
            "gain": None if gain is None else gain.mean,
            "low": None if gain is None else gain.interval()[0],
            "high": None if gain is None else gain.interval()[1],
            "p_value": None if gain is None else gain.p_value,
            "p_adjusted": None if gain is None else next(adjusted),
        }
        for entry, gain in zip(table.methods[1:], gains, strict=True)
    ]


def _method_json(entry: MethodScores, metric: Metric, average: Average) -> dict[str, Any]:
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
