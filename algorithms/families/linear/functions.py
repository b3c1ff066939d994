"""Linear functions of each task, in columns or in kernel values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, final

import numpy as np

from algorithms.families.linear.bases import Basis
from algorithms.families.linear.design import Design
from algorithms.families.linear.targets import (
    Classes,
    Targets,
    encode_targets,
    n_columns,
    names_of_columns,
    training_scores,
    unit_of,
)
from algorithms.interface.new_tasks import common_classes, no_common_part
from algorithms.interface.target_scales import StoredPrior, target_scale
from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.arrays import Array


@final
@dataclass(frozen=True, eq=False)
class Functions:
    """A linear function of the basis values for each target column of each task.

    Parameters
    ----------
    algorithm
        Name of the algorithm that trained the model.
    classes
        Sorted labels of each task; None for numbers.
    W : (p, T)
        Coefficients, in the units of the targets. The columns of a task are adjacent, in the order
        of the tasks.
    intercept : (T,)
        Intercepts, in the units of the targets.
    target_prior
        Prior of the scale of a new task's targets.
    metrics
        Scores on the training rows.
    fit_info
        Results of the fit besides arrays, as JSON.
    warnings
        Warnings about the fit.
    common : (p + 1, m) or None
        Coefficients of a task that the model was not trained on, and below them its intercepts.
        None if the tasks have no part in common, or share all of their function.
    """

    algorithm: str
    tasks: tuple[str, ...]
    classes: tuple[Classes | None, ...]
    basis: Basis
    W: Array
    intercept: Array
    target_prior: StoredPrior
    metrics: Mapping[str, Mapping[str, float]]
    fit_info: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    common: Array | None = None

    @property
    def column_names(self) -> tuple[str, ...]:
        """Name of each column of W: the task, or task and class."""
        pairs = zip(self.tasks, self.classes, strict=True)
        return tuple(name for task, classes in pairs for name in names_of_columns(task, classes))

    @property
    def target_unit(self) -> float:
        """Common divisor of numeric targets; 1 if each task has its own scale."""
        return unit_of(self.target_prior)

    def gram(self) -> Array:
        """Return the inner products of the functions without intercepts, (T, T)."""
        images = self.W if self.basis.references is None else self.basis.gram() @ self.W
        return np.asarray(self.W.T @ images)

    def linear_coefficients(self) -> tuple[Array, Array] | None:
        """Return coefficients (T, d) of the columns and intercepts (T,); None with a kernel."""
        if self.basis.references is not None:
            return None
        slopes = self.W / self.basis.scale[:, np.newaxis]
        return slopes.T, self.intercept - self.basis.mean @ slopes

    def columns(self, task: int) -> slice:
        """Return the columns of W of the task at a position."""
        return slice(self._starts[task], self._starts[task + 1])

    @cached_property
    def _starts(self) -> list[int]:
        """The first column of each task, and the number of columns."""
        return list(accumulate((n_columns(labels) for labels in self.classes), initial=0))

    def scores(self, rows: Array, task: int) -> Array:
        """Return the values of the functions of a task at rows (n, d), (n, m_t)."""
        columns = self.columns(task)
        return self.basis.images(rows, self.W[:, columns]) + self.intercept[columns]

    def for_new_tasks(self, names: tuple[str, ...]) -> "Functions":
        """Return functions of tasks without rows: the common part of these functions.

        Raises
        ------
        UnknownTask
            They have no common part, or the tasks have different classes.
        """
        is_shared = self.fit_info.get("params", {}).get("form") == "pooled"
        if self.common is None and not is_shared:
            raise no_common_part(self.algorithm, names)
        labels = common_classes(self.classes)
        if labels is None:
            raise no_common_part(self.algorithm, names, "the tasks of the model differ in classes")
        if self.common is None:
            first = self.columns(0)
            W, intercept = self.W[:, first], self.intercept[first]
        else:
            W, intercept = self.common[:-1], self.common[-1]
        n = len(names)
        return replace(
            self,
            tasks=names,
            classes=(labels or None,) * n,
            W=np.tile(W, n),
            intercept=np.tile(intercept, n),
            metrics={},
        )

    def mean(self) -> Array:
        """Return the mean of the tasks' functions, as :attr:`common`; of tasks with all labels."""
        labels = max((labels or () for labels in self.classes), key=len)
        m = n_columns(labels or None)
        which = [
            self.columns(t)
            for t, own_labels in enumerate(self.classes)
            if len(own_labels or ()) == len(labels)
        ]
        stacked = np.vstack([self.W, self.intercept])
        parts = [stacked[:, columns] for columns in which]
        assert all(part.shape[1] == m for part in parts)
        return np.asarray(np.mean(parts, axis=0))

    def new_rows(self, task: Task, *, has_intercept: bool) -> tuple[Array, Targets]:
        """Return the basis values (n, p) of a new task's rows, and its scaled targets."""
        scale = target_scale(task, self.target_prior, is_centered=has_intercept)
        return self.basis(task.X), encode_targets(task, scale)

    def with_task(
        self,
        name: str,
        targets: Targets,
        W: Array,
        *,
        intercept: Array,
        fitted: Array,
    ) -> "Functions":
        """Return the functions extended by a new task with W (p, m) and intercept (m,).

        Parameters
        ----------
        W, intercept
            In units of the scale of the targets.
        fitted : (n, m)
            Values of the new functions at the rows of the task.
        """
        scores = training_scores([name], [targets], [fitted])
        metrics = {
            metric: {**values, **scores.get(metric, {})} for metric, values in self.metrics.items()
        }
        return replace(
            self,
            tasks=(*self.tasks, name),
            classes=(*self.classes, targets.classes),
            W=np.concatenate([self.W, W * targets.scale], axis=1),
            intercept=np.concatenate([self.intercept, intercept * targets.scale]),
            metrics=metrics,
        )

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        T = sum(n_columns(labels) for labels in self.classes)
        if self.W.shape != (self.basis.n_outputs, T) or len(self.intercept) != T:
            raise ValueError(f"W has shape {self.W.shape}, expected {T} target columns")
        if len(self.tasks) != len(self.classes):
            raise ValueError(f"{len(self.classes)} targets for {len(self.tasks)} tasks")
        if self.common is not None and len(self.common) != len(self.W) + 1:
            raise ValueError(f"the common part has {len(self.common) - 1} of {len(self.W)} rows")


