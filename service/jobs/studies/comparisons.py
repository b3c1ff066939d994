"""A comparison, or an evaluation, as parts of a job: methods are judged on the same splits."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from algorithms.evaluation.comparison import (
    Compare,
    ComparedMethod,
    Evaluate,
    MethodScores,
    compare,
    compared_methods,
)
from algorithms.evaluation.metrics import METRICS, Metric, deciding_metric, metrics_for
from algorithms.evaluation.requirements import check_splits, least_rows
from algorithms.evaluation.search import Search
from algorithms.evaluation.splits import Splits
from algorithms.evaluation.tied_rows import describe_rows
from algorithms.evaluation.validation import check_judged, joined, mean_known, means
from algorithms.evaluation.verdict import conclude
from algorithms.interface.errors import AlgorithmError, InvalidParams
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.registry import ALGORITHMS
from service.jobs.studies.child_jobs import Algo, Part, Plan

#: What the parts of a comparison, and of an evaluation, are told by.
COMPARISON: Final = "comparison"
EVALUATION: Final = "evaluation"

#: Most parts of a comparison; more splits share a part.
_MAX_PARTS: Final = 200

Result = Mapping[str, Any]


def plan_comparison(
    algorithm: Algo, values: Mapping[str, Any], tasks: Sequence[TaskSummary], asked: Compare
) -> Plan:
    """Return what a job remembers of its comparison.

    Raises
    ------
    AlgorithmError
        There is nothing to compare with, or something does not fit the tasks.
    """
    asked.splits.check(tasks)
    metric = deciding_metric(metrics_for([algorithm], tasks), asked)
    methods, left_out = _fitting(compared_methods(algorithm, values), tasks, asked.splits, metric)
    return {
        "least": max(_least_rows(method, tasks) for method in methods),
        "asked": asked.model_dump(mode="json"),
        "metric": metric.name,
        "methods": [asdict(method) for method in methods],
        "left_out": left_out,
    }


def plan_evaluation(
    algorithm: Algo, values: Mapping[str, Any], tasks: Sequence[TaskSummary], asked: Evaluate
) -> Plan:
    """Return what a job remembers of its evaluation.

    Raises
    ------
    AlgorithmError
        Something does not fit the tasks.
    """
    metrics_for([algorithm], tasks)
    itself = ComparedMethod(algorithm.name, "candidate", dict(values))
    least = _least_rows(itself, tasks)
    check_splits(algorithm, tasks, asked.splits, least=least)
    return {"asked": asked.model_dump(mode="json"), "methods": [asdict(itself)], "least": least}


def parts_of_methods(plan: Plan, search: Search | None, *, of: str) -> list[Part]:
    """Return the parts in which each method is judged on all splits.

    Parameters
    ----------
    search
        Made anew inside the training rows of every split, for the algorithm itself.
    """
    methods = [ComparedMethod(**method) for method in plan["methods"]]
    splits = Splits.model_validate(plan["asked"]["splits"], strict=False)
    size = math.ceil(splits.count() * len(methods) / _MAX_PARTS)
    parts = []
    for which, method in enumerate(methods):
        inner = search if which == 0 else None
        step = splits.count() if method.role == "trivial" else size  # no work for a job each
        for start in range(0, splits.count(), step):
            stop = min(start + step, splits.count())
            narrow, indices = _narrow(splits, range(start, stop))
            inner_plan = {
                "of": of,
                "method": which,
                "tried": [method.values],
                "splits": narrow.model_dump(mode="json"),
                "indices": indices,
                "search": None if inner is None else inner.model_dump(mode="json"),
                "least": plan.get("least", 1),
            }
            parts.append(Part(method.algorithm, method.values, inner_plan))
    return parts


def conclude_comparison(plan: Plan, results: Sequence[Result], tasks: TaskSet) -> dict[str, Any]:
    """Return the report of a comparison, without the baselines that could not learn some split."""
    options = Compare.model_validate(plan["asked"], strict=False)
    metric, ratio = METRICS[plan["metric"]], options.splits.ratio(tasks)
    failed = {
        part["plan"]["method"]: part["failed"] for part in results if part["failed"] is not None
    }
    failures = [(ComparedMethod(**plan["methods"][which]), why) for which, why in failed.items()]
    left_out = _left_out(failures, before=plan["left_out"])
    scores = _scores(plan, results, without=failed)
    check_judged(scores[0].scores, tasks)
    _check_any_baseline([entry.method for entry in scores], left_out)
    comparison = compare(scores, metric, options, ratio=ratio)
    rows = describe_rows(tasks, options.splits)
    return {**comparison, "rows": rows, "left_out": left_out, **conclude(comparison)}


def conclude_evaluation(plan: Plan, results: Sequence[Result], tasks: TaskSet) -> dict[str, Any]:
    """Return the report of an evaluation."""
    asked = Evaluate.model_validate(plan["asked"], strict=False)
    (itself,) = _scores(plan, results)
    check_judged(itself.scores, tasks)
    return {
        "splits": asked.splits.told(),
        "n_splits": asked.splits.count(),
        "rows": describe_rows(tasks, asked.splits),
        "params": itself.method.values,
        **means(itself.scores),
        "by_task": {
            metric: {task: mean_known(values) for task, values in by_task.items()}
            for metric, by_task in itself.scores["by_task"].items()
        },
        "without_value": {
            metric: missing
            for metric, by_task in itself.scores["by_task"].items()
            if (missing := [task for task, values in by_task.items() if mean_known(values) is None])
        },
    }


def _scores(
    plan: Plan, results: Sequence[Result], *, without: Collection[int] = ()
) -> list[MethodScores]:
    return [
        MethodScores(
            ComparedMethod(**method),
            joined([part["scores"][0] for part in results if part["plan"]["method"] == which]),
        )
        for which, method in enumerate(plan["methods"])
        if which not in without
    ]


def _narrow(splits: Splits, indices: Sequence[int]) -> tuple[Splits, list[int]]:
    """Return the splits without named rows of other splits, and the indices in them."""
    if splits.scheme != "given":
        return splits, list(indices)
    given = [(splits.given or [])[index] for index in indices]
    return splits.model_copy(update={"given": given}), list(range(len(given)))


def _least_rows(method: ComparedMethod, tasks: Sequence[TaskSummary]) -> int:
    algorithm = ALGORITHMS[method.algorithm]
    return least_rows(algorithm, [algorithm.parse(method.values)], tasks)


def _fitting(
    methods: Sequence[ComparedMethod],
    tasks: Sequence[TaskSummary],
    splits: Splits,
    metric: Metric,
) -> tuple[list[ComparedMethod], list[dict[str, Any]]]:
    """Return the methods that fit the tasks and the metric, and why others do not."""
    candidate, *baselines = methods
    least = _least_rows(candidate, tasks)
    check_splits(ALGORITHMS[candidate.algorithm], tasks, splits, least=least)
    fitting, misfits = [candidate], []
    for method in baselines:
        algorithm = ALGORITHMS[method.algorithm]
        try:
            algorithm.check(tasks, algorithm.parse(method.values))
            metric.check(algorithm, tasks)
            least = _least_rows(method, tasks)
            check_splits(algorithm, tasks, splits, least=least)
        except AlgorithmError as error:
            misfits.append((method, error.message))
        else:
            fitting.append(method)
    left_out = _left_out(misfits)
    _check_any_baseline(fitting, left_out)
    return fitting, left_out


def _left_out(
    misfits: Sequence[tuple[ComparedMethod, str]], *, before: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return the baselines that are not compared, each reason once, with its roles."""
    roles = {(one["baseline"], one["reason"]): dict.fromkeys(one["roles"]) for one in before}
    for method, reason in misfits:
        roles.setdefault((method.algorithm, reason), {})[method.role] = None
    return [
        {"baseline": baseline, "roles": list(of), "reason": reason}
        for (baseline, reason), of in roles.items()
    ]


def _check_any_baseline(
    methods: Sequence[ComparedMethod], left_out: Sequence[Mapping[str, Any]]
) -> None:
    """Raise InvalidParams where nothing but the trivial prediction is left to compare with."""
    candidate, *baselines = methods
    if all(method.role == "trivial" for method in baselines):
        reasons = "; ".join(entry["reason"] for entry in left_out) or "there are none for it"
        raise InvalidParams(
            f"{candidate.algorithm} cannot be compared with methods that learn apart: {reasons}"
        )
