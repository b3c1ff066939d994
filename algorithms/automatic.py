"""The automatic choice among the algorithms of the registry: as a plan, a fit, and an algorithm.

A job is planned when it is submitted, and fitted in another process; an estimator does both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from algorithms.ensemble.automatic import AutomaticChoice, Choice
from algorithms.ensemble.held_out import PLAIN, RowOptions
from algorithms.ensemble.model import EnsembleModel
from algorithms.ensemble.suitable import find_contenders
from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.choice.automatic_verdict import summarize_choice
from algorithms.evaluation.comparison.no_verdict import TOGETHER
from algorithms.evaluation.scores.leaks import find_leaks
from algorithms.evaluation.scores.metrics import METRICS, Metric, deciding_metric
from algorithms.evaluation.scores.recall import report_classes
from algorithms.evaluation.selection.failures import describe_left_out
from algorithms.interface import model
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams, explain_unknown
from algorithms.interface.needs import Needs
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS, WITH_COMMON_PART, NewTasks
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.numerics.threads import limit_blas_threads
from algorithms.registry import ALGORITHMS, EXTENSIONS
from algorithms.splits.requirements import Algo, check_nested
from algorithms.wrappers.by_parts.algorithm import describe_columns
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.weights import weighted

#: A plan, as JSON.
Plan = dict[str, Any]

#: Methods that contenders have: probabilities, too, which are learned from held-out rows.
_METHODS: Final = frozenset({"predict", "decision_function", "predict_proba"})


class Auto(Algorithm[AutomaticOptions, model.Model]):
    """The automatic choice with plain rows. It is no algorithm of the registry, which it needs."""

    name = "auto"
    title = "Automatic choice"
    summary = (
        "Compares the methods that suit the tasks on held-out rows, trains a weighted mean of the "
        "best, and reports the expected score and whether learning together helps."
    )
    reference = "van der Laan, Polley and Hubbard (2007), https://doi.org/10.2202/1544-6115.1309"
    needs = Needs(same_features=False, target="any", sparse=True, weights=True)
    is_combined = True
    Params = AutomaticOptions
    Model = EnsembleModel  # if it is not one method

    def check(self, summaries: Sequence[TaskSummary], params: AutomaticOptions) -> None:
        """Raise an AlgorithmError if no method can be fitted to tasks like these, and scored."""
        super().check(summaries, params)
        plan_automatic(summaries, params)

    def fit(
        self, tasks: TaskSet, params: AutomaticOptions, *, trace: Trace, rng: np.random.Generator
    ) -> model.Model:
        """Return the model of the choice."""
        plan, seed = plan_automatic(tasks.summaries(), params), int(rng.integers(2**31))
        return fit_automatic(plan, tasks, rows=PLAIN, seed=seed, trace=trace)[0].model

    def has_common_part(self, params: AutomaticOptions) -> bool:
        """Return True: whether a method has one is checked with the tasks."""
        del params
        return True


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
        If 'common', a method whose models answer for tasks that they were not trained on is
        needed; such methods are scored on left-out tasks, too.

    Raises
    ------
    AlgorithmError
        No algorithm, or no split, is applicable to the tasks.
    """
    metric, reason = _metric(tasks, options)
    metric.check_sizes(tasks, options.average)
    options.splits.check(tasks)
    contenders, unsuitable = find_contenders(
        tasks, ALGORITHMS, _names(options), extensions=_extensions(), splits=options.splits
    )
    if not contenders:
        raise InvalidData(
            "no algorithm can be trained and scored on these tasks: "
            + describe_left_out(unsuitable)
        )
    if new_tasks == "common" and not any(one.has_common_part for one in contenders):
        names = ", ".join(sorted({one.algorithm.name for one in contenders}))
        raise InvalidData(
            f"no method can answer for tasks that are not trained, as new_tasks 'common' needs; of "
            f"{names} none has a part that is common to all tasks: compare {WITH_COMMON_PART}"
        )
    check_nested(tasks, options.splits)
    return {
        "options": options.model_dump(mode="json"),
        "metric": metric.name,
        "metric_reason": reason,
        "leaves_tasks_out": new_tasks == "common" and len(tasks) > 1,
    }