def functions_of(
    tasks: TaskSet,
    design: Design,
    W: Array,
    b: Array,
    *,
    algorithm: str,
    fit_info: Mapping[str, Any],
    warnings: tuple[str, ...],
    common: tuple[Array, Array | float] | None = None,
) -> Functions:
    """Return the functions W (T, q), b (T,) of a design, in the order of ``tasks``.

    Parameters
    ----------
    common : (q,) and a number, or (m, q) and (m,)
        Coefficients and intercepts of a task without rows.
    """
    scales = np.repeat([target.scale for target in design.targets], design.sizes)
    order = _column_order(design.names, design.sizes, tasks.names)
    scores = training_scores(design.names, design.targets, design.fitted(W, b))
    classes = dict(zip(design.names, (target.classes for target in design.targets), strict=True))
    return Functions(
        algorithm=algorithm,
        tasks=tasks.names,
        classes=tuple(classes[name] for name in tasks.names),
        basis=design.basis,
        W=np.ascontiguousarray((design.weights(W) * scales)[:, order]),
        intercept=(b * scales)[order],
        target_prior=design.prior,
        metrics={
            metric: {name: values[name] for name in tasks.names}
            for metric, values in scores.items()
        },
        fit_info=fit_info,
        warnings=warnings,
        common=None if common is None else _columns_of(design, *common),
    )


def _columns_of(design: Design, W: Array, b: Array | float) -> Array:
    """Return functions W (m, q), b (m,) of a design as (p + 1, m), in units of the targets."""
    # a task without rows has the scale that the others suggest; 1 for class labels
    columns = np.vstack([design.weights(np.atleast_2d(W)), np.atleast_2d(b)])
    return np.asarray(design.prior.scale * columns)


def _column_order(names: Sequence[str], sizes: Sequence[int], order: Sequence[str]) -> list[int]:
    """Return the positions of the target columns after the tasks are reordered."""
    ends = np.cumsum(sizes)
    columns = {
        name: range(end - size, end) for name, size, end in zip(names, sizes, ends, strict=True)
    }
    return [position for name in order for position in columns[name]]
