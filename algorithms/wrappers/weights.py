"""Any algorithm, trained with weights of rows and of classes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.weights import ClassWeight, has_class_weight, no_classes, weigh
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm


class WeightedAlgorithm(WrappedAlgorithm):
    """An algorithm whose fit scales the weights of its rows, and weighs their classes.

    Class weights follow from the rows that a fit is given, so where rows are held out, from the
    training rows. The algorithm itself sees weights of rows only. Its own selection of parameters
    is an exception: it divides rows that have their weights.
    """

    def __init__(self, inner: Algorithm[Any, Any], class_weight: ClassWeight | None) -> None:
        super().__init__(inner)
        self._class_weight = class_weight

    def check(self, summaries: Sequence[TaskSummary], params: Params) -> None:
        """Raise InvalidData or InvalidParams if the algorithm cannot be fitted with the weights."""
        if not has_class_weight(self._class_weight):
            super().check(summaries, params)
            return
        self._inner.check([replace(task, has_weights=False) for task in summaries], params)
        for task in summaries:
            if task.target != "classes":
                raise no_classes(task.name)
        super().check([replace(task, has_weights=True) for task in summaries], params)

    def fit(
        self, tasks: TaskSet, params: Params, *, trace: Trace, rng: np.random.Generator
    ) -> Model:
        """Return the model trained on the weighted rows."""
        weighed = self._weigh(tasks, params)
        model: Model = self._inner.fit(weighed, params, trace=trace, rng=rng)
        return model

    def fit_path(
        self, tasks: TaskSet, params: Sequence[Params], *, trace: Trace, rng: np.random.Generator
    ) -> list[Model]:
        """Return one model for each of ``params``, all with the same weights."""
        return self._inner.fit_path(self._weigh(tasks, params[0]), params, trace=trace, rng=rng)

    def adapt(self, model: Any, task: Task, *, trace: Trace | None = None) -> Model:
        """Return the model with a new task, trained on its weighted rows."""
        (new,) = weigh(TaskSet((task,)), self._class_weight)
        adapted: Model = self._inner.adapt(model, new, trace=trace)
        return adapted

    def _weigh(self, tasks: TaskSet, params: Params) -> TaskSet:
        weighed = weigh(tasks, self._class_weight)
        self._inner.check(weighed.summaries(), params)
        return weighed


def own_class_weight(
    algorithm: Algorithm[Any, Any], class_weight: ClassWeight | None
) -> tuple[dict[str, Any], ClassWeight | None]:
    """Return class weights as a parameter of the algorithm, if it has one, and the remaining ones.

    A parameter ``class_weight`` of an algorithm takes names only.
    """
    if isinstance(class_weight, str) and "class_weight" in algorithm.Params.model_fields:
        return {"class_weight": class_weight}, None
    return {}, class_weight


def weighted(
    algorithm: Algorithm[Any, Any], class_weight: ClassWeight | None, *, has_weights: bool
) -> Algorithm[Any, Any]:
    """Return the algorithm for rows or classes with weights; itself if neither have any."""
    if not has_weights and not has_class_weight(class_weight):
        return algorithm
    return WeightedAlgorithm(algorithm, class_weight)
