"""What every trained model can do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.relations import Relations
from algorithms.interface.tasks import Array, TargetKind, Task, unknown_task
from algorithms.numerics.finite import all_finite

#: The methods a model may have, in the order they are listed; each takes rows and ``task=``.
METHODS = (
    "transform",
    "inverse_transform",
    "reconstruct",
    "variance",
    "predict",
    "distances",
    "decision_function",
)
#: Those whose columns, if there are several, are the classes, in the order of
#: :meth:`Model.classes`.
CLASS_METHODS = frozenset({"distances", "decision_function"})
#: Those whose rows have the columns of the training rows; the others take coordinates.
FEATURE_METHODS = frozenset(METHODS) - {"inverse_transform"}


class Model(ABC):
    """A trained model: frozen, and all of it in named arrays and a JSON header.

    A subclass defines those of :data:`METHODS` that it can: ``(X, *, task) -> array`` with X
    (n_samples, :meth:`width`), vectorised over rows.
    """

    #: Methods whose rows may have NaN, which stands for a missing value.
    takes_missing: ClassVar[frozenset[str]] = frozenset()

    @property
    @abstractmethod
    def algorithm(self) -> str:
        """Name of the algorithm that trained it, as in the registry (a class attribute will do)."""

    @property
    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks the model serves."""

    @property
    @abstractmethod
    def metrics(self) -> dict[str, dict[str, float]]:
        """Scores on the training rows: ``{metric: {task: value}}``."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of this fit, in sentences."""
        return ()

    @abstractmethod
    def width(self, method: str, *, task: str) -> int:
        """Return the number of columns that a method takes for a task."""

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; none where the model knows no classes."""
        self.task_index(task)
        return ()

    def relations(self) -> Relations | None:
        """Return how its tasks are related, where it has learned that."""
        return None

    @abstractmethod
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""

    @abstractmethod
    def header(self) -> dict[str, Any]:
        """Return what is not an array, as JSON."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` and ``header`` described."""

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        """Names of the methods this kind of model has."""
        return tuple(method for method in METHODS if hasattr(cls, method))

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the methods that serve a task with targets of a kind."""
        del target
        return cls.methods()

    def available_methods(self) -> tuple[str, ...]:
        """Names of the methods this model has: those of its kind that its data allow."""
        return self.methods()

    def task_index(self, task: str) -> int:
        """Return the position of a task; an unknown one raises UnknownTask with the known names."""
        index = self._positions.get(task)
        if index is None:
            raise unknown_task(task, self.tasks)
        return index

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {task: i for i, task in enumerate(self.tasks)}

    def check_new_name(self, task: str) -> None:
        """Raise InvalidData where the model has a task of this name."""
        if task in self.tasks:
            raise InvalidData(f"the model has a task '{task}' already", task=task)

    def check_width_of(self, task: Task) -> None:
        """Raise InvalidData where a new task has other columns than those of the model."""
        method = next(method for method in self.methods() if method != "inverse_transform")
        d = self.width(method, task=self.tasks[0])
        if task.n_features != d:
            raise InvalidData(
                f"task '{task.name}' has {task.n_features} features, the model {d}; "
                "a new task needs the same columns",
                task=task.name,
            )

    def check_rows(self, X: object, *, method: str, task: str) -> Array:
        """Return X as floats, checked for the width that the method takes for the task.

        Raises
        ------
        UnknownTask
            The model does not serve the task.
        InvalidData
            X is not a finite (n_samples, width) array of numbers; NaN is let through where the
            method takes missing values.
        """
        width = self.width(method, task=task)
        rows = np.asarray(X)
        if rows.dtype.kind not in "fiub":
            raise InvalidData(f"task '{task}' needs rows of numbers, got {rows.dtype}", task=task)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidData(
                f"task '{task}' expects rows of {width} numbers for {method}, "
                f"got an array of shape {rows.shape}",
                task=task,
            )
        rows = rows.astype(np.float64, copy=False)
        if all_finite(rows):
            return rows
        is_bad = np.isinf(rows) if method in self.takes_missing else ~np.isfinite(rows)
        if is_bad.any():
            row, column = (int(i) for i in np.argwhere(is_bad)[0])
            raise InvalidData(
                f"task '{task}', row {row}, column {column} is {rows[row, column]}; "
                "every value must be a finite number",
                task=task,
                row=row,
                column=column,
            )
        return rows


def apply(model: Model, method: str, rows: Array, *, task: str) -> NDArray[Any]:
    """Return what a method of a model makes of rows: the one way in which a service calls it.

    Raises
    ------
    UnknownTask, InvalidData
        As the method says; and where an output is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        outputs: NDArray[Any] = getattr(model, method)(rows, task=task)
    if outputs.dtype.kind == "f" and not all_finite(outputs):
        detail = f"task '{task}': the rows are so large that {method} of them overflows"
        raise InvalidData(detail, task=task)
    return outputs


class PredictingModel(Protocol):
    """A model that has ``predict``."""

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return numbers or labels (n_samples,)."""


class ScoringModel(Protocol):
    """A model that has ``decision_function``."""

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return one score per row, or one per class."""

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted."""


class InvertibleModel(Protocol):
    """A model that has ``transform`` and ``inverse_transform``."""

    def transform(self, X: object, *, task: str) -> Array:
        """Return the coordinates (n_samples, k) of rows."""

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the rows (n_samples, n_features) of coordinates."""


def check_array(array: NDArray[Any], shape: tuple[int, ...], *, name: str) -> None:
    """Raise ValueError where an array of a model is not float64 of this shape."""
    if array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, expected float64 {shape}")
