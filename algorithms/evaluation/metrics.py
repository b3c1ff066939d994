"""What a model is worth on rows it has not seen, by the field's names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from scipy.stats import rankdata

from algorithms.evaluation.splits import labels_of
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.model import Model
from algorithms.interface.tasks import Task, TaskSet

Kind = Literal["none", "numbers", "classes"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that says how well a model does on a task.

    Parameters
    ----------
    target
        Kind of targets it compares with; ``"none"``: it looks at the rows themselves.
    methods
        What the model must be able to do.
    of
        Gives the value on a task.
    """

    name: str
    title: str
    target: Kind
    methods: tuple[str, ...]
    larger_is_better: bool
    of: Callable[[Any, Task], float]


def error_rate(model: Any, task: Task) -> float:
    """Give the share of rows whose label is wrong."""
    return float(np.mean(model.predict(task.X, task=task.name) != labels_of(task)))


def auc(model: Any, task: Task) -> float:
    """Give the area under the ROC curve: the chance that a row of a class scores above another.

    Of several classes the mean over each against the rest. NaN where the rows lack a class.
    """
    y = labels_of(task)
    scores = model.decision_function(task.X, task=task.name)
    classes = model.classes(task.name)
    if scores.ndim == 1:  # of the class that sorts last
        return _area(scores, y == classes[-1])
    areas = [_area(scores[:, c], y == label) for c, label in enumerate(classes)]
    return float(np.mean(areas))


def rmse(model: Any, task: Task) -> float:
    """Give the root of the mean squared error of the predicted numbers."""
    return float(np.sqrt(np.mean(_residuals(model, task) ** 2)))


def r2(model: Any, task: Task) -> float:
    """Give 1 - Σ(y - f)² / Σ(y - mean of y)²; 0 where y is constant."""
    y = _numbers(task)
    return _share(np.sum(_residuals(model, task) ** 2), np.sum((y - y.mean()) ** 2))


def explained_variance(model: Any, task: Task) -> float:
    """Give 1 - Var(y - f) / Var(y), which forgives a constant error; 0 where y is constant."""
    return _share(float(np.var(_residuals(model, task))), float(np.var(_numbers(task))))


def reconstruction_error(model: Any, task: Task) -> float:
    """Give the root of the mean squared difference between the entries of X and its image."""
    return float(np.sqrt(np.mean(_lost(model, task) ** 2)))


def retained_variance(model: Any, task: Task) -> float:
    """Give 1 - Σ(X - image)² / Σ(X - mean)²; 0 where the rows are constant."""
    spread = np.sum((task.X - task.X.mean(axis=0)) ** 2)
    return _share(float(np.sum(_lost(model, task) ** 2)), float(spread))


_IMAGE: Final = ("transform", "inverse_transform")

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
            of=error_rate,
        ),
        Metric(
            "auc",
            "AUC",
            target="classes",
            methods=("decision_function",),
            larger_is_better=True,
            of=auc,
        ),
        Metric(
            "rmse",
            "RMSE",
            target="numbers",
            methods=("predict",),
            larger_is_better=False,
            of=rmse,
        ),
        Metric(
            "explained_variance",
            "Explained variance",
            target="numbers",
            methods=("predict",),
            larger_is_better=True,
            of=explained_variance,
        ),
        Metric(
            "r2",
            "R²",
            target="numbers",
            methods=("predict",),
            larger_is_better=True,
            of=r2,
        ),
        Metric(
            "reconstruction_error",
            "Reconstruction error",
            target="none",
            methods=_IMAGE,
            larger_is_better=False,
            of=reconstruction_error,
        ),
        Metric(
            "retained_variance",
            "Retained variance",
            target="none",
            methods=_IMAGE,
            larger_is_better=True,
            of=retained_variance,
        ),
    )
}


def metrics_for(algorithms: Sequence[Algorithm[Any, Any]], target: Kind) -> tuple[Metric, ...]:
    """Give the metrics by which models of all these algorithms can be judged.

    The one that decides where none is named comes first.

    Parameters
    ----------
    target
        Kind of targets of the tasks.

    Raises
    ------
    InvalidData
        There is none: the algorithm neither predicts such targets nor maps rows back.
    """
    methods = set.intersection(*(set(a.Model.methods()) for a in algorithms))
    found = [
        metric
        for metric in METRICS.values()
        if metric.target in (target, "none") and set(metric.methods) <= methods
    ]
    if not found:
        names = ", ".join(algorithm.name for algorithm in algorithms)
        raise InvalidData(f"models of {names} do nothing that could be judged on new rows")
    return tuple(sorted(found, key=lambda metric: metric.target == "none"))


def deciding_metric(metrics: tuple[Metric, ...], name: str | None) -> Metric:
    """Give the metric of a name, or the first.

    Raises
    ------
    InvalidParams
        There is no such metric for these models.
    """
    if name is None:
        return metrics[0]
    for metric in metrics:
        if metric.name == name:
            return metric
    known = ", ".join(metric.name for metric in metrics)
    raise InvalidParams(f"there is no metric '{name}' for this job; there are {known}")


def error_rates(model: Model, tasks: TaskSet) -> dict[str, float]:
    """Give the share of wrong labels in each task."""
    return {task.name: error_rate(model, task) for task in tasks}


def mean_squared_error(model: Model, tasks: TaskSet) -> float:
    """Give the mean over tasks of the mean squared error of predicted numbers."""
    return float(np.mean([rmse(model, task) ** 2 for task in tasks]))


def mean_error_rate(model: Model, tasks: TaskSet) -> float:
    """Give the mean over tasks of the share of wrong labels."""
    return float(np.mean(list(error_rates(model, tasks).values())))


def _area(scores: Any, is_positive: Any) -> float:
    n_positive = int(np.count_nonzero(is_positive))
    n_negative = is_positive.size - n_positive
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    ranks = rankdata(scores)[is_positive].sum()
    return float((ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def _residuals(model: Any, task: Task) -> Any:
    return _numbers(task) - model.predict(task.X, task=task.name)


def _numbers(task: Task) -> Any:
    if task.y is None or task.target != "numbers":
        raise InvalidData(f"task '{task.name}' has no numbers to compare with", task=task.name)
    return task.y


def _lost(model: Any, task: Task) -> Any:
    if task.input != "rows":
        raise InvalidData(
            f"task '{task.name}' holds covariance matrices; a model is judged on rows",
            task=task.name,
        )
    latent = model.transform(task.X, task=task.name)
    return task.X - model.inverse_transform(latent, task=task.name)


def _share(lost: float, whole: float) -> float:
    return float(1.0 - lost / whole) if whole > 0 else 0.0
