"""What a job does beside one fit: parts that are judged, and a whole that draws on them.

A plan is JSON in the job's row. A job with parts waits for them; its own training comes last and
is told what they came to. This module lays parts out (when a job is submitted) and carries them
out (in the process that trains).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from algorithms.evaluation.comparison import Compare, Contender, Judged, compare, contenders
from algorithms.evaluation.metrics import Metric, deciding_metric, metrics_for
from algorithms.evaluation.search import Search, best, grid
from algorithms.evaluation.splits import Splits
from algorithms.evaluation.validation import Fit, Scores, judge, mean_known, mean_score
from algorithms.evaluation.verdict import conclude as conclude_comparison
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import AlgorithmError, InvalidParams
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS

#: Most parts of a comparison; more splits share a part.
_MAX_PARTS: Final = 200

SCORE: Final = "score"
STUDY: Final = "study"
ADAPT: Final = "adapt"

Plan = dict[str, Any]
Algo = Algorithm[Any, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A part to be queued: one method with its parameters, judged on some splits."""

    algorithm: str
    params: dict[str, Any]
    plan: Plan


@dataclass(frozen=True, slots=True)
class Study:
    """A job's plan and parts."""

    plan: Plan
    parts: tuple[Part, ...]


def lay_out(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: Sequence[TaskSummary],
    *,
    search: Search | None,
    comparison: Compare | None,
) -> Study:
    """Give the parts of a search, of a comparison, or of both.

    Parameters
    ----------
    values
        Parameters as the user gave them.

    Raises
    ------
    AlgorithmError
        Something does not fit together.
    """
    plan: Plan = {"kind": STUDY}
    parts: list[Part] = []
    if search is not None:
        deciding_metric(metrics_for([algorithm], tasks[0].target), search.metric)
        plan["search"] = search.model_dump(mode="json")
        parts += _parts_of_search(algorithm, values, tasks, search)
    if comparison is not None:
        comparison.splits.check(tasks)
        methods, left_out = _fitting(contenders(algorithm, values), tasks)
        known = [ALGORITHMS[method.algorithm] for method in methods]
        deciding_metric(metrics_for(known, tasks[0].target), comparison.metric)
        plan["compare"] = comparison.model_dump(mode="json")
        plan["methods"] = [asdict(method) for method in methods]
        plan["left_out"] = left_out
        parts += _parts_of_comparison(methods, comparison, search)
    numbered = [
        Part(part.algorithm, part.params, {**part.plan, "kind": SCORE, "position": position})
        for position, part in enumerate(parts)
    ]
    return Study(plan, tuple(numbered))


def adaptation(version_id: str) -> Plan:
    """Give the plan of a job that takes new tasks into a stored version of a model."""
    return {"kind": ADAPT, "version_id": version_id}


def carry_out(
    plan: Plan,
    algorithm: Algo,
    tasks: TaskSet,
    values: Mapping[str, Any],
    *,
    seed: int,
    trace: Trace,
) -> dict[str, Any]:
    """Give what a part comes to."""
    splits = Splits.model_validate(plan["splits"], strict=False)
    search = None if plan["search"] is None else Search.model_validate(plan["search"])
    scores = judge(
        _fit_of(algorithm, values, search, seed=seed),
        tasks,
        splits,
        plan["indices"],
        metrics=metrics_for([algorithm], tasks.tasks[0].target),
        seed=seed,
        trace=trace,
    )
    return {"scores": scores, "plan": plan, "params": dict(values)}


