"""What a model is worth on rows it has not seen, by the field's names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from scipy.stats import rankdata

from algorithms.evaluation.splits import labels_of
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.model import InvertibleModel, PredictingModel, ScoringModel
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.numerics.centering import centre_columns, column_means, is_flat

Kind = Literal["none", "numbers", "classes"]


#: What a mean is over: tasks, each of which counts alike, or all rows as those of one task.
Average = Literal["tasks", "rows"]
#: What is compared: the truth and the answer, row by row.
Observation = tuple[Any, Any]


class MetricChoice(BaseModel):
    """By what candidates or methods are told apart."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    metric: str | None = Field(
        None,
        max_length=64,
        description="What decides: error_rate, rmse, ...; by default what suits the targets.",
    )
    average: Average = Field(
        "tasks", description="What counts alike: every task, or every row of all tasks."
    )


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that says how well a model does.

    Parameters
    ----------
    target
        Kind of targets it compares with; ``"none"``: it looks at the rows themselves.
    methods
        What the model must be able to do.
    observe
        Gives truth and answer of the rows of a task.
    measure
        Gives the value of truth and answer.
    pools
        Whether truths and answers of several tasks can be measured as one.
    """

    name: str
    title: str
    target: Kind
    methods: tuple[str, ...]
    larger_is_better: bool
    observe: Callable[[Any, Task], Observation]
    measure: Callable[[Any, Any], float]
    pools: bool = True

    def check(self, algorithm: Algorithm[Any, Any], tasks: Sequence[Task | TaskSummary]) -> None:
        """Raise InvalidParams where models of an algorithm lack a method that is needed."""
        for task in tasks:
            known = algorithm.Model.methods_for(task.target) if self.suits(task) else self.methods
            lacking = [name for name in self.methods if name not in known]
            if lacking:
                raise InvalidParams(
                    f"models of {algorithm.name} have no {', '.join(lacking)}, which {self.name} "
                    f"needs of task '{task.name}'",
                    field="metric",
                )

    def suits(self, task: Task | TaskSummary) -> bool:
        """Return whether it can be taken of a task: of its targets, or of its rows."""
        return task.input == "rows" and self.target in (task.target, "none")

    def of(self, model: Any, task: Task) -> float:
        """Return the value on a task; NaN where there is none."""
        return self.measure(*self.observe(model, task))


def error_rate(truth: Any, answer: Any) -> float:
    """Return the share of rows whose label is wrong."""
    return float(np.mean(truth != answer))


def auc(is_class: Any, scores: Any) -> float:
    """Return the area under the ROC curve: the chance that a row of a class scores above another.

    Of several classes the mean over each against the rest. NaN where the rows lack a class.

    Parameters
    ----------
    is_class, scores : (n_samples, n_classes), or one column where there are two classes
    """
    return float(np.mean([_area(s, p) for s, p in zip(scores.T, is_class.T, strict=True)]))


def rmse(truth: Any, answer: Any) -> float:
    """Return the root of the mean squared difference of all entries."""
    return float(np.sqrt(np.mean((truth - answer) ** 2)))


def r2(truth: Any, answer: Any) -> float:
    """Return 1 - Σ(y - f)² / Σ(y - mean of y)²; NaN where y is constant, but for rounding."""
    return _share(np.mean((truth - answer) ** 2), _variance(truth))


def explained_variance(truth: Any, answer: Any) -> float:
    """Return 1 - Var(y - f) / Var(y), which forgives a constant error; NaN where y is constant."""
    return _share(float(np.var(truth - answer)), _variance(truth))


def retained_variance(centred: Any, image: Any) -> float:
    """Return 1 - Σ(X - image)² / Σ(X - mean)²; NaN where the rows are constant."""
    return _share(float(np.sum((centred - image) ** 2)), float(np.sum(centred**2)))


def _correctness(model: PredictingModel, task: Task) -> Observation:
    """Return for each row 1, and whether its label is right: labels of tasks may be unlike."""
    right = model.predict(task.X, task=task.name) == labels_of(task)
    return np.ones(len(right)), right.astype(np.float64)


def _class_scores(model: ScoringModel, task: Task) -> Observation:
    y, classes = labels_of(task), model.classes(task.name)
    scores = model.decision_function(task.X, task=task.name)
    if scores.ndim == 1:  # of the class that sorts last
        return np.equal(y, classes[-1])[:, np.newaxis], scores[:, np.newaxis]
    return np.stack([y == label for label in classes], axis=1), scores


def _numbers(model: PredictingModel, task: Task) -> Observation:
    if task.y is None or task.target != "numbers":
        raise InvalidData(f"task '{task.name}' has no numbers to compare with", task=task.name)
    return task.y, model.predict(task.X, task=task.name)


def _entries(model: InvertibleModel, task: Task) -> Observation:
    """Return the entries of the rows about their mean, and those of their images."""
    if task.input != "rows":
        raise InvalidData(
            f"task '{task.name}' holds covariance matrices; a model is judged on rows",
            task=task.name,
        )
    latent = model.transform(task.X, task=task.name)
    image = model.inverse_transform(latent, task=task.name)
    return centre_columns(task.X).ravel(), (image - column_means(task.X)).ravel()


_MAPS_BACK: Final = ("transform", "inverse_transform")


def _of_numbers(name: str, title: str, measure: Any, *, larger_is_better: bool = True) -> Metric:
    return Metric(name, title, "numbers", ("predict",), larger_is_better, _numbers, measure)


def _of_rows(name: str, title: str, measure: Any, *, larger_is_better: bool = True) -> Metric:
    return Metric(name, title, "none", _MAPS_BACK, larger_is_better, _entries, measure)


#: The first one of a kind of target is the one that decides where none is named.
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
        ),
        Metric(
            "auc",
            "AUC",
            target="classes",
            methods=("decision_function",),
            larger_is_better=True,
            observe=_class_scores,
            measure=auc,
            pools=False,  # scores of one task are not on the scale of another
        ),
        _of_numbers("rmse", "RMSE", rmse, larger_is_better=False),
        _of_numbers("explained_variance", "Explained variance", explained_variance),
        _of_numbers("r2", "R²", r2),
        _of_rows("reconstruction_error", "Reconstruction error", rmse, larger_is_better=False),
        _of_rows("retained_variance", "Retained variance ratio", retained_variance),
    )
}


def metrics_for(
    algorithms: Sequence[Algorithm[Any, Any]], tasks: Sequence[Task | TaskSummary]
) -> tuple[Metric, ...]:
    """Return the metrics that models of all these algorithms have a value of, for some task.

    The one that decides where none is named comes first: one of all tasks, if there is one, and
    one of their targets rather than of their rows.

    Raises
    ------
    InvalidData
        There is none: the algorithm neither predicts such targets nor maps rows back.
    """
    found = []
    for metric in METRICS.values():
        n_suited = sum(_can_measure(metric, algorithms, task) for task in tasks)
        if n_suited:
            found.append((n_suited < len(tasks), metric.target == "none", metric))
    if not found:
        raise _nothing_to_measure(algorithms, tasks)
    return tuple(metric for *_, metric in sorted(found, key=lambda entry: entry[:2]))


def _can_measure(
    metric: Metric, algorithms: Sequence[Algorithm[Any, Any]], task: Task | TaskSummary
) -> bool:
    needed = set(metric.methods)
    can_all = all(needed <= set(a.Model.methods_for(task.target)) for a in algorithms)
    return can_all and metric.suits(task)


def _nothing_to_measure(
    algorithms: Sequence[Algorithm[Any, Any]], tasks: Sequence[Task | TaskSummary]
) -> InvalidData:
    names = ", ".join(algorithm.name for algorithm in algorithms)
    first = next((task for task in tasks if task.input == "covariances"), None)
    if first is not None:
        return InvalidData(
            f"task '{first.name}' holds covariance matrices, and models are judged on rows; upload "
            "rows, or train without search, comparison and evaluation",
            task=first.name,
        )
    return InvalidData(f"models of {names} do nothing that could be judged on new rows")


def deciding_metric(metrics: Sequence[Metric], asked: MetricChoice) -> Metric:
    """Return the metric that is asked for, or the first.

    Raises
    ------
    InvalidParams
        There is no such metric for these models, or none of all rows.
    """
    known = {metric.name: metric for metric in metrics}
    if asked.metric is not None and asked.metric not in known:
        raise InvalidParams(
            f"there is no metric '{asked.metric}' for this job; there are {', '.join(known)}",
            field="metric",
        )
    metric = metrics[0] if asked.metric is None else known[asked.metric]
    if asked.average == "rows" and not metric.pools:
        raise InvalidParams(
            f"'{metric.name}' cannot be taken over the rows of all tasks: scores of one are not on "
            "the scale of another; use the average 'tasks'",
            field="average",
        )
    return metric


def error_rates(model: PredictingModel, tasks: TaskSet) -> dict[str, float]:
    """Return the share of wrong labels in each task."""
    metric = METRICS["error_rate"]
    return {task.name: metric.of(model, task) for task in tasks}


def mean_squared_error(
    model: PredictingModel, tasks: TaskSet, scales: Mapping[str, float]
) -> float:
    """Return the mean over tasks of the mean squared error of numbers in units of their scale."""
    errors = [np.subtract(*_numbers(model, task)) / scales.get(task.name, 1.0) for task in tasks]
    return float(np.mean([np.mean(one**2) for one in errors]))


def mean_error_rate(model: PredictingModel, tasks: TaskSet) -> float:
    """Return the mean over tasks of the share of wrong labels."""
    return float(np.mean(list(error_rates(model, tasks).values())))


def held_out_loss(scales: Mapping[str, float]) -> Callable[[PredictingModel, TaskSet], float]:
    """Return the loss by which a parameter is chosen, which takes a model and held-out tasks.

    It is the mean over tasks of the share of wrong labels, or of the mean squared error.

    Parameters
    ----------
    scales
        What the numbers of a task are divided by, so that none outweighs the others; 1 for tasks
        that are not among them.
    """

    def loss(model: PredictingModel, tasks: TaskSet) -> float:
        if tasks.tasks[0].target == "numbers":
            return mean_squared_error(model, tasks, scales)
        return mean_error_rate(model, tasks)

    return loss


def _area(scores: Any, is_positive: Any) -> float:
    n_positive = int(np.count_nonzero(is_positive))
    n_negative = is_positive.size - n_positive
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    ranks = rankdata(scores)[is_positive].sum()
    return float((ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def _variance(truth: Any) -> float:
    """Return the variance; 0 where it is no more than rounding."""
    variance = float(np.var(truth))
    return 0.0 if is_flat(variance, np.abs(truth).max()) else variance


def _share(lost: float, whole: float) -> float:
    return float(1.0 - lost / whole) if whole > 0 else float("nan")
