"""The interface of all trained models."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.methods import LEVEL_METHODS, METHODS
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS, NewTasks, no_common_part
from algorithms.interface.relations import Relations
from algorithms.interface.stored_fields import arrays_of, header_of, read_fields
from algorithms.interface.tasks import TargetKind, Task, unknown_task
from algorithms.numerics.arrays import Array
from algorithms.numerics.finite import all_finite
from algorithms.numerics.sparse_rows import as_canonical, first_not_finite


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """Points in the space of a model's ``transform``.

    Parameters
    ----------
    coordinates : (n, k)
    classes : (n,)
        Label of each point; empty without labels.
    points
        What the points are.
    """

    coordinates: NDArray[np.float64]
    classes: tuple[str, ...] | tuple[int, ...]
    points: Literal["training rows", "class means", "labelled rows", "active rows"]


class Model(ABC):
    """A trained model; immutable, and stored as named arrays and a JSON header.

    A subclass defines the methods of :data:`METHODS` that it supports, ``(X, *, task) -> array``
    with X (n_samples, :meth:`width`), vectorised over rows. It is a dataclass, whose fields are
    stored by their types (:mod:`algorithms.interface.stored_fields`), or defines :meth:`to_arrays`,
    :meth:`header` and :meth:`from_arrays` itself.
    """

    #: Methods that accept NaN for missing values.
    takes_missing: ClassVar[frozenset[str]] = frozenset()
    #: Column in which tables of rows have the task of each row, as in the training table.
    task_column: ClassVar[str] = DEFAULT_TASK_COLUMN
    #: Columns of the training table that the model does not use, so that rows may have them; None:
    #: unknown, as in files of earlier versions.
    ignored_columns: ClassVar[frozenset[str] | None] = None
    #: What calls do about tasks that the model was not trained on, unless they say so themselves.
    new_tasks: ClassVar[NewTasks] = DEFAULT_NEW_TASKS

    @property
    def takes_sparse(self) -> bool:
        """Whether the methods accept sparse rows."""
        return False

    @property
    @abstractmethod
    def algorithm(self) -> str:
        """Name of the algorithm in the registry; subclasses may define a class attribute."""

    @property
    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks of the model."""

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Scores on the training rows: ``{metric: {task: value}}``; empty if they mean little."""
        return {}

    def with_task_column(self, name: str) -> Self:
        """Return the model with the column in which tables of rows have the task of each row."""
        return self._with_setting("task_column", name)

    def with_ignored_columns(self, names: frozenset[str] | None) -> Self:
        """Return the model with the columns of the training table that it does not use."""
        return self._with_setting("ignored_columns", names)

    def with_new_tasks(self, default: NewTasks) -> Self:
        """Return the model with what calls do about tasks that it was not trained on."""
        return self._with_setting("new_tasks", default)

    def _with_setting(self, name: str, value: Any) -> Self:
        if getattr(self, name) == value:
            return self
        changed = copy(self)
        # the copy has the fields alone, and the classes of models are frozen
        for setting in ("task_column", "ignored_columns", "new_tasks"):
            object.__setattr__(
                changed, setting, value if setting == name else getattr(self, setting)
            )
        return changed

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about this fit, in sentences."""
        return ()

    def race(self) -> dict[str, Any] | None:
        """Return the scores of the methods that the fit compared, as JSON; None for one method."""
        return None

    @abstractmethod
    def width(self, method: str, *, task: str) -> int:
        """Return the number of input columns of a method for a task."""

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; empty if the model is not a classifier."""
        self.task_index(task)
        return ()

    def relations(self) -> Relations | None:
        """Return the learned relations of the tasks; None if the model has none."""
        return None

    def embedding(self, task: str) -> Embedding | None:
        """Return the points that the model has stored for a task; None if it has none."""
        self.task_index(task)
        return None

    def coefficients(self, task: str) -> Array | None:
        """Return the coefficients (n_features, n_outputs) of a task's predictions or scores.

        None if they are not linear in the columns.
        """
        self.task_index(task)
        return None

    def learned(self) -> dict[str, Any]:
        """Return the learned quantities by their scikit-learn names.

        The names are without the underscore at their end: ``coef``, ``components``, ``objective``.
        Arrays have one row or matrix for each task, in the order of :attr:`tasks`, unless the tasks
        share it or there is one task only.
        """
        return {}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return arrays_of(self)

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return header_of(self)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model from the results of :meth:`to_arrays` and :meth:`header`.

        Raises
        ------
        KeyError, ValueError
            A part is missing, has another type, or does not fit to the others.
        """
        model = read_fields(cls, arrays, header)
        model.check_stored()
        return model

    def check_stored(self) -> None:  # noqa: B027  # most parts of files are checked by their types
        """Raise ValueError if the arrays and the header of a file do not fit together."""

    @classmethod
    def methods(cls) -> tuple[str, ...]:
        """Return the names of the methods of this class of models."""
        return tuple(method for method in METHODS if hasattr(cls, method))

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods for a task with the given kind of targets."""
        del target
        return cls.methods()

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that this model supports, given its data."""
        return self.methods()

    def task_index(self, task: str) -> int:
        """Return the position of a task; raise UnknownTask if the model does not have it."""
        index = self._positions.get(task)
        if index is None:
            raise unknown_task(task, self.tasks)
        return index

    def has_task(self, task: str) -> bool:
        """Return whether the model was trained on a task."""
        return task in self._positions

    def for_new_tasks(self, names: tuple[str, ...]) -> "Model":
        """Return a model of tasks without rows, which the common part of this one answers for.

        Parameters
        ----------
        names
            Names of tasks that this model does not have.

        Raises
        ------
        UnknownTask
            The tasks of the model have no part in common.
        """
        raise no_common_part(self.algorithm, names)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {task: i for i, task in enumerate(self.tasks)}

    def check_new_name(self, task: str) -> None:
        """Raise InvalidData if the model already has a task of this name."""
        if task in self.tasks:
            raise InvalidData(
                f"the model already has a task '{task}'; choose another name", task=task
            )

    def check_width_of(self, task: Task) -> None:
        """Raise InvalidData if a new task has a different number of columns than the model."""
        method = next(method for method in self.methods() if method != "inverse_transform")
        d = self.width(method, task=self.tasks[0])
        if task.n_features != d:
            raise InvalidData(
                f"task '{task.name}' has {task.n_features} features, the model {d}; "
                "a new task needs the same columns",
                task=task.name,
            )

    def check_rows(self, X: object, *, method: str, task: str) -> Array:
        """Return X as floats after checking it as input of a method for a task.

        Sparse rows stay sparse.

        Raises
        ------
        UnknownTask
            The model does not have the task.
        InvalidData
            X is not a finite (n_samples, width) array of numbers. NaN is allowed if the method
            takes missing values. X is sparse, and the model does not take sparse rows.
        """
        width = self.width(method, task=task)
        if issparse(X):
            return self._check_sparse(X, width, method=method, task=task)
        rows = np.asarray(X)
        if rows.dtype.kind not in "fiub":
            raise InvalidData(f"task '{task}' needs rows of numbers, got {rows.dtype}", task=task)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise _wrong_shape(rows.shape, width, method=method, task=task)
        # one layout, since the last bit of a matrix product depends on it on some processors
        rows = np.ascontiguousarray(rows, dtype=np.float64)
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

    def _check_sparse(self, X: Any, width: int, *, method: str, task: str) -> Array:
        """Return sparse rows in canonical form after checking them."""
        if not self.takes_sparse:
            detail = f"task '{task}' got sparse rows, which {method} of this model of"
            message = f"{detail} {self.algorithm} does not take; send them as an array"
            raise InvalidData(message, task=task)
        if X.shape[1] != width:
            raise _wrong_shape(X.shape, width, method=method, task=task)
        rows: Any = as_canonical(X)
        entry = first_not_finite(rows)
        if entry is not None:
            row, column, value = entry
            raise InvalidData(
                f"task '{task}', row {row}, column {column} is {value}; every stored value must be "
                "a finite number",
                task=task,
                row=row,
                column=column,
            )
        checked: Array = rows
        return checked


