"""Two algorithms, one for the tasks that are learned together, one for the others."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import TargetKind, Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.wrappers.per_task.model import PerTaskModel
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm

Algo = Algorithm[Any, Any]


class PerTaskAlgorithm(WrappedAlgorithm):
    """An algorithm with another one, whose model replaces its own for some tasks.

    Both are fitted to all tasks with the same random numbers, so that each model equals the model
    of its algorithm alone, bit for bit.

    Parameters
    ----------
    inner
        The algorithm of the tasks that are learned together. The whole has its name and parameters.
    alone
        The algorithm of the others.
    params_alone
        Its parameters.
    tasks_alone
        Names of the others.
    """

    def __init__(
        self, inner: Algo, alone: Algo, *, params_alone: Params, tasks_alone: Sequence[str]
    ) -> None:
        super().__init__(inner)
        self._alone = alone
        self._params_alone = params_alone
        self._tasks_alone = tuple(tasks_alone)

    def methods_for(self, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods that models of both algorithms have."""
        alone_methods = self._alone.methods_for(target)
        return tuple(name for name in self._inner.methods_for(target) if name in alone_methods)

    def check(self, summaries: Sequence[TaskSummary], params: Params) -> None:
        """Raise InvalidData or InvalidParams if one of the algorithms cannot be fitted."""
        super().check(summaries, params)
        self._alone.check(summaries, self._params_alone)

    def fit(
        self, tasks: TaskSet, params: Params, *, trace: Trace, rng: np.random.Generator
    ) -> PerTaskModel:
        """Return the models of both algorithms as one; the trace records the first of them."""
        alone = self._alone.fit(tasks, self._params_alone, trace=trace.nested(), rng=deepcopy(rng))
        inner = self._inner.fit(tasks, params, trace=trace, rng=rng)
        return PerTaskModel(inner, alone, self._tasks_alone)

    def fit_path(
        self, tasks: TaskSet, params: Sequence[Params], *, trace: Trace, rng: np.random.Generator
    ) -> list[PerTaskModel]:
        """Return one model for each of ``params``, which the first algorithm takes."""
        alone = self._alone.fit(tasks, self._params_alone, trace=trace.nested(), rng=deepcopy(rng))
        models = self._inner.fit_path(tasks, params, trace=trace, rng=rng)
        return [PerTaskModel(inner, alone, self._tasks_alone) for inner in models]


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
        detail = "a model of two fits is trained by an automatic choice with 'per_task'"
        raise InvalidData(detail, task=tasks.names[0])


def for_parts(algorithm: Algo, model: Model) -> Algo:
    """Return the algorithm that adds tasks to a model, which may be of two fits."""
    return PerTaskAdaptation(algorithm) if isinstance(model, PerTaskModel) else algorithm


def per_task(
    algorithm: Algo, alone: Mapping[str, Any] | None, *, find: Callable[[str], Algo]
) -> Algo:
    """Return the algorithm combined with another one for some tasks, if ``alone`` names one.

    Parameters
    ----------
    alone
        ``algorithm``, ``params`` and ``tasks`` of the tasks that are learned alone.
    find
        Returns an algorithm by its name.
    """
    if alone is None:
        return algorithm
    other = find(str(alone["algorithm"]))
    return PerTaskAlgorithm(
        algorithm, other, params_alone=other.parse(alone["params"]), tasks_alone=alone["tasks"]
    )