def draw_on(
    plan: Plan, parts: Sequence[Mapping[str, Any]], algorithm: Algo, tasks: TaskSet
) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Give the parameters that a search found, if there was one, and the report for the model.

    Parameters
    ----------
    parts
        What each part came to, in order.
    """
    values, report = None, {}
    if "search" in plan:
        tried = [part for part in parts if part["plan"]["of"] == "search"]
        search = Search.model_validate(plan["search"])
        metric = deciding_metric(metrics_for([algorithm], tasks.tasks[0].target), search.metric)
        chosen = best([part["scores"] for part in tried], metric)
        values = tried[chosen]["params"]
        report["search"] = _report_search(search, metric, chosen, tried)
    if "compare" in plan:
        report["comparison"] = _report_comparison(plan, parts, tasks)
    return values, report


def _parts_of_search(
    algorithm: Algo, values: Mapping[str, Any], tasks: Sequence[TaskSummary], search: Search
) -> list[Part]:
    splits = Splits(n_folds=search.n_folds, repeats=1)
    parts = []
    for tried in grid(values, search):
        params = algorithm.parse(tried, place="space")
        algorithm.check(tasks, params)
        plan = {
            "of": "search",
            "splits": splits.model_dump(mode="json"),
            "indices": list(range(splits.count())),
            "search": None,
        }
        parts.append(Part(algorithm.name, params.model_dump(mode="json"), plan))
    return parts


def _parts_of_comparison(
    methods: Sequence[Contender], comparison: Compare, search: Search | None
) -> list[Part]:
    n_splits = comparison.splits.count()
    size = math.ceil(n_splits * len(methods) / _MAX_PARTS)
    parts = []
    for which, method in enumerate(methods):
        inner = search if method.role == "itself" else None
        for start in range(0, n_splits, size):
            splits, indices = _narrow(comparison.splits, range(start, min(start + size, n_splits)))
            plan = {
                "of": "compare",
                "method": which,
                "splits": splits.model_dump(mode="json"),
                "indices": indices,
                "search": None if inner is None else inner.model_dump(mode="json"),
            }
            parts.append(Part(method.algorithm, method.values, plan))
    return parts


def _narrow(splits: Splits, indices: Sequence[int]) -> tuple[Splits, list[int]]:
    """Give the splits without the rows of others, where rows are given, and the indices in them."""
    if splits.given is None:
        return splits, list(indices)
    given = [splits.given[index] for index in indices]
    return splits.model_copy(update={"given": given}), list(range(len(given)))


def _fitting(
    methods: Sequence[Contender], tasks: Sequence[TaskSummary]
) -> tuple[list[Contender], list[dict[str, str]]]:
    """Give the methods that fit the tasks, complete with defaults, and why others do not."""
    itself, *rivals = methods
    fitting, left_out = [itself], []
    for method in rivals:
        algorithm = ALGORITHMS[method.algorithm]
        try:
            algorithm.check(tasks, algorithm.parse(method.values))
        except AlgorithmError as error:
            left_out.append({"rival": method.algorithm, "reason": error.message})
        else:
            fitting.append(method)
    if len(fitting) == 1:
        reasons = "; ".join(entry["reason"] for entry in left_out) or "it is such a method itself"
        raise InvalidParams(
            f"{itself.algorithm} cannot be compared with methods that learn apart: {reasons}"
        )
    return fitting, left_out


def _fit_of(algorithm: Algo, values: Mapping[str, Any], search: Search | None, *, seed: int) -> Fit:
    """Give what makes a model of training rows, its parameters searched inside them if asked."""

    def fit(train: TaskSet, rng: np.random.Generator) -> Any:
        chosen = values
        if search is not None:
            chosen = _searched(algorithm, values, search, train, seed=seed)
        return algorithm.fit(train, algorithm.parse(chosen), trace=Trace(), rng=rng)

    return fit


def _searched(
    algorithm: Algo, values: Mapping[str, Any], search: Search, train: TaskSet, *, seed: int
) -> Mapping[str, Any]:
    metrics = metrics_for([algorithm], train.tasks[0].target)
    splits = Splits(n_folds=search.n_folds, repeats=1)
    tried = grid(values, search)
    results = [
        judge(
            _fit_of(algorithm, candidate, None, seed=seed),
            train,
            splits,
            range(splits.count()),
            metrics=metrics,
            seed=seed,
            trace=Trace(),
        )
        for candidate in tried
    ]
    return tried[best(results, deciding_metric(metrics, search.metric))]


def _report_search(
    search: Search, metric: Metric, chosen: int, tried: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "metric": metric.name,
        "larger_is_better": metric.larger_is_better,
        "n_folds": search.n_folds,
        "best": chosen,
        "candidates": [
            {
                "params": {name: part["params"][name] for name in search.space},
                "mean": {name: mean_score(scores) for name, scores in part["scores"].items()},
                "by_task": {
                    task: mean_known(values) for task, values in part["scores"][metric.name].items()
                },
            }
            for part in tried
        ],
    }


def _report_comparison(
    plan: Plan, parts: Sequence[Mapping[str, Any]], tasks: TaskSet
) -> dict[str, Any]:
    asked = Compare.model_validate(plan["compare"], strict=False)
    methods = [Contender(**method) for method in plan["methods"]]
    judged = [
        Judged(
            method,
            _joined(
                part["scores"]
                for part in parts
                if part["plan"]["of"] == "compare" and part["plan"]["method"] == which
            ),
        )
        for which, method in enumerate(methods)
    ]
    known = [ALGORITHMS[method.algorithm] for method in methods]
    metric = deciding_metric(metrics_for(known, tasks.tasks[0].target), asked.metric)
    comparison = compare(judged, metric, asked.splits, ratio=asked.splits.ratio(tasks))
    return {**comparison, "left_out": plan["left_out"], **conclude_comparison(comparison)}


def _joined(pieces: Any) -> Scores:
    """Give the scores of several parts as those of one, in their order."""
    joined: Scores = {}
    for piece in pieces:
        for metric, by_task in piece.items():
            for task, values in by_task.items():
                joined.setdefault(metric, {}).setdefault(task, []).extend(values)
    return joined
