"""Tasks and sets of tasks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from algorithms.interface.classes import Classes, complete_classes
from algorithms.interface.errors import InvalidData, UnknownTask, find_similar
from algorithms.interface.lists import list_names
from algorithms.interface.task_values import (
    SIZE_RANGE,
    as_csr,
    as_floats,
    as_groups,
    as_targets,
    as_weights,
    check_covariances,
    check_finite,
    check_size,
    check_stored,
)
from algorithms.numerics.arrays import Array
from algorithms.numerics.sparse_rows import column_peaks, is_sparse, take_columns

InputKind = Literal["rows", "covariances"]
TargetKind = Literal["none", "numbers", "classes"]

#: Number of known names that are compared with an unknown one, which takes milliseconds.
_MAX_COMPARED_NAMES = 200


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """Description of a task without its data, for the checks that an algorithm makes before a fit.

    Parameters
    ----------
    rows_hash
        Equal for tasks with the same rows in the same order; None if unknown.
    n_divisible
        Maximum number of rows that can be held out if every class keeps a training row; None if
        unknown.
    n_units
        Number of sets of rows that are held out together; None if unknown.
    labels : (n_samples,) or None
        Class labels; None if unknown.
    n_stored
        Number of values that are stored of sparse rows; None for dense ones.
    has_weights
        Whether rows have weights.
    class_counts
        Number of rows of each class, by the label as text; None if unknown.
    classes
        Labels that the task can have, sorted (:meth:`Task.class_labels`); None if unknown.
    n_shared_units
        Number of sets of rows of all tasks that are held out together; None if unknown.
    """

    name: str
    n_samples: int
    n_features: int
    input: InputKind = "rows"
    target: TargetKind = "none"
    n_classes: int = 0
    feature_names: tuple[str, ...] | None = None
    rows_hash: str | None = None
    n_divisible: int | None = None
    n_units: int | None = None
    labels: NDArray[Any] | None = field(default=None, compare=False, repr=False)
    n_stored: int | None = None
    has_weights: bool = False
    class_counts: Mapping[str, int] | None = field(default=None, compare=False)
    classes: Classes | None = None
    n_shared_units: int | None = field(default=None, compare=False)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return self.n_stored is not None


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One learning task, with rows or covariance matrices.

    Create it with :meth:`from_rows` or :meth:`from_covariances`, which validate.

    Parameters
    ----------
    X : (n_samples, n_features) for rows, (n_samples, n_features, n_features) for covariances
        One row, or one covariance matrix (of an EEG epoch, for example), per sample. Rows may be a
        :class:`scipy.sparse.csr_array` (:mod:`algorithms.numerics.sparse_rows`), which only
        algorithms see whose needs say that they take sparse rows.
    y : (n_samples,) or None
        Numbers, or class labels (strings or integers).
    groups : (n_samples,) or None
        Group of each sample (a patient, a session), as numbers or text. Samples of one group, in
        all tasks, are held out together.
    weights : (n_samples,) or None
        Weight of each row, at least 0; :mod:`algorithms.interface.weights` scales the weights of a
        fit.
    classes
        Labels that the task can have, sorted, which a :class:`TaskSet` finds; None if unknown.
    sources : (n_features,) or None
        Column of the table that each column was made of, where a category became several.
    """

    name: str
    X: Array
    input: InputKind = "rows"
    y: NDArray[Any] | None = None
    feature_names: tuple[str, ...] | None = None
    groups: NDArray[Any] | None = None
    weights: Array | None = None
    classes: Classes | None = None
    sources: tuple[int, ...] | None = None

    @classmethod
    def from_rows(
        cls,
        name: str,
        X: object,
        *,
        y: object = None,
        feature_names: Sequence[str] | None = None,
        groups: object = None,
        weights: object = None,
        allows_missing: bool = False,
    ) -> "Task":
        """Return a task with rows X after validating them.

        Parameters
        ----------
        X : (n_samples, n_features)
            An array, or a matrix or array of :mod:`scipy.sparse`.
        allows_missing
            Whether X may contain NaN, as raw rows do before their preparation.

        Raises
        ------
        InvalidData
            X is not two-dimensional, is empty, is not numeric or is not finite (sparse rows can
            have no missing values), the lengths of y, ``groups``, ``weights`` or
            ``feature_names`` do not match X, or a weight is negative, or all are 0.
        """
        rows = as_csr(X, name) if issparse(X) else as_floats(X, name)
        if rows.ndim != 2:
            raise InvalidData(
                f"task '{name}' needs X of shape (n_samples, n_features), got shape {rows.shape}",
                task=name,
            )
        names = None if feature_names is None else tuple(feature_names)
        if names is not None and len(names) != rows.shape[1]:
            raise InvalidData(
                f"task '{name}' has {rows.shape[1]} columns but {len(names)} feature names",
                task=name,
            )
        check_size(rows, name)
        if is_sparse(rows):
            check_stored(rows, name, names)
        elif not (allows_missing and not np.isinf(rows).any()):
            check_finite(rows, name, names)
        n = rows.shape[0]
        targets, belongs = as_targets(y, name, n), as_groups(groups, name, n)
        counts = as_weights(weights, name, n, has_targets=targets is not None)
        return cls(name, rows, "rows", targets, names, belongs, counts)

    @classmethod
    def from_covariances(
        cls,
        name: str,
        C: object,
        *,
        feature_names: Sequence[str] | None = None,
        groups: object = None,
        weights: object = None,
    ) -> "Task":
        """Return a task with covariance matrices C after validating them.

        Parameters
        ----------
        C : (n_features, n_features) or (n_samples, n_features, n_features)
            One matrix, or a stack of matrices.

        Raises
        ------
        InvalidData
            C is not square, not finite, not symmetric or not positive semidefinite.
        """
        matrices = as_floats(C, name)
        if matrices.ndim == 2:
            matrices = matrices[np.newaxis]
        if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2]:
            raise InvalidData(
                f"task '{name}' needs square covariance matrices "
                f"(n_features, n_features), got shape {matrices.shape}",
                task=name,
            )
        names = None if feature_names is None else tuple(feature_names)
        if names is not None and len(names) != matrices.shape[1]:
            raise InvalidData(
                f"task '{name}' has {matrices.shape[1]} features but {len(names)} feature names",
                task=name,
            )
        check_size(matrices, name)
        check_finite(matrices, name, None)
        check_covariances(matrices, name)
        symmetric = (matrices + matrices.transpose(0, 2, 1)) / 2
        belongs = as_groups(groups, name, matrices.shape[0])
        counts = as_weights(weights, name, matrices.shape[0])
        return cls(name, symmetric, "covariances", None, names, belongs, counts)

    @property
    def n_samples(self) -> int:
        """Number of rows, or of covariance matrices."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[-1])

    @property
    def target(self) -> TargetKind:
        """Kind of the targets."""
        if self.y is None:
            return "none"
        return "numbers" if self.y.dtype.kind == "f" else "classes"

    @property
    def n_stored(self) -> int | None:
        """Number of values that are stored of sparse rows; None for dense ones."""
        return int(self.X.nnz) if is_sparse(self.X) else None

    def class_labels(self) -> NDArray[Any]:
        """Return the labels that the task can have, sorted, of which its rows may lack some."""
        assert self.y is not None
        return self._completed(np.unique(self.y))

    def _completed(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return the known labels, or those of the rows, which are given, if they are others."""
        if self.classes is None or not {*self.classes}.issuperset(labels.tolist()):
            return labels
        return np.array(self.classes)

    def dense(self) -> "Task":
        """Return the task with a dense copy of sparse rows."""
        return replace(self, X=self.X.toarray()) if is_sparse(self.X) else self

    def summary(self) -> TaskSummary:
        """Return the description of the task without its data."""
        counts = None
        classes: Classes | None = None
        if self.y is not None and self.target == "classes":
            labels, sizes = np.unique(self.y, return_counts=True)
            counts = {str(label): int(n) for label, n in zip(labels, sizes, strict=True)}
            classes = tuple(self._completed(labels).tolist())
        return TaskSummary(
            self.name,
            self.n_samples,
            self.n_features,
            self.input,
            self.target,
            len(classes or ()),
            self.feature_names,
            labels=None if classes is None else self.y,
            n_stored=self.n_stored,
            has_weights=self.weights is not None,
            class_counts=counts,
            classes=classes,
        )

    def take(self, rows: NDArray[np.intp]) -> "Task":
        """Return the task with the given samples only."""
        y = None if self.y is None else self.y[rows]
        groups = None if self.groups is None else self.groups[rows]
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], y=y, groups=groups, weights=weights)

    def select_columns(self, columns: Sequence[int]) -> "Task":
        """Return the task with the given columns only, in the given order."""
        chosen = list(columns)
        names = self.feature_names
        if names is not None:
            names = tuple(names[column] for column in chosen)
        sources = self.sources
        if sources is not None:
            sources = tuple(sources[column] for column in chosen)
        if self.input == "rows":
            X = take_columns(self.X, chosen)
        else:
            X = np.ascontiguousarray(self.X[..., chosen][:, chosen])
        return replace(self, X=X, feature_names=names, sources=sources)