class Predictor(Model):
    """A model that predicts numbers, or labels of all tasks; only labels have scores."""

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods for a task with the given kind of targets."""
        return ("predict",) if target == "numbers" else cls.methods()

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that work for the targets of the tasks."""
        return self.methods() if self.classes(self.tasks[0]) else ("predict",)


def _wrong_shape(shape: tuple[int, ...], width: int, *, method: str, task: str) -> InvalidData:
    detail = f"task '{task}' expects rows of {width} numbers for {method}"
    return InvalidData(f"{detail}, got an array of shape {shape}", task=task)


def apply(
    model: Model, method: str, rows: Array, *, task: str, level: float | None = None
) -> NDArray[Any]:
    """Return the output of a model's method for rows, and check that it is finite.

    Parameters
    ----------
    level
        For the methods of :data:`LEVEL_METHODS`; None: the default.

    Raises
    ------
    UnknownTask, InvalidData
        The method raises it, or an output is not finite.
    InvalidParams
        The method takes no level, or the level is not between 0 and 1.
    """
    if level is not None and method not in LEVEL_METHODS:
        takers = " and ".join(sorted(LEVEL_METHODS))
        raise InvalidParams(
            f"{method} takes no level, only {takers} do; leave it out", field="level"
        )
    options = {} if level is None else {"level": level}
    with np.errstate(over="ignore", invalid="ignore"):
        outputs: NDArray[Any] = getattr(model, method)(rows, task=task, **options)
    if outputs.dtype.kind == "f" and not all_finite(outputs):
        detail = f"task '{task}': {method} overflows, because values of the rows are too large"
        raise InvalidData(detail, task=task)
    return outputs


class PredictingModel(Protocol):
    """A model with ``predict``."""

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return predicted numbers or labels, (n_samples,)."""


class ScoringModel(Protocol):
    """A model with ``decision_function``."""

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return one score per row, or one per class."""

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted."""


class ProbabilisticModel(Protocol):
    """A model with ``predict_proba``."""

    def predict_proba(self, X: object, *, task: str) -> Array:
        """Return the probability of each class, (n_samples, n_classes)."""

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted."""


class IntervalModel(Protocol):
    """A model with ``predict_interval``."""

    def predict_interval(self, X: object, *, task: str, level: float) -> Array:
        """Return the ends of an interval for each row, (n_samples, 2)."""


class SetModel(Protocol):
    """A model with ``predict_set``."""

    def predict_set(self, X: object, *, task: str, level: float) -> Array:
        """Return whether each class is in the set of a row, (n_samples, n_classes)."""

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted."""


class InvertibleModel(Protocol):
    """A model with ``transform`` and ``inverse_transform``."""

    def transform(self, X: object, *, task: str) -> Array:
        """Return the coordinates of rows, (n_samples, k)."""

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the rows (n_samples, n_features) with the coordinates Z of ``transform``."""


def check_array(array: NDArray[Any], shape: tuple[int, ...], *, name: str) -> None:
    """Raise ValueError if an array of a model is not float64 of this shape."""
    if array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"{name} is {array.dtype} {array.shape}, expected float64 {shape}")
