"""Adaptation of models of two fits, which earlier versions trained."""

from typing import Any

import numpy as np

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.wrappers.by_parts.algorithm import ByParts
from algorithms.wrappers.by_parts.model import PartsModel
from algorithms.wrappers.dense import Dense, DenseModel
from algorithms.wrappers.per_task.model import PerTaskModel
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm

Algo = Algorithm[Any, Any]


class PerTaskAdaptation(WrappedAlgorithm):
    """The algorithm that adds a task to a model of two fits: to the tasks learned together."""

    def adapt(self, model: PerTaskModel, task: Task, *, trace: Trace | None = None) -> PerTaskModel:
        """Return the model with a new task, which is learned from the tasks learned together."""
        inner = self._inner.adapt(model.inner, task, trace=trace)
        return PerTaskModel(inner, model.alone, model.tasks_alone)

    def fit(
        self, tasks: TaskSet, params: Params, *, trace: Trace, rng: np.random.Generator
    ) -> Model:
        """Raise InvalidData: this only adds tasks to a model."""
        del params, trace, rng
        detail = "models of two fits are not trained any more"
        raise InvalidData(detail, task=tasks.names[0])


def for_parts(algorithm: Algo, model: Model) -> Algo:
    """Return the algorithm that adds tasks to a model, which may be of two fits."""
    if isinstance(model, PartsModel):
        return ByParts(algorithm, algorithm.role)
    if isinstance(model, DenseModel):
        return Dense(algorithm)
    return PerTaskAdaptation(algorithm) if isinstance(model, PerTaskModel) else algorithm
