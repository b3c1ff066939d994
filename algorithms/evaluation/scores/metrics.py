"""Metrics of models on held-out rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from pydantic import ConfigDict, Field

from algorithms.evaluation.scores import observations as observed
from algorithms.evaluation.scores import ratios
from algorithms.evaluation.scores.observations import TruthAndPrediction
from algorithms.evaluation.scores.rare_classes import (
    DEFAULT_RARE_SHARE,
    can_rank,
    find_rare_class,
)
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.params import StrictModel
from algorithms.interface.tasks import Task, TaskSummary
from algorithms.numerics import scores
from algorithms.numerics.arrays import Array

TargetKind = Literal["none", "numbers", "classes"]
#: A mean over tasks, which all count the same, or a value over the rows of all tasks.
Average = Literal["tasks", "rows"]

#: Names of the averages for readers.
AVERAGES: Final[dict[str, str]] = {"tasks": "mean over tasks", "rows": "over all rows"}
#: Metrics whose values have the unit of the targets.
IN_TARGET_UNITS: Final = frozenset({"rmse", "interval_width"})


class MetricChoice(StrictModel):
    """The metric and the average that rank candidates or methods."""

    model_config = ConfigDict(frozen=True)

    metric: str | None = Field(
        None,
        max_length=64,
        description="Deciding metric: error_rate, auc, rmse, explained_variance, r2, ... Default: "
        "the error rate of classes, AUC if a class is rare (`rare_share`), and RMSE of numbers.",
    )
    rare_share: float = Field(
        DEFAULT_RARE_SHARE,
        ge=0.0,
        le=0.5,
        description="A class is rare if its share of the rows is smaller than this, or with K "
        "classes than 2/K of it. The default metric is then AUC: the error rate of never "
        "answering a rare class is small. 0: the error rate is the default.",
    )
    average: Average = Field(
        "tasks", description="Average over tasks ('tasks'), or over the rows of all tasks ('rows')."
    )


#: Bounds of shares, of losses, and of explained shares of a variance.
_SHARE: Final = (0.0, 1.0)
_LOSS: Final = (0.0, np.inf)
_EXPLAINED: Final = (-np.inf, 1.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of models.

    Parameters
    ----------
    target
        Kind of targets that it compares with predictions; ``"none"`` if it compares the rows
        themselves.
    methods
        Methods that the model must have.
    observe
        Returns the true values and the predictions for the rows of a task.
    measure
        Returns the value of the metric for true values and predictions, given the weights of the
        rows or None.
    bounds
        Smallest and largest value that it can have.
    ratio
        How it is pooled over splits, if it is a ratio.
    """

    name: str
    title: str
    target: TargetKind
    methods: tuple[str, ...]
    larger_is_better: bool
    observe: Callable[[Any, Task], TruthAndPrediction]
    measure: Callable[[Any, Any, Array | None], float]
    bounds: tuple[float, float] = _LOSS
    ratio: ratios.Ratio | None = None

    def check(self, algorithm: Algorithm[Any, Any], tasks: Sequence[Task | TaskSummary]) -> None:
        """Raise InvalidParams if models of an algorithm lack a method that the metric needs."""
        for task in tasks:
            available = algorithm.methods_for(task.target) if self.suits(task) else self.methods
            missing = [name for name in self.methods if name not in available]
            if missing:
                raise InvalidParams(
                    f"the metric {self.name} needs the method {', '.join(missing)}, which models "
                    f"of {algorithm.name} do not have for task '{task.name}'; choose another",
                    field="metric",
                )

    def check_sizes(self, tasks: Sequence[Task | TaskSummary], average: Average) -> None:
        """Raise InvalidParams if no task has enough rows for a ratio, and so for its average."""
        largest = max(task.n_samples for task in tasks if self.suits(task))
        if average == "tasks" and self.ratio and largest < ratios.MIN_RATIO_ROWS:
            raise InvalidParams(
                f"{self.title} of a task needs at least {ratios.MIN_RATIO_ROWS} held-out rows, but "
                f"the largest task has {largest} rows; use the average 'rows' or another metric",
                field="average",
            )

    def suits(self, task: Task | TaskSummary) -> bool:
        """Return whether the metric applies to a task: to its targets, or to its rows."""
        return task.input == "rows" and self.target in (task.target, "none")

    def score(self, model: Any, task: Task) -> float:
        """Return the value for a task; NaN if it is undefined."""
        truth, prediction = self.observe(model, task)
        return self.measure(truth, prediction, self.weights(task, truth))

    def weights(self, task: Task, truth: Any) -> Array | None:
        """Return the weight of each true value of a task; None if all are equal.

        Entries of one row, which a metric of rows compares, have its weight.
        """
        if task.weights is None:
            return None
        return np.repeat(task.weights, len(truth) // task.n_samples)


def _level_metric(name: str, title: str, target: TargetKind, observe: Any) -> Metric:
    method = "predict_interval" if target == "numbers" else "predict_set"
    is_coverage = name.endswith("coverage")
    bounds = _SHARE if is_coverage else _LOSS
    return Metric(
        name, title, target, (method,), is_coverage, observe, scores.plain_mean, bounds=bounds
    )


def _probability_metric(name: str, title: str, losses: Any) -> Metric:
    observe = observed.probability_losses(losses)
    return Metric(
        name,
        title,
        target="classes",
        methods=("predict_proba",),
        larger_is_better=False,
        observe=observe,
        measure=scores.mean_value,
    )


#: Methods and values that metrics of numeric targets compare, and those of the rows themselves.
_COMPARED: Final[dict[TargetKind, tuple[tuple[str, ...], Any]]] = {
    "numbers": (("predict",), observed.numbers),
    "none": (("transform", "inverse_transform"), observed.entries),
}


def _number_metric(
    name: str, title: str, target: TargetKind, measure: Any, *, ratio: ratios.Ratio | None = None
) -> Metric:
    methods, observe = _COMPARED[target]
    is_explained = ratio is not None
    bounds = _EXPLAINED if is_explained else _LOSS
    return Metric(name, title, target, methods, is_explained, observe, measure, bounds, ratio)


def score_name(report: Mapping[str, Any]) -> str:
    """Return the name of the deciding score of a report: metric, target and average, if any."""
    if len(report.get("tasks") or ()) == 1:
        return task_score_name(report)
    return f"{task_score_name(report)} ({AVERAGES[report['average']]})"


def task_score_name(report: Mapping[str, Any]) -> str:
    """Return the name of the score of a task in a report: metric and target."""
    unit = report.get("unit")  # not in reports of earlier versions
    has_unit = unit and report["metric"] in IN_TARGET_UNITS
    return f"{report['title']} of {unit}" if has_unit else str(report["title"])


#: The first metric for a kind of target is the default.
METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        Metric(
            "error_rate",
            "Error rate",
            target="classes",
            methods=("predict",),
            larger_is_better=False,
            observe=observed.correctness,
            measure=scores.error_rate,
            bounds=_SHARE,
        ),
        Metric(
            "auc",
            "AUC",
            target="classes",
            methods=("decision_function",),
            larger_is_better=True,
            observe=observed.class_scores,
            measure=scores.auc,
            bounds=_SHARE,
            ratio=ratios.AREA,
        ),
        _probability_metric("brier", "Brier score", scores.brier_losses),
        _probability_metric("log_loss", "Log loss", scores.log_losses),
        _number_metric("rmse", "RMSE", "numbers", scores.rmse),
        _number_metric(
            "explained_variance",
            "Explained variance",
            "numbers",
            scores.explained_variance,
            ratio=ratios.EXPLAINED_VARIANCE,
        ),
        _number_metric("r2", "R²", "numbers", scores.r2, ratio=ratios.R2),
        _level_metric(
            "coverage", "Coverage of 90 % intervals", "numbers", observed.interval_coverage
        ),
        _level_metric(
            "interval_width", "Width of 90 % intervals", "numbers", observed.interval_widths
        ),
        _level_metric("set_coverage", "Coverage of 90 % sets", "classes", observed.set_coverage),
        _level_metric("set_size", "Classes in 90 % sets", "classes", observed.set_sizes),
        _number_metric("reconstruction_error", "Reconstruction error", "none", scores.rmse),
        _number_metric(
            "retained_variance",
            "Retained variance ratio",
            "none",
            scores.retained_variance,
            ratio=ratios.RETAINED_VARIANCE,
        ),
    )
}


