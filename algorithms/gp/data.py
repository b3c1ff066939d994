"""Rows and targets of all tasks in the units of the covariance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from algorithms.families.linear.bases import fit_standardisation
from algorithms.gp.covariance import Rows
from algorithms.gp.evidence import INVERSE_LENGTH_RATES, Problem, ScaleMoments
from algorithms.interface.errors import InvalidData
from algorithms.interface.needs import check_same_kind
from algorithms.interface.target_scales import deviation, numeric_targets
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.weights import weights_of
from algorithms.numerics.arrays import Array, Indices

Labels = tuple[str, ...] | tuple[int, ...]

#: Standardised values are clipped at this many deviations: outliers would decide the linear parts.
CLIP: Final = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """Units of rows and targets.

    Parameters
    ----------
    mean, scale : (d,)
        Standardised rows are (x − mean)/scale, clipped at ±:data:`CLIP`.
    centre : (C,)
        Mean of each column of targets.
    unit
        Standard deviation of the targets of all tasks.
    scale_mean, scale_variance
        :class:`~algorithms.gp.evidence.ScaleMoments` of the targets in these units; the variance is
        0 if the tasks have one scale.
    size
        D, the mean of ‖x‖² over the standardised rows.
    has_logarithms
        Whether targets are the logarithms of the user's targets.
    """

    mean: Array
    scale: Array
    centre: Array
    unit: float
    scale_mean: float
    scale_variance: float
    size: float
    has_logarithms: bool = False

    def standardise(self, X: Array) -> Array:
        """Return rows in the units of the covariance."""
        return np.clip((X - self.mean) / self.scale, -CLIP, CLIP)

    def convert(self, Y: Array) -> Array:
        """Return targets (n, C) in the units of the covariance."""
        return np.asarray(((np.log(Y) if self.has_logarithms else Y) - self.centre) / self.unit)

    def log_scale(self, Y: Array) -> float:
        """Return the first estimate of s_t of a task from its converted targets (n, C)."""
        return ScaleMoments(self.scale_mean, self.scale_variance).shrunken(Y[:, 0])


@dataclass(frozen=True, eq=False)
class Data:
    """Rows and targets of all tasks, those of each task together.

    Parameters
    ----------
    labels
        Labels of all tasks, sorted; empty for numbers.
    X : (n, d)
        Standardised rows.
    task : (n,)
    group : (d,)
        Group of each column.
    Y : (n, C)
        Numbers, or −1 and 1 for each class (two classes: for the second), in the user's units.
    weights : (n,)
    rank : (n,)
        Position of each row among the rows of its task in a random order.
    """

    units: Units
    n_tasks: int
    labels: Labels
    X: Array
    task: Indices
    group: Indices
    Y: Array
    weights: Array
    rank: Indices

    @classmethod
    def of(cls, tasks: TaskSet, *, max_lengths: int, rng: np.random.Generator) -> "Data":
        """Return the data of tasks, with targets as they are."""
        union = np.concatenate([one.X for one in tasks])
        weights = np.concatenate([weights_of(one) for one in tasks])
        mean, scale = fit_standardisation(union, "features", _unequal(weights))
        labels = labels_of(tasks.summaries())
        raw = Units(mean, scale, np.zeros(1), 1.0, 0.0, 0.0, 1.0)
        X = raw.standardise(union)
        size = float(np.einsum("nd,nd->", X, X)) / len(X) or 1.0
        data = cls(
            replace(raw, size=size),
            len(tasks),
            labels,
            X,
            np.repeat(np.arange(len(tasks)), [one.n_samples for one in tasks]),
            column_groups(tasks.tasks[0], max_lengths),
            np.concatenate([targets_of(one, labels) for one in tasks]),
            weights,
            np.concatenate([rng.permutation(one.n_samples) for one in tasks]),
        )
        return data.with_units(has_logarithms=False)

    def with_units(self, *, has_logarithms: bool) -> "Data":
        """Return the data with the units of the targets, or of their logarithms."""
        Y = np.log(self.Y) if has_logarithms else self.Y
        centre = np.average(Y, axis=0, weights=self.weights)
        columns = list((Y - centre).T)
        weights = [_unequal(self.weights)] * len(columns)
        unit = deviation(columns, is_centered=False, weights=weights) or 1.0
        units = replace(self.units, centre=centre, unit=unit, has_logarithms=has_logarithms)
        if not self.labels:
            parts = np.split(units.convert(self.Y)[:, 0], np.flatnonzero(np.diff(self.task)) + 1)
            moments = ScaleMoments.of(parts)
            units = replace(units, scale_mean=moments.mean, scale_variance=moments.variance)
        return replace(self, units=units)

    @cached_property
    def rows(self) -> Rows:
        """The rows, with their tasks and the groups of their columns."""
        return Rows(self.X, self.task, self.group, self.units.size)

    @cached_property
    def targets(self) -> Array:
        """The targets in the units of the covariance, (n, C)."""
        return self.units.convert(self.Y)

    def balanced(self, n_max: int) -> "Data":
        """Return at most ``n_max`` rows, as many of each task as possible."""
        if len(self.X) <= n_max:
            return self
        counts = np.bincount(self.rank)  # tasks with more rows than each rank
        n_ranks = int(np.searchsorted(np.cumsum(counts), n_max, side="right"))
        chosen = np.flatnonzero(self.rank < max(n_ranks, 1))
        chosen = chosen[:: -(-len(chosen) // n_max)]
        return replace(
            self,
            X=self.X[chosen],
            task=self.task[chosen],
            Y=self.Y[chosen],
            weights=self.weights[chosen],
            rank=self.rank[chosen],
        )

    def problem(self) -> Problem:
        """Return the problem of the evidence of the rows."""
        return Problem(
            self.rows,
            self.targets,
            self.weights,
            INVERSE_LENGTH_RATES["classes" if self.labels else "numbers"],
            math.sqrt(self.units.scale_variance) or 1.0,
            self._first_log_scales(),
        )

    def _first_log_scales(self) -> Array:
        """Return the first estimate of each task's scale, (T,); empty for classes."""
        if self.labels:
            return np.zeros(0)
        by_task = [self.targets[self.task == t] for t in range(self.n_tasks)]
        return np.array([self.units.log_scale(Y) if len(Y) else 0.0 for Y in by_task])


