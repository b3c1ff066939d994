"""Models whose tasks come from two fits: some learned together, the others alone.

Earlier versions trained them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.wrappers.by_parts.algorithm import ByParts
from algorithms.wrappers.by_parts.model import PartsModel
from algorithms.wrappers.dense import Dense, DenseModel
from algorithms.wrappers.stored import below, inside
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm
from algorithms.wrappers.wrapped_model import WrappedModel

#: Key of the header, and folder of the arrays.
ALONE: Final = "alone"

Algo = Algorithm[Any, Any]
#: Makes a model of the name of its algorithm, its arrays and its header.
Load = Callable[[str, Mapping[str, NDArray[Any]], Mapping[str, Any]], Model]


@dataclass(frozen=True, eq=False)
class PerTaskModel(WrappedModel):
    """A model that learned its tasks together, with another that replaces it for some of them.

    Each method of a task calls the task's model, so its outputs are equal bit for bit. Both models
    were fitted to all tasks, so that each is the same as without the other.
    """

    alone: Model
    tasks_alone: tuple[str, ...]

    @property
    def takes_sparse(self) -> bool:
        """Whether the methods of both models accept sparse rows."""
        return self.inner.takes_sparse and self.alone.takes_sparse

    @property
    def takes_missing(self) -> frozenset[str]:  # type: ignore[override]
        """Methods of both models that accept NaN for missing values."""
        return self.inner.takes_missing & self.alone.takes_missing

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Scores on the training rows that both models have: ``{metric: {task: value}}``."""
        other = self.alone.metrics
        return {
            name: {
                task: other[name][task] if task in self._is_alone else value
                for task, value in scores.items()
            }
            for name, scores in self.inner.metrics.items()
            if self._is_alone <= other.get(name, {}).keys()
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about both fits, in sentences."""
        return tuple(dict.fromkeys((*self.inner.warnings, *self.alone.warnings)))

    def part(self, task: str) -> Model:
        """Return the model of a task."""
        return self.alone if task in self._is_alone else self.inner

    def learned(self) -> dict[str, Any]:
        """Return the arrays that both models have for each task, such as ``coef``.

        Arrays that only one of the models has are in its own ``learned()``.
        """
        ours, theirs = self.inner.learned(), self.alone.learned()
        rows = {task: t for t, task in enumerate(self.alone.tasks)}
        joined = {}
        for name in ours.keys() & theirs.keys():
            mine, other = np.asarray(ours[name]), np.asarray(theirs[name])
            is_by_task = mine.ndim > 0 and len(mine) == len(self.tasks) > 1
            if is_by_task and other.ndim > 0 and other.shape == (len(rows), *mine.shape[1:]):
                joined[name] = np.stack(
                    [
                        other[rows[task]] if task in self._is_alone else mine[t]
                        for t, task in enumerate(self.tasks)
                    ]
                )
        return joined

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that both models support."""
        alone_methods = set(self.alone.available_methods())
        return tuple(name for name in self.inner.available_methods() if name in alone_methods)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return self.inner.to_arrays() | inside(ALONE, self.alone.to_arrays())

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        alone = {
            "algorithm": self.alone.algorithm,
            "tasks": list(self.tasks_alone),
            "model": self.alone.header(),
        }
        return self.inner.header() | {ALONE: alone}

    @cached_property
    def _is_alone(self) -> frozenset[str]:
        return frozenset(self.tasks_alone)


def load_alone(
    inner: Model, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any], *, load: Load
) -> Model:
    """Return the model joined with the model of the tasks learned alone, if a file has one.

    Parameters
    ----------
    load
        Makes the model of the tasks learned alone.

    Raises
    ------
    ValueError
        A task is in none of the models.
    """
    if ALONE not in header:
        return inner
    stored = header[ALONE]
    alone = load(str(stored["algorithm"]), below(arrays, ALONE), stored["model"])
    names = tuple(str(name) for name in stored["tasks"])
    unknown = set(names) - (set(inner.tasks) & set(alone.tasks))
    if unknown:
        raise ValueError(f"no model for the tasks {sorted(unknown)}")
    return PerTaskModel(inner, alone, names)


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
