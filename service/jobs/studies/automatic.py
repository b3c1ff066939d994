"""The automatic choice of an algorithm: child jobs score every contender in nested splits.

In the first round every contender scores one outer split, which shows its cost, within an equal
share of the budget. Those that took longer are tried again with a larger share, if the others leave
much of the budget. The last round scores the other splits, and selects with all rows, for the
contenders that the budget allows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.calibration.model import CALIBRATED_METHODS
from algorithms.evaluation.automatic import AutomaticOptions, report_choice
from algorithms.evaluation.automatic_verdict import summarize_choice
from algorithms.evaluation.contenders import Algo, Contender, find_contenders
from algorithms.evaluation.metrics import METRICS, Metric, deciding_metric
from algorithms.evaluation.nested import (
    NestedOptions,
    TimeLimit,
    default_inner_folds,
    score_contender,
)
from algorithms.evaluation.pipelines import Entry
from algorithms.evaluation.predictions import Predictions, predictions_per_split
from algorithms.evaluation.requirements import min_train_rows
from algorithms.evaluation.splits import Splits
from algorithms.evaluation.tied_rows import describe_rows
from algorithms.interface.errors import (
    AlgorithmError,
    Cancelled,
    InvalidData,
    InvalidParams,
    explain_unknown,
)
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from service.jobs.studies.child_jobs import ChildJob, Plan

#: Marks the child jobs of an automatic choice; also the name of the algorithm of such a job.
AUTOMATIC: Final = "auto"
#: A contender is tried again if its share is so much larger than before.
_MIN_RAISE: Final = 1.5
#: Limit on the child jobs of the last round; with more splits, one child job scores several.
_MAX_CHILD_JOBS: Final = 200

Result = Mapping[str, Any]


def plan_automatic(tasks: Sequence[TaskSummary], options: AutomaticOptions) -> Plan:
    """Return the plan of an automatic choice.

    Raises
    ------
    AlgorithmError
        No algorithm, or no split, is applicable to the tasks.
    """
    metric = _metric(tasks, options)
    if options.per_task and options.average != "tasks":
        raise InvalidParams(
            "a choice for each task needs the average 'tasks': scores over the rows of all tasks "
            "do not follow from those of tasks; remove 'average' or 'per_task'",
            field="per_task",
        )
    options.splits.check(tasks)
    algorithms = {name: ALGORITHMS[name] for name in _names(options)}
    contenders, left_out = find_contenders(algorithms, tasks, metric, options.splits)
    if not contenders:
        raise InvalidData(
            "no algorithm can be trained and scored on these tasks: "
            + "; ".join(f"{one['algorithm']}: {one['reason']}" for one in left_out)
        )
    return {
        "options": options.model_dump(mode="json"),
        "metric": metric.name,
        "min_rows": max(_min_rows(one, tasks) for one in contenders),
        "contenders": [
            {
                "algorithm": one.algorithm,
                "role": one.role,
                "variant": one.variant,
                "candidates": list(one.candidates),
            }
            for one in contenders
        ],
        "left_out": left_out,
    }


def count_child_jobs(plan: Plan) -> int:
    """Return the number of child jobs if every contender is tried once and admitted."""
    n_contenders = len(plan["contenders"])
    return n_contenders * (1 + len(_later_parts(plan, n_contenders)))


def child_jobs_of_round(plan: Plan, results: Sequence[Result]) -> list[ChildJob]:
    """Return the child jobs of the first round, those to try again, those of the last, or none."""
    if not results:
        limit_s = plan["options"]["budget_s"] / len(plan["contenders"])
        return [
            _child_job(plan, which, [0], in_round=0, limit_s=limit_s)
            for which in range(len(plan["contenders"]))
        ]
    if any(result["plan"]["round"] == 1 for result in results):
        return []
    if not any(result["plan"].get("is_retry") for result in results):
        again, limit_s = _tried_again(plan, results)
        if again:
            return [
                _child_job(plan, which, [0], in_round=0, limit_s=limit_s, is_retry=True)
                for which in again
            ]
    admitted, _ = _admit(plan, results)
    return [
        _child_job(plan, which, indices, in_round=1, limit_s=None)
        for which in admitted
        for indices in _later_parts(plan, len(admitted))
    ]


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
        n_predictions=plan["n_predictions"],
    )
    try:
        found = score_contender(
            algorithm, plan["candidates"], tasks, plan["indices"], options, trace=trace
        )
    except Cancelled:
        raise
    except TimeLimit as error:
        spent_s = plan["limit_s"]
        return {"plan": _short(plan), "splits": None, "failed": str(error), "spent_s": spent_s}
    except AlgorithmError as error:
        return {"plan": _short(plan), "splits": None, "failed": error.message}
    return {"plan": _short(plan), "splits": found, "failed": None}


def report_automatic(
    plan: Plan, results: Sequence[Result], tasks: TaskSet
) -> tuple[dict[str, Any], dict[str, Any], Predictions | None]:
    """Return the parameters of the chosen algorithm, the report, and held-out predictions.

    Raises
    ------
    InvalidData
        Every contender failed.
    """
    options = _options(plan)
    _, dropped = _admit(plan, results)
    failed = _failures(results)
    entries = []
    for which, contender in enumerate(plan["contenders"]):
        found = [one for result in _of(results, which) for one in result["splits"] or ()]
        final = [one for one in found if one["index"] is None]
        if which in failed or not final:
            continue
        scored = sorted((one for one in found if one["index"] is not None), key=_index)
        labels = (contender["algorithm"], contender["role"], contender["variant"])
        entries.append(Entry(*labels, results=scored, final=final[0]))
    dropped += [_left_out(plan["contenders"][which], reason) for which, reason in failed.items()]
    left_out = [*dropped, *plan["left_out"]]
    if not entries:
        raise InvalidData(
            "every method failed: "
            + "; ".join(f"{one['algorithm']}: {one['reason']}" for one in dropped)
        )
    choice = report_choice(
        entries,
        METRICS[plan["metric"]],
        options,
        n_inner_folds=options.n_inner_folds or default_inner_folds(tasks),
        ratio=options.splits.ratio(tasks),
    )
    report = {
        **choice.report,
        "budget_s": options.budget_s,
        "rows": describe_rows(tasks, options.splits),
        "left_out": left_out,
        "sentences": summarize_choice(choice.report, unsuitable=plan["left_out"], dropped=dropped),
    }
    return choice.chosen.final["params"], report, choice.predictions


def _metric(tasks: Sequence[TaskSummary], options: AutomaticOptions) -> Metric:
    """Return the deciding metric, which compares predictions with the targets of all tasks."""
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
    return deciding_metric(metrics, options)


def _names(options: AutomaticOptions) -> list[str]:
    if options.algorithms is None:
        return list(ALGORITHMS)
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


def _later_parts(plan: Plan, n_contenders: int) -> list[list[int | None]]:
    """Return the splits of each child job of the second round; None stands for all rows."""
    indices: list[int | None] = [*range(1, _options(plan).splits.count()), None]
    size = math.ceil(len(indices) * n_contenders / _MAX_CHILD_JOBS)
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def _child_job(
    plan: Plan,
    which: int,
    indices: Sequence[int | None],
    *,
    in_round: int,
    limit_s: float | None,
    is_retry: bool = False,
) -> ChildJob:
    contender, options = plan["contenders"][which], plan["options"]
    inner = {
        "of": AUTOMATIC,
        "may_fail": True,
        "round": in_round,
        "is_retry": is_retry,
        "contender": which,
        "candidates": contender["candidates"],
        "splits": options["splits"],
        "indices": list(indices),
        "metric": plan["metric"],
        "average": options["average"],
        "n_inner_folds": options["n_inner_folds"],
        "min_rows": plan["min_rows"],
        "limit_s": limit_s,
        "n_predictions": predictions_per_split(_options(plan).splits),
    }
    return ChildJob(contender["algorithm"], contender["candidates"][0], inner)


def _tried_again(plan: Plan, results: Sequence[Result]) -> tuple[list[int], float]:
    """Return the contenders to try again, and the limit in seconds for their first split.

    What the others leave of the budget is for all splits of as many contenders as get a limit that
    is larger than before by :data:`_MIN_RAISE`; the first of them.
    """
    seconds, spent_s = _seconds(results)
    slow = [result["plan"]["contender"] for result in results if result.get("spent_s") is not None]
    n_left, budget_s = _options(plan).splits.count(), plan["options"]["budget_s"]
    rest_s = budget_s - spent_s - n_left * sum(seconds.values())
    before_s = budget_s / len(plan["contenders"])
    n_again = min(len(slow), int(rest_s / ((1 + n_left) * _MIN_RAISE * before_s)))
    if n_again <= 0:
        return [], 0.0
    return slow[:n_again], rest_s / ((1 + n_left) * n_again)


def _seconds(results: Sequence[Result]) -> tuple[dict[int, float], float]:
    """Return the time of the first split of each contender, and that spent in the first rounds."""
    first = [result for result in results if result["plan"]["round"] == 0]
    seconds = {
        result["plan"]["contender"]: result["splits"][0]["seconds"]
        for result in first
        if result["splits"] is not None
    }
    lost_s = sum(result.get("spent_s") or 0.0 for result in first)
    return seconds, sum(seconds.values()) + lost_s


def _admit(plan: Plan, results: Sequence[Result]) -> tuple[list[int], list[dict[str, str]]]:
    """Return the contenders of the second round, the cheapest first, and those left out.

    The time of the first split stands for that of each other split and of the selection with all
    rows. The cheapest contender is always admitted.
    """
    seconds, spent_s = _seconds(results)
    n_left = _options(plan).splits.count()
    budget_s = plan["options"]["budget_s"]
    admitted: list[int] = []
    left_out: list[dict[str, str]] = []
    for which in sorted(seconds, key=lambda which: (seconds[which], which)):
        needed_s = n_left * seconds[which]
        if admitted and spent_s + needed_s > budget_s:
            reason = (
                f"it needs about {needed_s:.3g} s more, which the budget of {budget_s:.3g} s does "
                "not allow"
            )
            left_out.append(_left_out(plan["contenders"][which], reason))
        else:
            admitted.append(which)
            spent_s += needed_s
    return admitted, left_out


def _failures(results: Sequence[Result]) -> dict[int, str]:
    """Return the reason of the first failure of each contender that failed.

    A first try does not count if there was another one.
    """
    again = {result["plan"]["contender"] for result in results if result["plan"].get("is_retry")}
    failed: dict[int, str] = {}
    for result in results:
        is_first = result["plan"]["round"] == 0 and not result["plan"].get("is_retry")
        if result["failed"] is not None and not (is_first and result["plan"]["contender"] in again):
            failed.setdefault(result["plan"]["contender"], result["failed"])
    return failed


def _left_out(contender: Mapping[str, Any], reason: str) -> dict[str, str]:
    return {"algorithm": contender["algorithm"], "role": contender["role"], "reason": reason}


def _of(results: Sequence[Result], which: int) -> list[Result]:
    return [result for result in results if result["plan"]["contender"] == which]


def _index(one: Mapping[str, Any]) -> int:
    return int(one["index"])


def _options(plan: Plan) -> AutomaticOptions:
    return AutomaticOptions.model_validate(plan["options"], strict=False)


def _short(plan: Plan) -> Plan:
    """Return what identifies a child job, without the parameter values that it tries."""
    names = ("of", "round", "is_retry", "contender", "indices")
    return {name: plan[name] for name in names if name in plan}