def _unequal(weights: Array) -> Array | None:
    """Return the weights; None if all are 1."""
    return None if (weights == 1.0).all() else weights


def labels_of(summaries: Sequence[TaskSummary]) -> Labels:
    """Return the labels of all tasks, sorted; empty for numbers.

    Raises
    ------
    InvalidData
        Only one label is known, or a task has several of which no other task has one.
    """
    if summaries[0].target != "classes":
        return ()
    # training rows may all be of one class, though their tasks can have others
    by_task = {one.name: set(one.classes or ()) for one in summaries}
    every_label = set().union(*by_task.values())
    if len(every_label) < 2:
        raise InvalidData(
            f"gp needs at least two classes, but all rows have one class, {every_label.pop()!r}"
        )
    for name, labels in by_task.items():
        others = [theirs for other, theirs in by_task.items() if other != name]
        if others and len(labels) > 1 and not any(labels & theirs for theirs in others):
            raise InvalidData(
                f"gp learns classes that tasks have in common, but no other task has one of task "
                f"'{name}'; leave the task out, or use the same labels for the same classes",
                task=name,
            )
    return tuple(sorted(every_label))


def targets_of(task: Task, labels: Sequence[Any]) -> Array:
    """Return numbers (n, 1), or −1 and 1 for each class (n, C); for two, (n, 1) for the second."""
    if not labels:
        return numeric_targets(task)[:, np.newaxis]
    columns = labels[1:] if len(labels) == 2 else labels
    assert task.y is not None
    return np.where(task.y[:, np.newaxis] == np.array(columns), 1.0, -1.0)


def column_groups(task: Task, max_lengths: int) -> Indices:
    """Return the group of each column: its original column, or one if there are too many, (d,)."""
    sources = range(task.n_features) if task.sources is None else task.sources
    unique, group = np.unique(np.array(sources, dtype=np.intp), return_inverse=True)
    return group if len(unique) <= max_lengths else np.zeros(task.n_features, dtype=np.intp)


def check_new_targets(task: Task, labels: Labels, *, has_logarithms: bool) -> None:
    """Raise InvalidData if a model with these labels cannot learn the targets of a new task."""
    check_same_kind(task, labels)
    assert task.y is not None
    if labels:
        unknown = [label for label in np.unique(task.y).tolist() if label not in labels]
        if unknown:
            raise InvalidData(
                f"task '{task.name}' has the class {unknown[0]!r}, which the model does not know; "
                "train a new model with all tasks",
                task=task.name,
            )
    elif has_logarithms and not (task.y > 0).all():
        raise InvalidData(
            f"task '{task.name}' has targets of 0 or below, but the model learned logarithms; "
            "train a new model with all tasks",
            task=task.name,
        )
