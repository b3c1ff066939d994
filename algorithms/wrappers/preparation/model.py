"""A trained model that takes raw rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from algorithms.interface.methods import FEATURE_METHODS
from algorithms.interface.model import Model
from algorithms.interface.tasks import Task
from algorithms.numerics.arrays import Array
from algorithms.wrappers.preparation.learning import PREPARATION, Preparation
from algorithms.wrappers.wrapped_model import WrappedModel


@dataclass(frozen=True, eq=False)
class PreparedModel(WrappedModel):
    """A model with the preparation of its rows.

    Its methods take raw rows. ``reconstruct`` and ``inverse_transform`` return prepared columns.
    """

    preparation: Preparation

    takes_missing: ClassVar[frozenset[str]] = FEATURE_METHODS

    @property
    def takes_sparse(self) -> bool:
        """Whether the methods accept sparse rows."""
        return False

    def width(self, method: str, *, task: str) -> int:
        """Return the number of input columns of a method for a task."""
        if method not in FEATURE_METHODS:
            return self.inner.width(method, task=task)
        self.task_index(task)
        return len(self.preparation.of(task).columns)

    def for_new_tasks(self, names: tuple[str, ...]) -> "PreparedModel":
        """Return the model of tasks without rows, with the common preparation."""
        preparation = self.preparation.for_new_tasks(names)
        return PreparedModel(self.inner.for_new_tasks(names), preparation)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return self.inner.to_arrays() | self.preparation.to_arrays()

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return self.inner.header() | {PREPARATION: self.preparation.header()}

    def _call(self, method: str, X: object, task: str, **options: float) -> NDArray[Any]:
        rows = self._prepare(X, method, task) if method in FEATURE_METHODS else X
        return super()._call(method, rows, task, **options)

    def _prepare(self, X: object, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        part = self.preparation.of(task)
        part.check(rows, task=task)
        return part.apply(rows)

    def prepare_task(self, task: Task) -> tuple[Task, Preparation]:
        """Return a new task with prepared rows, and the preparation that includes it."""
        extended = self.preparation.with_task(task)
        return extended.apply([task]).tasks[0], extended


def preparation_of(model: Model) -> Preparation | None:
    """Return the preparation of the rows of a model; None if it takes plain numbers."""
    while isinstance(model, WrappedModel):
        if isinstance(model, PreparedModel):
            return model.preparation
        model = model.inner
    return None


def unwrap(model: Model, tasks: Sequence[Task]) -> tuple[Model, Sequence[Task]]:
    """Return the model of the algorithm and the tasks with prepared rows.

    A model that takes plain numbers, or has more than a preparation, and its tasks are returned as
    they are.
    """
    if not isinstance(model, PreparedModel):
        return model, tasks
    return model.inner, model.preparation.apply(tasks).tasks