def describe_metric(report: Mapping[str, Any]) -> list[str]:
    """Return a sentence on why the default metric decides, if a class is rare."""
    reason = report.get("metric_reason")
    return [f"Compared by AUC: {reason}."] if reason else []


def describe_few_rows_of(report: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the tasks that the mean of a ratio leaves out, if there are any."""
    if METRICS[report["metric"]].ratio is None:
        return []
    return ratios.describe_few_rows(report.get("few_rows", ()), report["title"])


def metrics_for(
    algorithms: Sequence[Algorithm[Any, Any]], tasks: Sequence[Task | TaskSummary]
) -> tuple[Metric, ...]:
    """Return the metrics that apply to models of all these algorithms, for at least one task.

    The default metric comes first. Metrics that apply to all tasks precede the others, and then
    metrics of targets precede metrics of rows.

    Raises
    ------
    InvalidData
        No metric applies: the models neither predict these targets nor reconstruct rows.
    """
    suitable = []
    for metric in METRICS.values():
        n_applicable = sum(_is_applicable(metric, algorithms, task) for task in tasks)
        if n_applicable:
            suitable.append((n_applicable < len(tasks), metric.target == "none", metric))
    if not suitable:
        raise _no_metric_error(algorithms, tasks)
    return tuple(metric for *_, metric in sorted(suitable, key=lambda entry: entry[:2]))


def _is_applicable(
    metric: Metric, algorithms: Sequence[Algorithm[Any, Any]], task: Task | TaskSummary
) -> bool:
    needed = set(metric.methods)
    can_all = all(needed <= set(a.methods_for(task.target)) for a in algorithms)
    return can_all and metric.suits(task)


def _no_metric_error(
    algorithms: Sequence[Algorithm[Any, Any]], tasks: Sequence[Task | TaskSummary]
) -> InvalidData:
    names = ", ".join(algorithm.name for algorithm in algorithms)
    first = next((task for task in tasks if task.input == "covariances"), None)
    if first is not None:
        return InvalidData(
            f"task '{first.name}' has covariance matrices, but models are scored on rows; upload "
            "rows, or train without search, comparison and evaluation",
            task=first.name,
        )
    return InvalidData(
        f"models of {names} cannot be scored on new rows: they neither predict these targets nor "
        "reconstruct rows; train without search, comparison and evaluation"
    )


def deciding_metric(
    metrics: Sequence[Metric], choice: MetricChoice, tasks: Sequence[TaskSummary]
) -> tuple[Metric, str | None]:
    """Return the chosen metric, by default the first, or AUC if a class is rare, and the reason.

    Raises
    ------
    InvalidParams
        The metric does not apply to these models.
    """
    by_name = {metric.name: metric for metric in metrics}
    if choice.metric is not None and choice.metric not in by_name:
        raise InvalidParams(
            f"the metric '{choice.metric}' does not apply to this job; use one of: "
            f"{', '.join(by_name)}",
            field="metric",
        )
    if choice.metric is not None:
        return by_name[choice.metric], None
    rare = find_rare_class(tasks, choice.rare_share)
    min_rows = ratios.MIN_RATIO_ROWS if choice.average == "tasks" else 0
    if rare is None or "auc" not in by_name or not can_rank(tasks, min_rows=min_rows):
        return metrics[0], None
    reason = (
        f"{rare.share:.1%} of the rows are '{rare.label}': the error rate of never answering it is "
        "as small, so the default metric is AUC, which sees rare classes; set metric='error_rate' "
        "for the error rate"
    )
    return by_name["auc"], reason
