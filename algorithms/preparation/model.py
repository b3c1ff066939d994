"""A trained model that takes raw rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from algorithms.interface.model import FEATURE_METHODS, Model
from algorithms.interface.relations import Relations
from algorithms.interface.tasks import Array, Task
from algorithms.preparation.learning import Preparation


@dataclass(frozen=True, eq=False)
class PreparedModel(Model):
    """A model with the preparation of its rows.

    Its methods take raw rows. ``reconstruct`` and ``inverse_transform`` return prepared columns.
    """

    inner: Model
    preparation: Preparation

    takes_missing: ClassVar[frozenset[str]] = FEATURE_METHODS

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

    def width(self, method: str, *, task: str) -> int:
        """Return the number of input columns of a method for a task."""
        if method not in FEATURE_METHODS:
            return self.inner.width(method, task=task)
        self.task_index(task)
        return len(self.preparation.of(task).columns)

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; empty if the model is not a classifier."""
        return self.inner.classes(task)

    def relations(self) -> Relations | None:
        """Return the learned relations of the tasks; None if the model has none."""
        return self.inner.relations()

    def learned(self) -> dict[str, Any]:
        """Return what was learned, in terms of the prepared columns."""
        return self.inner.learned()

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that this model supports, given its data."""
        return self.inner.available_methods()

    def transform(self, X: object, *, task: str) -> NDArray[Any]:
        """Return coordinates of raw rows."""
        return self._call("transform", X, task)

    def reconstruct(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the prepared rows that the coordinates of raw rows stand for."""
        return self._call("reconstruct", X, task)

    def variance(self, X: object, *, task: str) -> NDArray[Any]:
        """Return variances for raw rows."""
        return self._call("variance", X, task)

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return predicted numbers or labels of raw rows."""
        return self._call("predict", X, task)

    def distances(self, X: object, *, task: str) -> NDArray[Any]:
        """Return distances of raw rows to the classes."""
        return self._call("distances", X, task)

    def decision_function(self, X: object, *, task: str) -> NDArray[Any]:
        """Return scores of raw rows."""
        return self._call("decision_function", X, task)

    def inverse_transform(self, Z: object, *, task: str) -> NDArray[Any]:
        """Return the prepared rows of coordinates."""
        outputs: NDArray[Any] = getattr(self.inner, "inverse_transform")(Z, task=task)  # noqa: B009 - not every model has it
        return outputs

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return self.inner.to_arrays() | self.preparation.to_arrays()

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return self.inner.header() | {"preparation": self.preparation.header()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Raise TypeError: the registry puts model and preparation together."""
        del arrays, header
        raise TypeError("load a prepared model with algorithms.registry.load_model")

    def _call(self, method: str, X: object, task: str) -> NDArray[Any]:
        outputs: NDArray[Any] = getattr(self.inner, method)(
            self._prepare(X, method=method, task=task), task=task
        )
        return outputs

    def _prepare(self, X: object, *, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        part = self.preparation.of(task)
        part.check(rows, task=task)
        return part.apply(rows)

    def prepare_task(self, task: Task) -> tuple[Task, Preparation]:
        """Return a new task with prepared rows, and the preparation that includes it."""
        extended = self.preparation.with_task(task)
        return extended.apply([task]).tasks[0], extended


def unwrap(model: Model, tasks: Sequence[Task]) -> tuple[Model, Sequence[Task]]:
    """Return the model of the algorithm and the tasks with prepared rows.

    A model that takes plain numbers, and its tasks, are returned as they are.
    """
    if not isinstance(model, PreparedModel):
        return model, tasks
    return model.inner, model.preparation.apply(tasks).tasks
