"""Comparisons and evaluations: child jobs score every method on the same splits."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from algorithms.evaluation.comparison.comparison import (
    ComparedMethod,
    CompareOptions,
    EvaluateOptions,
    MethodScores,
    compare,
    compared_methods,
)
from algorithms.evaluation.comparison.verdict_sentences import summarize_comparison
from algorithms.evaluation.scores.metrics import METRICS, Metric, deciding_metric, metrics_for
from algorithms.evaluation.scores.predictions import (
    Predictions,
    join_predictions,
    predictions_per_split,
)
from algorithms.evaluation.scores.ratios import describe_few_rows
from algorithms.evaluation.selection.left_out_tasks import N_TASK_FOLDS
from algorithms.evaluation.selection.search import SearchOptions
from algorithms.evaluation.selection.validation import (
    check_has_scores,
    concatenate_scores,
    mean_interval,
    mean_scores,
    means_by_task,
    tasks_without_value,
    without_small_ratios,
)
from algorithms.interface.errors import AlgorithmError, InvalidParams
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.units import units_of
from algorithms.registry import ALGORITHMS
from algorithms.splits.requirements import Algo, check_splits, min_train_rows
from algorithms.splits.splits import Splits
from algorithms.splits.tied_rows import about_equal, describe_rows
from service.jobs.studies.child_jobs import MAX_CHILD_JOBS, ChildJob, Plan

#: Mark the child jobs of a comparison and of an evaluation.
COMPARISON: Final = "comparison"
EVALUATION: Final = "evaluation"
#: Marks the child job that scores tasks that are left out, in an evaluation.
LEFT_OUT_TASKS: Final = "left_out_tasks"

Result = Mapping[str, Any]


def plan_comparison(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: Sequence[TaskSummary],
    options: CompareOptions,
) -> Plan:
    """Return the plan of a comparison.

    Parameters
    ----------
    values
        Parameters as the user gave them.

    Raises
    ------
    AlgorithmError
        No baseline is applicable to the tasks, or the algorithm or the splits are not.
    """
    options.splits.check(tasks)
    metric, reason = deciding_metric(metrics_for([algorithm], tasks), options, tasks)
    metric.check_sizes(tasks, options.average)
    methods, left_out = _fitting(compared_methods(algorithm, values), tasks, options.splits, metric)
    return {
        "min_rows": max(_min_rows(method, tasks) for method in methods),
        "options": options.model_dump(mode="json"),
        "metric": metric.name,
        "metric_reason": reason,
        "methods": [asdict(method) for method in methods],
        "left_out": left_out,
    }


def plan_evaluation(
    algorithm: Algo,
    values: Mapping[str, Any],
    tasks: Sequence[TaskSummary],
    options: EvaluateOptions,
) -> Plan:
    """Return the plan of an evaluation.

    Parameters
    ----------
    values
        Parameters as the user gave them.

    Raises
    ------
    AlgorithmError
        The algorithm or the splits cannot be used with the tasks.
    """
    metrics_for([algorithm], tasks)
    method = ComparedMethod(algorithm.name, "candidate", dict(values))
    min_rows = _min_rows(method, tasks)
    params = algorithm.parse(method.values)
    check_splits(algorithm, params, tasks, options.splits, min_rows=min_rows)
    return {
        "options": options.model_dump(mode="json"),
        "methods": [asdict(method)],
        "min_rows": min_rows,
    }


def child_jobs_of_methods(
    plan: Plan, search: SearchOptions | None, *, of: str, has_predictions: bool = True
) -> list[ChildJob]:
    """Return the child jobs that score each method on all splits.

    Parameters
    ----------
    search
        Run inside the training rows of every split, for the algorithm itself only.
    has_predictions
        Whether a sample of the predictions of the algorithm itself is kept.
    """
    methods = [ComparedMethod(**method) for method in plan["methods"]]
    splits = Splits.model_validate(plan["options"]["splits"], strict=False)
    size = math.ceil(splits.count() * len(methods) / MAX_CHILD_JOBS)
    n_predictions = predictions_per_split(splits) if has_predictions else 0
    children = []
    for which, method in enumerate(methods):
        inner = search if which == 0 else None
        # the trivial baseline is too little work for several jobs
        step = splits.count() if method.role == "trivial" else size
        for start in range(0, splits.count(), step):
            stop = min(start + step, splits.count())
            narrow, indices = _narrow(splits, range(start, stop))
            inner_plan = {
                "of": of,
                "method": which,
                "param_sets": [method.values],
                "splits": narrow.model_dump(mode="json"),
                "indices": indices,
                "search": None if inner is None else inner.model_dump(mode="json"),
                "min_rows": plan.get("min_rows", 1),
                "n_predictions": n_predictions if which == 0 else 0,
            }
            children.append(ChildJob(method.algorithm, method.values, inner_plan))
    return children


def child_job_of_left_out_tasks(plan: Plan) -> ChildJob:
    """Return the child job that scores the algorithm of an evaluation on left-out tasks."""
    (method,) = plan["methods"]
    splits = Splits(n_folds=N_TASK_FOLDS, repeats=1)  # as many fits, of as many rows
    inner_plan = {
        "of": LEFT_OUT_TASKS,
        "may_fail": True,
        "method": 0,
        "param_sets": [method["values"]],
        "splits": splits.model_dump(mode="json"),
        "indices": list(range(splits.count())),
        "search": None,
    }
    return ChildJob(method["algorithm"], method["values"], inner_plan)


def report_left_out_tasks(results: Sequence[Result]) -> dict[str, Any] | None:
    """Return the scores on left-out tasks, or why there are none; None if none were left out."""
    if not results:
        return None
    (result,) = results
    if result["failed"] is not None:
        return {"failed": result["failed"], "mean": {}, "over_rows": {}, "by_task": {}}
    (scores,) = result["scores"]
    return {"failed": None, **mean_scores(scores), "by_task": means_by_task(scores)}


def report_comparison(plan: Plan, results: Sequence[Result], tasks: TaskSet) -> dict[str, Any]:
    """Return the report of a comparison, without the baselines that failed on some split."""
    options = CompareOptions.model_validate(plan["options"], strict=False)
    metric, ratio = METRICS[plan["metric"]], options.splits.ratio(tasks)
    failed = {
        result["plan"]["method"]: result["failed"]
        for result in results
        if result["failed"] is not None
    }
    failures = [(ComparedMethod(**plan["methods"][which]), why) for which, why in failed.items()]
    left_out = _left_out(failures, before=plan["left_out"])
    scores = _scores(plan, results, options.splits, without=failed)
    check_has_scores(scores[0].scores, tasks)
    _check_any_baseline([entry.method for entry in scores], left_out)
    compared = compare(scores, metric, options, ratio=ratio)
    few_rows = scores[0].scores.get("few_rows", [])
    words = {name: plan.get(name) for name in ("metric_reason", "unit")}
    comparison = summarize_comparison({**compared, **words, "few_rows": few_rows})
    rows = describe_rows(tasks, options.splits)
    sentences = [*comparison["sentences"], *about_equal(rows)]
    return {**comparison, "sentences": sentences, "rows": rows, "left_out": left_out}


def report_evaluation(plan: Plan, results: Sequence[Result], tasks: TaskSet) -> dict[str, Any]:
    """Return the report of an evaluation."""
    options = EvaluateOptions.model_validate(plan["options"], strict=False)
    (scored,) = _scores(plan, results, options.splits)
    check_has_scores(scored.scores, tasks)
    few_rows = scored.scores.get("few_rows", [])
    rows = describe_rows(tasks, options.splits)
    ratio, spans_tasks = options.splits.ratio(tasks), units_of(tasks).spans_tasks
    return {
        "sentences": [
            *describe_few_rows(few_rows, "ratios such as R² and AUC"),
            *about_equal(rows),
        ],
        "splits": options.splits.to_json(),
        "n_splits": options.splits.count(),
        "rows": rows,
        "unit": plan.get("unit"),
        "few_rows": few_rows,
        "params": scored.method.values,
        **mean_scores(scored.scores),
        "interval": {
            name: mean_interval(
                scored.scores,
                METRICS[name],
                "tasks",
                ratio=ratio,
                spans_tasks=spans_tasks,
            )
            for name in scored.scores["over_rows"]
        },
        "by_task": means_by_task(scored.scores),
        "without_value": {
            metric: missing
            for metric in scored.scores["by_task"]
            if (missing := tasks_without_value(scored.scores, metric))
        },
    }


def report_predictions(results: Sequence[Result]) -> Predictions | None:
    """Return the sample of held-out predictions that a study has kept; None if it has none."""
    scores = [entry for result in results for entry in result.get("scores") or ()]
    samples = [entry["predictions"] for entry in scores if "predictions" in entry]
    joined = join_predictions(samples)
    return joined if joined["tasks"] else None


def _scores(
    plan: Plan, results: Sequence[Result], splits: Splits, *, without: Collection[int] = ()
) -> list[MethodScores]:
    scored = []
    for which, method in enumerate(plan["methods"]):
        if which in without:
            continue
        pieces = [result["scores"][0] for result in results if result["plan"]["method"] == which]
        scores = concatenate_scores(without_small_ratios(pieces, splits))
        scored.append(MethodScores(ComparedMethod(**method), scores))
    return scored


def _narrow(splits: Splits, indices: Sequence[int]) -> tuple[Splits, list[int]]:
    """Return the splits at these indices, and their new indices; only given splits are cut."""
    if splits.scheme != "given":
        return splits, list(indices)
    narrowed = [(splits.given or [])[index] for index in indices]
    return splits.model_copy(update={"given": narrowed}), list(range(len(narrowed)))


def _min_rows(method: ComparedMethod, tasks: Sequence[TaskSummary]) -> int:
    algorithm = ALGORITHMS[method.algorithm]
    return min_train_rows(algorithm, [algorithm.parse(method.values)], tasks)


def _fitting(
    methods: Sequence[ComparedMethod],
    tasks: Sequence[TaskSummary],
    splits: Splits,
    metric: Metric,
) -> tuple[list[ComparedMethod], list[dict[str, Any]]]:
    """Return the methods that suit tasks and metric, and the others with the reason for each."""
    candidate, *baselines = methods
    min_rows = _min_rows(candidate, tasks)
    algorithm = ALGORITHMS[candidate.algorithm]
    params = algorithm.parse(candidate.values)
    check_splits(algorithm, params, tasks, splits, min_rows=min_rows)
    fitting, rejected = [candidate], []
    for method in baselines:
        algorithm = ALGORITHMS[method.algorithm]
        try:
            params = algorithm.parse(method.values)
            algorithm.check(tasks, params)
            metric.check(algorithm, tasks)
            min_rows = _min_rows(method, tasks)
            check_splits(algorithm, params, tasks, splits, min_rows=min_rows)
        except AlgorithmError as error:
            rejected.append((method, error.message))
        else:
            fitting.append(method)
    left_out = _left_out(rejected)
    _check_any_baseline(fitting, left_out)
    return fitting, left_out


def _left_out(
    rejected: Sequence[tuple[ComparedMethod, str]], *, before: Sequence[Mapping[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return the baselines that are not compared, with one entry for each reason."""
    roles = {
        (entry["baseline"], entry["reason"]): dict.fromkeys(entry["roles"]) for entry in before
    }
    for method, reason in rejected:
        roles.setdefault((method.algorithm, reason), {})[method.role] = None
    return [
        {"baseline": baseline, "roles": list(of), "reason": reason}
        for (baseline, reason), of in roles.items()
    ]


def _check_any_baseline(
    methods: Sequence[ComparedMethod], left_out: Sequence[Mapping[str, Any]]
) -> None:
    """Raise InvalidParams if only the trivial baseline is left to compare with."""
    candidate, *baselines = methods
    if all(method.role == "trivial" for method in baselines):
        reasons = "; ".join(entry["reason"] for entry in left_out) or "it has none"
        raise InvalidParams(
            f"{candidate.algorithm} cannot be compared with any baseline: {reasons}"
        )
