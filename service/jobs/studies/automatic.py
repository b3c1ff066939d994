"""The automatic choice of an algorithm: child jobs score every contender in nested splits.

:mod:`service.jobs.studies.automatic_rounds` creates the child jobs of each round.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.evaluation.choice.automatic import AutomaticOptions, report_choice
from algorithms.evaluation.choice.automatic_verdict import summarize_choice
from algorithms.evaluation.choice.contenders import (
    Algo,
    Contender,
    answers_new_tasks,
    find_contenders,
)
from algorithms.evaluation.choice.learning_curve import report_curve
from algorithms.evaluation.choice.pipelines import Entry
from algorithms.evaluation.comparison.no_verdict import APART, TOGETHER, no_curve, why_no_verdict
from algorithms.evaluation.scores.metrics import METRICS, Metric, deciding_metric
from algorithms.evaluation.scores.predictions import Predictions
from algorithms.evaluation.selection.failures import describe_left_out
from algorithms.evaluation.selection.nested import (
    NestedOptions,
    SplitResult,
    TimeLimit,
    default_inner_folds,
    score_contender,
)
from algorithms.evaluation.selection.validation import without_small_ratios
from algorithms.gp.alone import alignment_of
from algorithms.interface.errors import (
    AlgorithmError,
    Cancelled,
    InvalidData,
    InvalidParams,
    explain_unknown,
)
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS, WITH_COMMON_PART, NewTasks
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.requirements import check_nested, min_train_rows
from algorithms.splits.splits import Splits
from algorithms.splits.subsamples import N_PARTS
from algorithms.splits.tied_rows import describe_rows
from algorithms.wrappers.calibration.model import CALIBRATED_METHODS
from service.jobs.studies.automatic_rounds import (
    CURVE,
    Result,
    admit,
    admit_to_curve,
    failures,
    left_out,
    options_of,
    scored_splits,
)
from service.jobs.studies.child_jobs import Plan


def plan_automatic(
    tasks: Sequence[TaskSummary],
    options: AutomaticOptions,
    *,
    new_tasks: NewTasks = DEFAULT_NEW_TASKS,
) -> Plan:
    """Return the plan of an automatic choice.

    Parameters
    ----------
    new_tasks
        If 'common', only methods are chosen whose models answer for tasks that they were not
        trained on; these are scored on left-out tasks, too.

    Raises
    ------
    AlgorithmError
        No algorithm, or no split, is applicable to the tasks.
    """
    metric, reason = _metric(tasks, options)
    metric.check_sizes(tasks, options.average)
    if options.per_task and options.average != "tasks":
        raise InvalidParams(
            "a choice for each task needs the average 'tasks': scores over the rows of all tasks "
            "do not follow from the scores of tasks; remove 'average' or 'per_task'",
            field="per_task",
        )
    options.splits.check(tasks)
    algorithms = {name: ALGORITHMS[name] for name in _names(options)}
    contenders, unsuitable = find_contenders(algorithms, tasks, metric, options.splits)
    can_answer = [answers_new_tasks(algorithms[c.algorithm], c) for c in contenders]
    if not contenders:
        raise InvalidData(
            "no algorithm can be trained and scored on these tasks: "
            + describe_left_out(unsuitable)
        )
    if new_tasks == "common" and not any(can_answer):
        names = ", ".join(sorted({contender.algorithm for contender in contenders}))
        raise InvalidData(
            f"no method can answer for tasks that are not trained, as new_tasks 'common' needs; of "
            f"{names} none has a part that is common to all tasks: compare {WITH_COMMON_PART}"
        )
    check_nested(tasks, options.splits)
    return {
        "options": options.model_dump(mode="json"),
        "metric": metric.name,
        "metric_reason": reason,
        "min_rows": max(_min_rows(contender, tasks) for contender in contenders),
        "no_curve": _why_no_curve(contenders, tasks),
        "contenders": [
            {
                "algorithm": contender.algorithm,
                "role": contender.role,
                "variant": contender.variant,
                "candidates": list(contender.candidates),
                "may_be_chosen": new_tasks != "common" or can,
                "leaves_tasks_out": new_tasks == "common" and can and len(tasks) > 1,
            }
            for contender, can in zip(contenders, can_answer, strict=True)
        ],
        "left_out": unsuitable,
    }


def run_contender(
    plan: Plan, algorithm: Algo, tasks: TaskSet, *, seed: int, trace: Trace
) -> dict[str, Any]:
    """Score a contender in the splits of a child job; a failure is part of the result."""
    options = NestedOptions(
        splits=Splits.model_validate(plan["splits"], strict=False),
        metric=METRICS[plan["metric"]],
        average=plan["average"],
        n_inner_folds=plan["n_inner_folds"] or default_inner_folds(tasks),
        min_rows=plan["min_rows"],
        seed=seed,
        limit_s=plan["limit_s"],
        n_predictions=plan.get("n_predictions", 0),
        n_parts=plan.get("n_parts", N_PARTS),
        leaves_tasks_out=plan.get("leaves_tasks_out", False),
    )
    try:
        scored = score_contender(
            algorithm, plan["candidates"], tasks, plan["indices"], options, trace=trace
        )
    except Cancelled:
        raise
    except TimeLimit as error:
        spent_s = plan["limit_s"]
        return {"plan": _short(plan), "splits": None, "failed": str(error), "spent_s": spent_s}
    except AlgorithmError as error:
        return {"plan": _short(plan), "splits": None, "failed": error.message}
    return {"plan": _short(plan), "splits": scored, "failed": None}


def report_automatic(
    plan: Plan, results: Sequence[Result], tasks: TaskSet, *, prepared: TaskSet, trace: Trace
) -> tuple[dict[str, Any], dict[str, Any], Predictions | None]:
    """Return the parameters of the chosen algorithm, the report, and held-out predictions.

    Parameters
    ----------
    prepared
        The tasks with prepared rows.

    Raises
    ------
    InvalidData
        Every contender failed.
    """
    options = options_of(plan)
    ratio = options.splits.ratio(tasks)
    n_rows = float(np.mean([task.n_samples for task in tasks])) / (1 + ratio)
    results = [_with_number_of_rows(result, n_rows) for result in results]
    _, dropped = admit(plan, results)
    failed = failures(results)
    entries = _entries(plan, results)
    dropped += [left_out(plan["contenders"][which], reason) for which, reason in failed.items()]
    if not any(entry.may_be_chosen for entry in entries.values()):
        raise InvalidData(f"every method failed: {describe_left_out(dropped)}")
    choice = report_choice(
        list(entries.values()),
        METRICS[plan["metric"]],
        options,
        n_inner_folds=options.n_inner_folds or default_inner_folds(tasks),
        ratio=ratio,
        alignment=alignment_of(prepared, np.random.default_rng(0), trace=trace),
        n_rows={task.name: task.n_samples for task in tasks},
    )
    report = {
        **choice.report,
        "curve": _curve(plan, results, entries, tasks) if options.curve else None,
        "metric_reason": plan.get("metric_reason"),
        "unit": plan.get("unit"),
        "budget_s": options.budget_s,
        "rows": describe_rows(tasks, options.splits),
        "few_rows": next(iter(entries.values())).scores.get("few_rows", []),
        "left_out": [*dropped, *plan["left_out"]],
    }
    report = summarize_choice(report, unsuitable=plan["left_out"], dropped=dropped)
    return choice.chosen.final["params"], report, choice.predictions


def _with_number_of_rows(result: Result, n_rows: float) -> Result:
    """Return a result whose splits have their number of training rows per task.

    Results that an earlier version stored, while a job ran, lack it; they used all training rows.
    """
    splits = result["splits"]
    return {**result, "splits": splits and [{"n_rows": n_rows, **split} for split in splits]}


def _entries(plan: Plan, results: Sequence[Result]) -> dict[int, Entry]:
    """Return the contenders that were scored in every split and with all rows, by position."""
    failed = failures(results)
    final = {
        result["plan"]["contender"]: split
        for result in results
        for split in result["splits"] or ()
        if split["index"] is None
    }
    return {
        which: _entry(plan, which, scored_splits(results, which), final[which])
        for which in sorted(final)
        if which not in failed
    }


def _entry(plan: Plan, which: int, scored: Sequence[SplitResult], final: SplitResult) -> Entry:
    contender = plan["contenders"][which]
    labels = (contender["algorithm"], contender["role"], contender["variant"])
    outer = [split["outer"] for split in scored if split["outer"] is not None]
    large = iter(without_small_ratios(outer, options_of(plan).splits))
    results: list[SplitResult] = [
        split if split["outer"] is None else {**split, "outer": next(large)} for split in scored
    ]
    may_be_chosen = contender.get("may_be_chosen", True)
    return Entry(*labels, results=results, final=final, may_be_chosen=may_be_chosen)


def _curve(
    plan: Plan, results: Sequence[Result], entries: Mapping[int, Entry], tasks: TaskSet
) -> dict[str, Any]:
    """Return the learning curve of the contenders that the budget has allowed."""
    options = options_of(plan)
    if plan.get("no_curve") is not None:
        return {**no_curve(plan["no_curve"]), "left_out": []}
    admitted, omitted = admit_to_curve(plan, results)
    if not admitted:
        reason = "the budget has no time left for a method of each side"
        return {**no_curve(reason), "left_out": omitted}
    n_splits = options.splits.count()
    by_parts = {}
    for n_parts in range(1, N_PARTS + 1):
        scored = {which: scored_splits(results, which, n_parts=n_parts) for which in admitted}
        by_parts[n_parts] = [
            _entry(plan, which, of_splits, entries[which].final)
            for which, of_splits in scored.items()
            if len(of_splits) == n_splits
        ]
    omitted += [
        left_out(plan["contenders"][result["plan"]["contender"]], f"few rows: {result['failed']}")
        for result in results
        if result["plan"]["round"] == CURVE and result["failed"] is not None
    ]
    curve = report_curve(
        by_parts,
        METRICS[plan["metric"]],
        options.average,
        min_effect=options.min_effect,
        ratio=options.splits.ratio(tasks),
    )
    distinct = {tuple(entry.items()): entry for entry in omitted}
    return {**curve, "left_out": list(distinct.values())}


def _why_no_curve(contenders: Sequence[Contender], tasks: Sequence[TaskSummary]) -> str | None:
    """Return why there can be no learning curve; None if there can be one."""
    sides = [[c.algorithm for c in contenders if c.role in of] for of in (TOGETHER, APART)]
    return why_no_verdict(*sides, n_tasks=len(tasks))


def _metric(tasks: Sequence[TaskSummary], options: AutomaticOptions) -> tuple[Metric, str | None]:
    """Return the metric that compares predictions with the targets of all tasks, and the reason."""
    for task in tasks:
        if task.target == "none" or task.input != "rows":
            raise InvalidData(
                f"task '{task.name}' has {'no targets' if task.input == 'rows' else 'no rows'}; "
                "an automatic choice needs rows with targets in every task, because it compares "
                "predictions: upload targets as y or name their column with target_column, or name "
                "an algorithm instead",
                task=task.name,
            )
        if task.target != tasks[0].target:
            raise InvalidData(
                f"task '{tasks[0].name}' and task '{task.name}' have different kinds of targets; "
                "an automatic choice needs numbers in all tasks, or classes in all",
                task=task.name,
            )
    metrics = [
        metric
        for metric in METRICS.values()
        # methods are compared without calibration
        if metric.target == tasks[0].target and not set(metric.methods) & CALIBRATED_METHODS
    ]
    return deciding_metric(metrics, options, tasks)


def _names(options: AutomaticOptions) -> list[str]:
    if options.algorithms is None:
        return [name for name, algorithm in ALGORITHMS.items() if not algorithm.is_combined]
    for position, name in enumerate(options.algorithms):
        if name not in ALGORITHMS:
            raise InvalidParams(
                explain_unknown(name, sorted(ALGORITHMS), what="algorithm"),
                field=f"algorithms/{position}",
            )
    return list(dict.fromkeys(options.algorithms))


def _min_rows(contender: Contender, tasks: Sequence[TaskSummary]) -> int:
    algorithm = ALGORITHMS[contender.algorithm]
    params = [algorithm.parse(values) for values in contender.candidates]
    return min_train_rows(algorithm, params, tasks)


def _short(plan: Plan) -> Plan:
    """Return the part of a plan that identifies a child job, without the values that it tries."""
    names = ("of", "round", "is_retry", "n_parts", "contender", "indices")
    return {name: plan[name] for name in names if name in plan}
