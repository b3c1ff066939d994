"""The trivial baseline: the same prediction for every row of a task, or of all tasks.

It predicts the mean of numeric targets, or the most frequent label (among ties, the first in sorted
order), with the shares of the classes as scores. It reconstructs rows as their mean. Means and
shares are computed for each task, or over the rows of all tasks. A method that is not better has
learned nothing from the columns. Cost: O(nd).

Reference: the estimators DummyRegressor and DummyClassifier,
https://scikit-learn.org/stable/modules/model_evaluation.html#dummy-estimators
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs, check_known_labels, check_same_classes
from algorithms.interface.new_tasks import no_common_part
from algorithms.interface.params import Params
from algorithms.interface.tasks import TargetKind, Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.weights import joint_weights
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_means, weighted_mean


class ConstantParams(Params):
    """Parameters of the constant prediction."""

    form: Literal["task", "pooled"] = Field(
        "task",
        title="Form",
        description="'task': mean or class frequencies of each task. 'pooled': of the rows "
        "of all tasks, which need the same columns and classes.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """The predictions for every row of a task.

    Parameters
    ----------
    mean : (d,)
        Mean of the rows.
    values : (1,) for numbers, (n_classes,) for classes, (0,) without targets
        Mean of the targets, or shares of the classes.
    classes
        Labels, sorted; empty for numbers.
    """

    mean: Array
    values: Array
    classes: tuple[Any, ...] = ()


@final
@dataclass(frozen=True, slots=True, eq=False)
class ConstantModel(Model):
    """A model that predicts the same for every row of a task."""

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    parts: tuple[Constants, ...]
    fit_info: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods for a task with the given kind of targets."""
        missing = {"none": {"predict", "decision_function"}, "numbers": {"decision_function"}}
        return tuple(m for m in cls.methods() if m not in missing.get(target, ()))

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that work for the targets of all tasks."""
        missing = set()
        if any(part.values.size == 0 for part in self.parts):
            missing |= {"predict", "decision_function"}
        if any(not part.classes for part in self.parts):
            missing |= {"decision_function"}
        return tuple(method for method in self.methods() if method not in missing)

    def width(self, method: str, *, task: str) -> int:
        """Return 1 for ``inverse_transform``, the number of features otherwise."""
        n_features = len(self._part(task).mean)
        return 1 if method == "inverse_transform" else n_features

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted."""
        return self._part(task).classes

    def transform(self, X: object, *, task: str) -> Array:
        """Return a single coordinate, 0, for each row, (n_samples, 1)."""
        return np.zeros((len(self.check_rows(X, method="transform", task=task)), 1))

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the mean row of the task for every row of Z (n_samples, 1)."""
        rows = self.check_rows(Z, method="inverse_transform", task=task)
        return np.tile(self._part(task).mean, (len(rows), 1))

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the mean target, or the most frequent label, for every row, (n_samples,)."""
        n_rows = len(self.check_rows(X, method="predict", task=task))
        part = self._part(task)
        if not part.classes:
            return np.full(n_rows, part.values[0])
        return np.full(n_rows, np.array(part.classes)[int(part.values.argmax())])

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return the share of each class for every row; for two classes, of the second."""
        n_rows = len(self.check_rows(X, method="decision_function", task=task))
        values = self._part(task).values
        return np.full(n_rows, values[1]) if len(values) == 2 else np.tile(values, (n_rows, 1))

    def for_new_tasks(self, names: tuple[str, ...]) -> "ConstantModel":
        """Return the constants of all tasks, as those of tasks without rows."""
        # version 0.1 had no parameters
        if self.fit_info.get("params", {}).get("form") != "pooled":
            raise no_common_part(self.algorithm, names)
        return replace(self, tasks=names, parts=self.parts[:1] * len(names))

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        if len(self.tasks) != len(self.parts):
            raise ValueError(f"{len(self.parts)} parts for {len(self.tasks)} tasks")
        for part in self.parts:
            if part.mean.ndim != 1 or part.values.ndim != 1:
                raise ValueError("means and values must be vectors")
            if part.classes and len(part.classes) != len(part.values):
                raise ValueError(f"{len(part.values)} shares for {len(part.classes)} classes")

    def _part(self, task: str) -> Constants:
        return self.parts[self.task_index(task)]


class Constant(Algorithm[ConstantParams, ConstantModel]):
    """The same prediction for every row of a task."""

    name = "constant"
    title = "Constant prediction"
    summary = (
        "Predicts the mean target, the most frequent class, or the mean row, of each task or of "
        "all tasks: the trivial baseline. A method that is not better has learned nothing."
    )
    reference = (
        "DummyRegressor and DummyClassifier, "
        "https://scikit-learn.org/stable/modules/model_evaluation.html#dummy-estimators"
    )
    needs = Needs(same_features=False, optional_target="any", weights=True)
    Params = ConstantParams
    Model = ConstantModel

    def check(self, summaries: Sequence[TaskSummary], params: ConstantParams) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        needs = self.needs if params.form == "task" else _POOLED_NEEDS
        needs.check(summaries, algorithm=self.name)
        if params.form == "pooled":
            _check_same_targets(summaries)
            check_known_labels(summaries)

    def fit(
        self, tasks: TaskSet, params: ConstantParams, *, trace: Trace, rng: np.random.Generator
    ) -> ConstantModel:
        """Return the means and shares of each task, or of all tasks."""
        del rng
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        groups = [_pooled(tasks)] if params.form == "pooled" else list(tasks)
        all_means = trace.run_once(
            "means", lambda: (np.concatenate([_mean_row(t) for t in groups]), 0.0)
        )
        means = np.split(all_means, np.cumsum([task.n_features for task in groups])[:-1])
        parts = tuple(_constants(task, mean) for task, mean in zip(groups, means, strict=True))
        if params.form == "pooled":
            parts = parts * len(tasks)
        fit_info = {"params": params.model_dump(mode="json")}
        return ConstantModel(self.name, tasks.names, parts, fit_info)

    def final_objective(self, params: ConstantParams, trace: Trace) -> None:
        """Return None: nothing is optimised."""
        del params, trace

    def adapt_task(self, model: ConstantModel, task: Task, *, trace: Trace) -> ConstantModel:
        """Return the model with a new task: the constants of its rows, or of all tasks."""
        del trace
        # version 0.1 had no parameters
        params = ConstantParams.model_validate(model.fit_info.get("params", {}))
        self.check([task.summary()], params)
        part = _constants(task, _mean_row(task))
        if params.form == "pooled":
            model.check_width_of(task)
            first = model.parts[0]
            check_same_classes([model.tasks[0], task.name], [first.classes, part.classes])
            if len(first.values) != len(part.values):
                raise InvalidData(
                    f"task '{task.name}' needs targets of the same kind as the model's tasks",
                    task=task.name,
                )
            part = first
        return replace(model, tasks=(*model.tasks, task.name), parts=(*model.parts, part))


_POOLED_NEEDS: Final = replace(Constant.needs, same_features=True)


def _check_same_targets(summaries: Sequence[TaskSummary]) -> None:
    """Raise InvalidData if tasks to be pooled have different kinds of targets."""
    first = summaries[0]
    for task in summaries:
        if task.target != first.target:
            raise InvalidData(
                f"the targets of task '{first.name}' are {first.target}, the targets of "
                f"task '{task.name}' {task.target}; form 'pooled' needs the same kind in all "
                "tasks: use form 'task'",
                task=task.name,
            )


def _pooled(tasks: TaskSet) -> Task:
    """Return one task with the rows of all tasks, in the order of their names."""
    ordered = tasks.by_name()
    X = np.concatenate([task.X for task in ordered])
    targets = [task.y for task in ordered if task.y is not None]
    y = np.concatenate(targets) if targets else None
    return Task("all", X, y=y, weights=joint_weights(ordered))


def _mean_row(task: Task) -> Array:
    if task.weights is None:
        return np.asarray(task.X.mean(axis=0))
    return column_means(task.X, task.weights)


def _constants(task: Task, mean: Array) -> Constants:
    if task.y is None:
        return Constants(mean, np.zeros(0))
    if task.target == "numbers":
        return Constants(mean, np.array([weighted_mean(task.y, task.weights)]))
    labels = task.class_labels()
    codes = np.searchsorted(labels, task.y)
    counts = np.bincount(codes, weights=task.weights, minlength=len(labels))
    return Constants(mean, counts / counts.sum(), tuple(labels.tolist()))