def fit_automatic(
    plan: Plan,
    tasks: TaskSet,
    *,
    rows: RowOptions,
    calibration: Calibration | Mapping[str, Any] | None = None,
    seed: int,
    trace: Trace,
) -> tuple[Choice, dict[str, Any]]:
    """Return the choice of a plan, and the report of the model.

    Parameters
    ----------
    rows
        How training rows are prepared.
    calibration
        How the model of the choice is calibrated; None: not.

    Raises
    ------
    InvalidData
        Every method failed.
    """
    options = _options(plan)
    whole = rows.learn(tasks.by_name())
    contenders, unsuitable = find_contenders(
        whole.train.summaries(), ALGORITHMS, _names(options), extensions=_extensions()
    )
    if not contenders:
        raise InvalidData(f"no method suits these tasks: {describe_left_out(unsuitable)}")
    leaves = bool(plan.get("leaves_tasks_out"))
    has_weights = any(task.weights is not None for task in tasks)

    def wrap(base: Algo) -> Algo:
        """Return an algorithm that takes rows as they are."""
        base = prepared(base, rows.columns, rows.recipe)
        return weighted(base, rows.class_weight, has_weights=has_weights)

    automatic = AutomaticChoice(
        contenders, options, METRICS[plan["metric"]], rows, wrap, leaves_tasks_out=leaves
    )
    choice = automatic.fit(tasks, whole, seed=seed, trace=trace)
    if calibration is not None:
        algorithm = calibrated(wrap(choice.algorithm), calibration)
        params = algorithm.parse(choice.values)
        algorithm.check(tasks.summaries(), params)
        with limit_blas_threads(tasks.order):
            model = algorithm.fit(tasks, params, trace=trace, rng=np.random.default_rng(seed))
        choice, calibration = replace(choice, model=model), model.report()
    report = {
        **choice.report,
        "metric_reason": plan.get("metric_reason"),
        "unit": plan.get("unit"),
        "left_out": [*choice.dropped, *unsuitable],
        "columns": describe_columns(tasks.summaries(), _sharing(choice.report["leaderboard"])),
    }
    predictions = choice.predictions
    found = {
        "choice": summarize_choice(report, unsuitable=unsuitable, dropped=choice.dropped),
        "leaking_columns": find_leaks(tasks),
        "predictions": predictions,
        "classes": report_classes(predictions, tasks),
    }
    return choice, found if calibration is None else {**found, "calibration": calibration}


def _sharing(leaderboard: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the methods that learned tasks together."""
    return [row["algorithm"] for row in leaderboard if row["role"] in TOGETHER]


def _options(plan: Mapping[str, Any]) -> AutomaticOptions:
    """Return the options of a plan; one of an earlier version has some that are not used now."""
    known = AutomaticOptions.model_fields.keys()
    values = {name: value for name, value in plan["options"].items() if name in known}
    return AutomaticOptions.model_validate(values, strict=False)


def _extensions() -> list[Algo]:
    return [extension.algorithm for extension in EXTENSIONS.values()]


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
        if metric.target == tasks[0].target and _METHODS.issuperset(metric.methods)
    ]
    return deciding_metric(metrics, options, tasks)


def _names(options: AutomaticOptions) -> list[str] | None:
    if options.algorithms is None:
        return None
    for position, name in enumerate(options.algorithms):
        if name not in ALGORITHMS:
            raise InvalidParams(
                explain_unknown(name, sorted(ALGORITHMS), what="algorithm"),
                field=f"algorithms/{position}",
            )
        if ALGORITHMS[name].is_combined:
            raise InvalidParams(
                f"'{name}' is a choice among methods itself; leave it out, or name its methods",
                field=f"algorithms/{position}",
            )
    return list(dict.fromkeys(options.algorithms))
