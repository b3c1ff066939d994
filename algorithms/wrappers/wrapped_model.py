"""A model that extends another one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.methods import DEFAULT_LEVEL
from algorithms.interface.model import Embedding, Model
from algorithms.interface.relations import Relations


@dataclass(frozen=True, eq=False)
class WrappedModel(Model):
    """Base class of models that delegate to another model; subclasses override parts of it."""

    inner: Model

    @property
    def takes_sparse(self) -> bool:
        """Whether the methods accept sparse rows."""
        return self.inner.takes_sparse

    @property
    def takes_missing(self) -> frozenset[str]:  # type: ignore[override]
        """Methods that accept NaN for missing values."""
        return self.inner.takes_missing

    @property
    def algorithm(self) -> str:
        """Name of the algorithm in the registry."""
        return self.inner.algorithm

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks of the model."""
        return self.inner.tasks

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Scores on the training rows: ``{metric: {task: value}}``."""
        return self.inner.metrics

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about this fit, in sentences."""
        return self.inner.warnings

    def race(self) -> dict[str, Any] | None:
        """Return the scores of the methods that the fit compared, as JSON; None for one method."""
        return self.inner.race()

    def for_new_tasks(self, names: tuple[str, ...]) -> Model:
        """Return a model of tasks without rows, which the common part of this one answers for."""
        return self.inner.for_new_tasks(names)

    def part(self, task: str) -> Model:
        """Return the model that answers for a task."""
        del task
        return self.inner

    def width(self, method: str, *, task: str) -> int:
        """Return the number of input columns of a method for a task."""
        return self.part(task).width(method, task=task)

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; empty if the model is not a classifier."""
        return self.part(task).classes(task)

    def relations(self) -> Relations | None:
        """Return the learned relations of the tasks; None if the model has none."""
        return self.inner.relations()

    def embedding(self, task: str) -> Embedding | None:
        """Return the points that the model has stored for a task; None if it has none."""
        return self.part(task).embedding(task)

    def coefficients(self, task: str) -> NDArray[np.float64] | None:
        """Return the coefficients of the (prepared) columns of a task; None if not linear."""
        return self.part(task).coefficients(task)

    def learned(self) -> dict[str, Any]:
        """Return the learned quantities by their scikit-learn names."""
        return self.inner.learned()

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that this model supports, given its data."""
        return self.inner.available_methods()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Raise TypeError: the registry joins a model and its extension."""
        del arrays, header
        raise TypeError("load this model with algorithms.registry.load_model")

    def transform(self, X: object, *, task: str) -> NDArray[Any]:
        """Return coordinates of rows."""
        return self._call("transform", X, task)

    def inverse_transform(self, Z: object, *, task: str) -> NDArray[Any]:
        """Return the rows of coordinates."""
        return self._call("inverse_transform", Z, task)

    def reconstruct(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the rows that the coordinates of rows stand for."""
        return self._call("reconstruct", X, task)

    def variance(self, X: object, *, task: str) -> NDArray[Any]:
        """Return variances for rows."""
        return self._call("variance", X, task)

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return predicted numbers or labels of rows."""
        return self._call("predict", X, task)

    def distances(self, X: object, *, task: str) -> NDArray[Any]:
        """Return distances of rows to the classes."""
        return self._call("distances", X, task)

    def decision_function(self, X: object, *, task: str) -> NDArray[Any]:
        """Return scores of rows."""
        return self._call("decision_function", X, task)

    def predict_proba(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the probabilities of the classes of rows."""
        return self._call("predict_proba", X, task)

    def predict_interval(
        self, X: object, *, task: str, level: float = DEFAULT_LEVEL
    ) -> NDArray[Any]:
        """Return the ends of an interval for each row."""
        return self._call("predict_interval", X, task, level=level)

    def predict_set(self, X: object, *, task: str, level: float = DEFAULT_LEVEL) -> NDArray[Any]:
        """Return whether each class is in the set of a row."""
        return self._call("predict_set", X, task, level=level)

    def _call(self, method: str, X: object, task: str, **options: float) -> NDArray[Any]:
        outputs: NDArray[Any] = getattr(self.part(task), method)(X, task=task, **options)
        return outputs