@dataclass(frozen=True, slots=True, eq=False)
class TaskSet:
    """Tasks of one training job, in a fixed order and with unique names.

    Parameters
    ----------
    equal_rows
        What was done about equal rows, in a sentence; None: nothing, or there are none.
    """

    tasks: tuple[Task, ...]
    equal_rows: str | None = None

    def __post_init__(self) -> None:
        if not self.tasks:
            raise InvalidData("a task set needs at least one task, got none")
        seen: set[str] = set()
        for task in self.tasks:
            if task.name in seen:
                raise InvalidData(f"two tasks are named '{task.name}'", task=task.name)
            seen.add(task.name)
        labelled = [task for task in self.tasks if task.target == "classes"]
        if any(task.classes is None for task in labelled):
            object.__setattr__(self, "tasks", _with_classes(self.tasks))

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def __getitem__(self, name: str) -> Task:
        for task in self.tasks:
            if task.name == name:
                return task
        raise unknown_task(name, self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tasks, in order."""
        return tuple(task.name for task in self.tasks)

    def by_name(self) -> "TaskSet":
        """Return the tasks in the order of their names.

        In a fixed order, sums have the same rounding errors, so a permutation of the tasks does not
        change the results.
        """
        return TaskSet(tuple(sorted(self.tasks, key=lambda task: task.name)))

    @property
    def is_sparse(self) -> bool:
        """Whether the rows of a task are sparse."""
        return any(is_sparse(task.X) for task in self.tasks)

    @property
    def order(self) -> int:
        """Order of the largest matrix of a fit: the number of rows of all tasks, or of columns."""
        return max(sum(task.n_samples for task in self), *(task.n_features for task in self))

    def summaries(self) -> tuple[TaskSummary, ...]:
        """Return the shapes of the tasks without their numbers."""
        return tuple(task.summary() for task in self.tasks)


def _with_classes(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return tasks that know the classes that they can have, which parts of their rows keep."""
    own = [
        tuple(np.unique(task.y).tolist()) if task.y is not None and task.target == "classes" else ()
        for task in tasks
    ]
    completed = complete_classes(own, [task.n_samples for task in tasks])
    return tuple(
        replace(task, classes=classes) if classes and task.classes is None else task
        for task, classes in zip(tasks, completed, strict=True)
    )


def check_magnitudes(tasks: Iterable[Task]) -> None:
    """Raise InvalidData if squares of values, or of targets, would overflow or underflow."""
    for task in tasks:
        sizes = _sizes(task.X)
        columns = np.flatnonzero(_is_extreme(sizes))
        if columns.size:
            column = int(columns[0])
            label = column if task.feature_names is None else task.feature_names[column]
            raise InvalidData(
                f"task '{task.name}', column {label!r} has values up to {sizes[column]:.3g}; "
                f"{_RESCALE}",
                task=task.name,
                column=column,
            )
        if task.target == "numbers":
            size = np.abs(np.asarray(task.y, dtype=np.float64)).max(keepdims=True)
            if _is_extreme(size).any():
                message = f"task '{task.name}' has targets up to {size[0]:.3g}; {_RESCALE}"
                raise InvalidData(message, task=task.name)


_RESCALE = (
    f"absolute values must be 0 or from {SIZE_RANGE[0]:g} to {SIZE_RANGE[1]:g}, because their "
    "squares overflow or underflow otherwise: rescale the values"
)


def _sizes(X: Array) -> Array:
    """Return the largest absolute value of each column."""
    if is_sparse(X):
        return column_peaks(X)
    rows = tuple(range(X.ndim - 1))
    return np.asarray(np.maximum(X.max(axis=rows), -X.min(axis=rows)))


def _is_extreme(sizes: Array) -> NDArray[np.bool_]:
    low, high = SIZE_RANGE
    return (sizes > high) | ((sizes > 0) & (sizes < low))


def unknown_task(name: str, known: Sequence[str]) -> UnknownTask:
    """Return the error for an unknown task name, with a list of the known names."""
    similar = find_similar(name, known[:_MAX_COMPARED_NAMES])
    hint = "" if similar is None else f"did you mean '{similar}'? "
    message = f"unknown task '{name}'; {hint}known tasks: {list_names(known)}"
    return UnknownTask(message, task=name)


def describe_tasks(names: Sequence[str], n_tasks: int) -> str:
    """Return a phrase for sentences: how many tasks are affected, and their names."""
    return f"{len(names)} of {n_tasks} tasks ({list_names(names)})"


def tasks_have(names: Sequence[str], n_tasks: int) -> str:
    """Return the beginning of a sentence on what some tasks have."""
    return f"{describe_tasks(names, n_tasks)} {'has' if len(names) == 1 else 'have'}"
