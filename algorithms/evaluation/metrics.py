"""Metrics of models on held-out rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from algorithms.evaluation.splits import labels_of
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.model import (
    DEFAULT_LEVEL,
    IntervalModel,
    InvertibleModel,
    PredictingModel,
    ProbabilisticModel,
    ScoringModel,
    SetModel,
)
from algorithms.interface.strict_model import StrictModel
from algorithms.interface.tasks import Array, Task, TaskSet, TaskSummary
from algorithms.interface.wrapped_model import WrappedModel
from algorithms.numerics.centering import (
    centre_columns,
    column_means,
    column_variances,
    is_flat,
    weighted_mean,
)
from algorithms.preparation.model import PreparedModel, unwrap

TargetKind = Literal["none", "numbers", "classes"]


#: A mean over tasks, which all count the same, or a value over the rows of all tasks.
Average = Literal["tasks", "rows"]
#: True values and predictions, row by row.
TruthAndPrediction = tuple[Any, Any]


class MetricChoice(StrictModel):
    """The metric and the average that rank candidates or methods."""

    model_config = ConfigDict(frozen=True)

    metric: str | None = Field(
        None,
        max_length=64,
        description="Deciding metric: error_rate, rmse, ... Default: one that suits the targets.",
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
    pools
        Whether true values and predictions of several tasks can be concatenated.
    bounds
        Smallest and largest value that it can have.
    """

    name: str
    title: str
    target: TargetKind
    methods: tuple[str, ...]
    larger_is_better: bool
    observe: Callable[[Any, Task], TruthAndPrediction]
    measure: Callable[[Any, Any, Array | None], float]
    pools: bool = True
    bounds: tuple[float, float] = _LOSS

    def check(self, algorithm: Algorithm[Any, Any], tasks: Sequence[Task | TaskSummary]) -> None:
        """Raise InvalidParams if models of an algorithm lack a method that the metric needs."""
        for task in tasks:
            known = algorithm.methods_for(task.target) if self.suits(task) else self.methods
            missing = [name for name in self.methods if name not in known]
            if missing:
                raise InvalidParams(
                    f"the metric {self.name} needs the method {', '.join(missing)}, which models "
                    f"of {algorithm.name} do not have for task '{task.name}'; choose another",
                    field="metric",
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


def error_rate(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return the share of rows whose label is wrong."""
    return weighted_mean((truth != prediction).astype(np.float64), weights)


def auc(is_class: Any, scores: Any, weights: Array | None = None) -> float:
    """Return the area under the ROC curve.

    For several classes, it is the mean of the areas of each class against the rest. It is NaN if
    the rows lack a class.

    Parameters
    ----------
    is_class, scores : (n_samples, n_classes), or one column where there are two classes
    weights : (n_samples,) or None
    """
    pairs = zip(scores.T, is_class.T, strict=True)
    return float(np.mean([_area(s, p, weights) for s, p in pairs]))


def rmse(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return the root mean squared error over all entries."""
    return float(np.sqrt(weighted_mean((truth - prediction) ** 2, weights)))


def r2(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return 1 - Σ(y - f)² / Σ(y - mean of y)²; NaN if y is constant up to rounding."""
    residual = weighted_mean((truth - prediction) ** 2, weights)
    return _explained_share(residual, _variance(truth, weights))


def explained_variance(truth: Any, prediction: Any, weights: Array | None = None) -> float:
    """Return 1 - Var(y - f) / Var(y), which ignores a constant error; NaN if y is constant."""
    rest = _spread(truth - prediction, weights)
    return _explained_share(rest, _variance(truth, weights))


def retained_variance(centred: Any, image: Any, weights: Array | None = None) -> float:
    """Return 1 - Σ(X - image)² / Σ(X - mean)²; NaN if the rows are constant."""
    residual, total = (centred - image) ** 2, centred**2
    if weights is not None:
        residual, total = weights * residual, weights * total
    return _explained_share(float(np.sum(residual)), float(np.sum(total)))


def _correctness(model: PredictingModel, task: Task) -> TruthAndPrediction:
    """Return 1 for each row, and whether its label is right (tasks may have different labels)."""
    right = model.predict(task.X, task=task.name) == labels_of(task)
    return np.ones(len(right)), right.astype(np.float64)


def _class_scores(model: ScoringModel, task: Task) -> TruthAndPrediction:
    y, classes = labels_of(task), model.classes(task.name)
    scores = model.decision_function(task.X, task=task.name)
    if scores.ndim == 1:  # scores of the class that sorts last
        return np.equal(y, classes[-1])[:, np.newaxis], scores[:, np.newaxis]
    return np.stack([y == label for label in classes], axis=1), scores


def brier_losses(p: Array, codes: NDArray[np.intp]) -> Array:
    """Return Σ_k (p_k - o_k)² of each row, where o is 1 for its class; half of it for two classes.

    Parameters
    ----------
    p : (n_samples, n_classes)
    codes : (n_samples,)
        Column of the class of each row; -1 if no column is.
    """
    truth = codes[:, np.newaxis] == np.arange(p.shape[1])
    losses: Array = ((p - truth) ** 2).sum(axis=1) / (2 if p.shape[1] == 2 else 1)
    return losses


def log_losses(p: Array, codes: NDArray[np.intp]) -> Array:
    """Return -log p of the class of each row; a probability of 0 counts as the smallest step.

    Parameters
    ----------
    p, codes
        As in :func:`brier_losses`.
    """
    of_class = np.where(codes < 0, 0.0, p[np.arange(len(p)), codes])
    losses: Array = -np.log(np.maximum(of_class, np.finfo(np.float64).eps))
    return losses


def _probability_losses(
    losses: Callable[[Array, NDArray[np.intp]], Array],
) -> Callable[[ProbabilisticModel, Task], TruthAndPrediction]:
    """Return the function that observes the loss of each row (tasks may have different labels)."""

    def observe(model: ProbabilisticModel, task: Task) -> TruthAndPrediction:
        position = {label: i for i, label in enumerate(model.classes(task.name))}
        codes = np.array([position.get(label, -1) for label in labels_of(task).tolist()])
        found = losses(model.predict_proba(task.X, task=task.name), codes)
        return np.zeros(len(found)), found

    return observe


def _mean_value(zeros: Any, values: Any, weights: Array | None = None) -> float:
    del zeros
    return weighted_mean(values, weights)


def _plain_mean(zeros: Any, values: Any, weights: Array | None = None) -> float:
    """Return the mean without weights: intervals and sets promise a share of the rows."""
    del zeros, weights
    return float(np.mean(values))


def _interval_ends(model: IntervalModel, task: Task) -> Array:
    """Return the ends of the intervals; NaN if the task has too few rows for them."""
    try:
        return model.predict_interval(task.X, task=task.name, level=DEFAULT_LEVEL)
    except InvalidData:
        return np.full((task.n_samples, 2), np.nan)


def _coverage(model: IntervalModel, task: Task) -> TruthAndPrediction:
    low, high = _interval_ends(model, task).T
    is_covered = np.where(np.isnan(low), np.nan, (low <= task.y) & (task.y <= high))
    return np.zeros(task.n_samples), is_covered


def _interval_widths(model: IntervalModel, task: Task) -> TruthAndPrediction:
    low, high = _interval_ends(model, task).T
    return np.zeros(task.n_samples), high - low


def _set_coverage(model: SetModel, task: Task) -> TruthAndPrediction:
    is_in = model.predict_set(task.X, task=task.name, level=DEFAULT_LEVEL)
    truth = labels_of(task)[:, np.newaxis] == np.asarray(model.classes(task.name))
    return np.zeros(task.n_samples), (is_in * truth).sum(axis=1)


def _set_sizes(model: SetModel, task: Task) -> TruthAndPrediction:
    is_in = model.predict_set(task.X, task=task.name, level=DEFAULT_LEVEL)
    return np.zeros(task.n_samples), is_in.sum(axis=1)


def _level_metric(name: str, title: str, target: TargetKind, observe: Any) -> Metric:
    method = "predict_interval" if target == "numbers" else "predict_set"
    is_coverage = name.endswith("coverage")
    bounds = _SHARE if is_coverage else _LOSS
    return Metric(name, title, target, (method,), is_coverage, observe, _plain_mean, bounds=bounds)


def _probability_metric(name: str, title: str, losses: Any) -> Metric:
    observe = _probability_losses(losses)
    return Metric(
        name,
        title,
        target="classes",
        methods=("predict_proba",),
        larger_is_better=False,
        observe=observe,
        measure=_mean_value,
    )


def _numbers(model: PredictingModel, task: Task) -> TruthAndPrediction:
    if task.y is None or task.target != "numbers":
        raise InvalidData(
            f"task '{task.name}' has no numeric targets to compare predictions with", task=task.name
        )
    return task.y, model.predict(task.X, task=task.name)


def _entries(model: InvertibleModel, task: Task) -> TruthAndPrediction:
    """Return the entries of the centred rows, and those of their reconstructions."""
    if task.input != "rows":
        raise InvalidData(
            f"task '{task.name}' has covariance matrices; models can be scored on rows only",
            task=task.name,
        )
    model, task = _prepared_space(model, task)
    latent = model.transform(task.X, task=task.name)
    image = model.inverse_transform(latent, task=task.name)
    if task.weights is None:
        return centre_columns(task.X).ravel(), (image - column_means(task.X)).ravel()
    mean = column_means(task.X, task.weights)
    return (task.X - mean).ravel(), (image - mean).ravel()


def _prepared_space(model: Any, task: Task) -> tuple[Any, Task]:
    """Return the model of prepared rows, which it reconstructs, and the prepared task."""
    while isinstance(model, WrappedModel) and not isinstance(model, PreparedModel):
        model = model.inner
    model, (task,) = unwrap(model, [task])
    return model, task


_RECONSTRUCTION: Final = ("transform", "inverse_transform")


def _regression_metric(
    name: str, title: str, measure: Any, *, larger_is_better: bool = True
) -> Metric:
    bounds = _EXPLAINED if larger_is_better else _LOSS
    return Metric(
        name, title, "numbers", ("predict",), larger_is_better, _numbers, measure, bounds=bounds
    )


def _reconstruction_metric(
    name: str, title: str, measure: Any, *, larger_is_better: bool = True
) -> Metric:
    bounds = _EXPLAINED if larger_is_better else _LOSS
    return Metric(
        name, title, "none", _RECONSTRUCTION, larger_is_better, _entries, measure, bounds=bounds
    )


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
            observe=_correctness,
            measure=error_rate,
            bounds=_SHARE,
        ),
        Metric(
            "auc",
            "AUC",
            target="classes",
            methods=("decision_function",),
            larger_is_better=True,
            observe=_class_scores,
            measure=auc,
            pools=False,  # tasks have scores on different scales
            bounds=_SHARE,
        ),
        _probability_metric("brier", "Brier score", brier_losses),
        _probability_metric("log_loss", "Log loss", log_losses),
        _regression_metric("rmse", "RMSE", rmse, larger_is_better=False),
        _regression_metric("explained_variance", "Explained variance", explained_variance),
        _regression_metric("r2", "R²", r2),
        _level_metric("coverage", "Coverage of 90 % intervals", "numbers", _coverage),
        _level_metric("interval_width", "Width of 90 % intervals", "numbers", _interval_widths),
        _level_metric("set_coverage", "Coverage of 90 % sets", "classes", _set_coverage),
        _level_metric("set_size", "Classes in 90 % sets", "classes", _set_sizes),
        _reconstruction_metric(
            "reconstruction_error", "Reconstruction error", rmse, larger_is_better=False
        ),
        _reconstruction_metric("retained_variance", "Retained variance ratio", retained_variance),
    )
}


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
    found = []
    for metric in METRICS.values():
        n_applicable = sum(_is_applicable(metric, algorithms, task) for task in tasks)
        if n_applicable:
            found.append((n_applicable < len(tasks), metric.target == "none", metric))
    if not found:
        raise _no_metric_error(algorithms, tasks)
    return tuple(metric for *_, metric in sorted(found, key=lambda entry: entry[:2]))


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


def deciding_metric(metrics: Sequence[Metric], choice: MetricChoice) -> Metric:
    """Return the chosen metric; the first one by default.

    Raises
    ------
    InvalidParams
        The metric does not apply to these models, or has no average over rows.
    """
    known = {metric.name: metric for metric in metrics}
    if choice.metric is not None and choice.metric not in known:
        raise InvalidParams(
            f"the metric '{choice.metric}' does not apply to this job; use one of: "
            f"{', '.join(known)}",
            field="metric",
        )
    metric = metrics[0] if choice.metric is None else known[choice.metric]
    if choice.average == "rows" and not metric.pools:
        raise InvalidParams(
            f"'{metric.name}' has no average over rows, because tasks have scores on different "
            "scales; use the average 'tasks'",
            field="average",
        )
    return metric


def error_rates(model: PredictingModel, tasks: TaskSet) -> dict[str, float]:
    """Return the (weighted) share of wrong labels in each task."""
    metric = METRICS["error_rate"]
    return {task.name: metric.score(model, task) for task in tasks}


def mean_squared_error(
    model: PredictingModel, tasks: TaskSet, scales: Mapping[str, float]
) -> float:
    """Return the mean over tasks of the mean squared error, in units of each task's scale.

    With weights of rows, the mean over the rows of a task is weighted.
    """
    errors = [np.subtract(*_numbers(model, task)) / scales.get(task.name, 1.0) for task in tasks]
    means = [weighted_mean(one**2, task.weights) for one, task in zip(errors, tasks, strict=True)]
    return float(np.mean(means))


def mean_error_rate(model: PredictingModel, tasks: TaskSet) -> float:
    """Return the mean over tasks of the share of wrong labels."""
    return float(np.mean(list(error_rates(model, tasks).values())))


def held_out_loss(scales: Mapping[str, float]) -> Callable[[PredictingModel, TaskSet], float]:
    """Return the loss function for parameter selection; it takes a model and held-out tasks.

    The loss is the mean over tasks of the error rate, or of the mean squared error.

    Parameters
    ----------
    scales
        Divisors of the errors of each task, so that no task outweighs the others; 1 by default.
    """

    def loss(model: PredictingModel, tasks: TaskSet) -> float:
        if tasks.tasks[0].target == "numbers":
            return mean_squared_error(model, tasks, scales)
        return mean_error_rate(model, tasks)

    return loss


def _area(scores: Any, is_positive: Any, weights: Array | None) -> float:
    if weights is not None:
        return _weighted_area(scores, is_positive, weights)
    positive, negative = scores[is_positive], np.sort(scores[~is_positive])
    if positive.size == 0 or negative.size == 0:
        return float("nan")
    # negative rows with a smaller score, and half of those with the same score
    n_smaller = negative.searchsorted(positive, "left").sum()
    n_not_larger = negative.searchsorted(positive, "right").sum()
    return float((n_smaller + n_not_larger) / (2 * positive.size * negative.size))


def _weighted_area(scores: Any, is_positive: Any, weights: Array) -> float:
    order = np.argsort(scores[~is_positive])
    negative, positive = scores[~is_positive][order], scores[is_positive]
    # total weight of the first negative rows
    totals = np.append(0.0, np.cumsum(weights[~is_positive][order]))
    own = weights[is_positive]
    if not (own.sum() > 0 and totals[-1] > 0):
        return float("nan")
    smaller = totals[negative.searchsorted(positive, "left")]
    not_larger = totals[negative.searchsorted(positive, "right")]
    return float(own @ (smaller + not_larger) / (2 * own.sum() * totals[-1]))


def _spread(values: Any, weights: Array | None) -> float:
    if weights is None:
        return float(np.var(values))
    return float(column_variances(values[:, np.newaxis], weights)[0])


def _variance(truth: Any, weights: Array | None) -> float:
    """Return the variance; 0 if it is at the level of rounding errors."""
    variance = _spread(truth, weights)
    return 0.0 if is_flat(variance, np.abs(truth).max()) else variance


def _explained_share(residual: float, total: float) -> float:
    return float(1.0 - residual / total) if total > 0 else float("nan")
