"""Encoding of tasks as rows with outputs.

A task with numbers or two classes has one output, a task with c > 2 classes has c outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.target_scales import numeric_targets, target_scale
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.weights import weights_of
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.centering import column_means
from algorithms.numerics.moderated_scales import ScalePrior
from algorithms.numerics.sparse_rows import concatenate_rows, have_equal_values, is_sparse

#: Classes of an output: None for numbers, a pair of classes, or one class against the rest.
OutputClasses = tuple[str | int, ...] | None


@dataclass(frozen=True, slots=True)
class Target:
    """The encoding of a task's targets as outputs.

    Parameters
    ----------
    first, n_outputs
        The outputs of the task are ``first`` to ``first + n_outputs``.
    classes
        Sorted labels; None for numbers. The second of two classes is +1.
    center, scale
        A predicted number is center + scale F.
    """

    task: str
    first: int
    n_outputs: int
    classes: tuple[str, ...] | tuple[int, ...] | None
    center: float = 0.0
    scale: float = 1.0

    @property
    def outputs(self) -> slice:
        """Positions of the outputs."""
        return slice(self.first, self.first + self.n_outputs)

    def output_names(self) -> list[str]:
        """Return a name for each output: the task, or task and class."""
        if self.n_outputs == 1 or self.classes is None:
            return [self.task]
        return [f"{self.task}: {label}" for label in self.classes]

    def output_classes(self) -> list[OutputClasses]:
        """Return the classes of each output."""
        if self.n_outputs == 1 or self.classes is None:
            return [self.classes]
        return [(label,) for label in self.classes]

    def decode(self, F: Array) -> NDArray[Any]:
        """Return numbers or labels for the outputs F (n, n_outputs)."""
        if self.classes is None:
            return self.center + self.scale * F[:, 0]
        labels = np.array(self.classes)
        if len(labels) == 1:
            return np.repeat(labels, len(F))
        chosen = (F[:, 0] > 0).astype(np.intp) if len(labels) == 2 else F.argmax(axis=1)
        return np.asarray(labels[chosen])


@dataclass(frozen=True, eq=False)
class Examples:
    """All examples: pairs of a row and an output of its task, ordered by output.

    Parameters
    ----------
    X : (N, d)
        Rows, without repetition.
    first, stop : (T,)
        The rows of output r are first[r] to stop[r].
    offsets : (T + 1,)
        The examples of output r are offsets[r] to offsets[r + 1].
    y, w : (n,)
        Targets (numbers, or -1 and +1), and weights of the losses.
    targets
        Encoding of each task, in the order of the outputs.
    prior
        Prior of the scale of a new task's targets.
    weights
        Weights of the rows of each task, in the order of ``targets``; None: equal ones.
    row_weights : (N,) or None
        Weights of the rows; for rows that tasks share, the means over the tasks.
    """

    X: Array
    first: Indices
    stop: Indices
    offsets: Indices
    y: Array
    w: Array
    targets: tuple[Target, ...]
    prior: ScalePrior
    weights: tuple[Array | None, ...]
    row_weights: Array | None

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.X.shape[0])

    @property
    def n_outputs(self) -> int:
        """Number of outputs T."""
        return len(self.first)

    @cached_property
    def is_shared(self) -> bool:
        """Whether every output has every row."""
        return bool((self.first == 0).all() and (self.stop == self.n_rows).all())

    @cached_property
    def parts(self) -> list[slice]:
        """Positions of the examples of each output."""
        return list(map(slice, self.offsets[:-1].tolist(), self.offsets[1:].tolist()))

    @cached_property
    def rows(self) -> list[slice]:
        """Rows of each output."""
        return list(map(slice, self.first.tolist(), self.stop.tolist()))

    @cached_property
    def row_and_output(self) -> tuple[Indices, Indices]:
        """Return row and output of each example, (n,) each."""
        rows = [np.arange(a, b) for a, b in zip(self.first, self.stop, strict=True)]
        sizes = np.diff(self.offsets)
        return np.concatenate(rows).astype(np.intp), np.repeat(np.arange(len(sizes)), sizes)

    def with_rows(self, X: Array) -> "Examples":
        """Return the same examples with other coordinates of the rows."""
        return replace(self, X=np.ascontiguousarray(X))


def examples_of(
    tasks: TaskSet,
    *,
    center: Literal["task", "none"],
    weights: Literal["none", "balanced"],
    prior: ScalePrior,
) -> Examples:
    """Return the examples of tasks, in the order of their names.

    If all tasks have the same rows, the rows are stored once.

    Parameters
    ----------
    weights
        Weights of the classes, which multiply the weights of the rows.
    prior
        Prior of the scales of numeric targets.
    """
    ordered = tasks.by_name().tasks
    is_shared = all(have_equal_values(ordered[0].X, task.X) for task in ordered)
    X = ordered[0].X if is_shared else concatenate_rows([task.X for task in ordered])
    targets = _targets(ordered, center=center, prior=prior)
    columns: list[Array] = []
    first: list[int] = []
    stop: list[int] = []
    row = 0
    for task, target in zip(ordered, targets, strict=True):
        start = 0 if is_shared else row
        for column in _encode_targets(task, target):
            columns.append(column)
            first.append(start)
            stop.append(start + task.n_samples)
        row += task.n_samples
    sample_weights = [
        weights_of(task)
        for task, target in zip(ordered, targets, strict=True)
        for _ in range(target.n_outputs)
    ]
    is_balanced = weights == "balanced" and ordered[0].target == "classes"
    w = [
        _balanced(y, s) if is_balanced else s for y, s in zip(columns, sample_weights, strict=True)
    ]
    return Examples(
        X=X if is_sparse(X) else np.ascontiguousarray(X),
        first=np.array(first, dtype=np.intp),
        stop=np.array(stop, dtype=np.intp),
        offsets=np.concatenate([[0], np.cumsum([len(y) for y in columns])]).astype(np.intp),
        y=np.concatenate(columns),
        w=np.concatenate(w),
        targets=targets,
        prior=prior,
        weights=tuple(task.weights for task in ordered),
        row_weights=_row_weights(ordered, is_shared=is_shared),
    )


def _target(task: Task, *, first: int, center: str, prior: ScalePrior) -> Target:
    if task.target == "numbers":
        is_centered = center == "task"
        y = numeric_targets(task)[:, np.newaxis]
        mean = float(column_means(y, task.weights)[0]) if is_centered else 0.0
        scale = target_scale(task, prior, is_centered=is_centered)
        return Target(task.name, first, 1, None, mean, scale)
    assert task.y is not None
    classes = tuple(task.class_labels().tolist())
    return Target(task.name, first, len(classes) if len(classes) > 2 else 1, classes)


def _targets(tasks: Sequence[Task], *, center: str, prior: ScalePrior) -> tuple[Target, ...]:
    targets: list[Target] = []
    for task in tasks:
        first = targets[-1].outputs.stop if targets else 0
        targets.append(_target(task, first=first, center=center, prior=prior))
    return tuple(targets)


def _encode_targets(task: Task, target: Target) -> list[Array]:
    """Return the targets of each output of a task."""
    if target.classes is None:
        return [(numeric_targets(task) - target.center) / target.scale]
    positive = target.classes if target.n_outputs > 1 else target.classes[-1:]
    return [np.where(task.y == label, 1.0, -1.0) for label in positive]


def _balanced(y: Array, weights: Array) -> Array:
    """Return the weights of the rows times factors that give both signs the same sum."""
    n, n_positive = float(weights.sum()), float(weights[y > 0].sum())
    if n_positive == 0.0 or (y > 0).all():
        return weights
    return weights * np.where(y > 0, n / (2 * n_positive), n / (2 * (n - n_positive)))


def _row_weights(tasks: Sequence[Task], *, is_shared: bool) -> Array | None:
    if all(task.weights is None for task in tasks):
        return None
    weights = [weights_of(task) for task in tasks]
    return np.mean(weights, axis=0) if is_shared else np.concatenate(weights)
