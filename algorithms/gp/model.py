"""The model of a multi-task Gaussian process."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from algorithms.gp.covariance import Hyperparameters, Rows
from algorithms.gp.data import Units
from algorithms.gp.posterior import Layout, Solution, mean, solve, variance
from algorithms.interface.model import Model, check_array
from algorithms.interface.relations import Relations, relations_of
from algorithms.interface.tasks import TargetKind
from algorithms.numerics.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What the targets of the first rows say about the functions.

    Parameters
    ----------
    alpha : (n_rows, C)
        Weights of the covariances with these rows.
    feature_weights : (p, C)
        Weights of the features that relate the tasks; none if all rows are related exactly.
    inducing : (m, d) or None
        Inducing rows of the features.
    """

    n_rows: int
    alpha: Array
    feature_weights: Array
    inducing: Array | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class GPModel(Model):
    """Training rows with their solution, from which the functions of all tasks follow.

    Parameters
    ----------
    labels
        Labels of all tasks, sorted; empty for numbers.
    X : (n, d)
        Standardised rows, those of each task together.
    task : (n,)
        Position of each row's task.
    group : (d,)
        Group of each column.
    logarithms : (7 + n_groups,)
        Logarithms of the hyperparameters.
    scales : (T,)
        Scale e^(s_t) of the targets of each task.
    targets : (n, C)
        Targets in the units of the covariance, divided by the scale of their task.
    weights : (n,)
        The noise of each row has the variance σ²/weight.
    max_exact
        Largest number of rows that are related exactly.
    stages
        That of the tasks trained together, and one of each task added later, which learns from all
        rows before; the functions of the tasks before it stay as they are.
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    labels: tuple[str, ...] | tuple[int, ...]
    units: Units
    X: Array
    task: NDArray[np.int64]
    group: NDArray[np.int64]
    logarithms: Array
    scales: Array
    targets: Array
    weights: Array
    max_exact: int
    stages: tuple[Stage, ...] = ()
    fit_info: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods for a task with the given kind of targets."""
        return ("variance", "predict") if target == "numbers" else ("predict", "decision_function")

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that work for the targets of the tasks."""
        return self.methods_for("classes" if self.labels else "numbers")

    def width(self, method: str, *, task: str) -> int:
        """Return the number of features."""
        del method
        self.task_index(task)
        return len(self.group)

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of all tasks, sorted; empty for numbers."""
        self.task_index(task)
        return self.labels

    def relations(self) -> Relations:
        """Return how much of their variance the functions of two tasks share, the same for all."""
        shares = self.fit_info["shares_of_variance"]
        common, noise = shares["common"], shares["noise"]
        own = 1.0 - common - noise
        T = len(self.tasks)
        found = relations_of(np.full((T, T), common) + own * np.eye(T), self.tasks)
        if T == 1:
            return found
        sentence = (
            f"Of the variance of the targets, the tasks share {common:.0%}; {own:.0%} is of each "
            f"task alone, and {noise:.0%} is noise."
        )
        return replace(found, sentence=sentence)

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the most probable label, or the median of the target, (n_samples,)."""
        scores = self._means(X, method="predict", task=task)
        if self.labels:
            best = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
            return np.asarray(np.array(self.labels)[best])
        return np.asarray(np.exp(scores[:, 0]) if self.units.has_logarithms else scores[:, 0])

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return the score of each class, −1 to 1 for typical rows, (n_samples, n_classes).

        For two classes, that of the second, (n_samples,).
        """
        scores = self._means(X, method="decision_function", task=task)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def variance(self, X: object, *, task: str) -> Array:
        """Return the variance of the target of each row, noise included, (n_samples,)."""
        rows = self.units.standardise(self.check_rows(X, method="variance", task=task))
        t = self.task_index(task)
        layout, solution = self._layouts[self._stage(t)], self._solutions[self._stage(t)]
        latent = variance(layout, solution, rows, t)
        v = (self.units.unit * self.scales[t]) ** 2 * (latent + layout.theta.noise)
        if not self.units.has_logarithms:
            return np.asarray(v)
        # of a log-normal target
        m = self._means(X, method="variance", task=task)[:, 0]
        return np.asarray(np.expm1(v) * np.exp(2.0 * m + v))

    def for_new_tasks(self, names: tuple[str, ...]) -> "GPModel":
        """Return the model of tasks without rows, whose functions follow from the common part."""
        n = len(names)
        return replace(
            self, tasks=names, scales=np.ones(n), task=self.task + n, stages=self.stages[-1:]
        )

    def _means(self, X: object, *, method: str, task: str) -> Array:
        """Return the means in units of the targets, or of their logarithms, (n_samples, C)."""
        rows = self.units.standardise(self.check_rows(X, method=method, task=task))
        t = self.task_index(task)
        stage = self.stages[self._stage(t)]
        means = mean(self._layouts[self._stage(t)], stage.alpha, stage.feature_weights, rows, t)
        return np.asarray(self.units.centre + self.units.unit * self.scales[t] * means)

    def with_stage(self) -> Self:
        """Return the model with a stage of all of its rows."""
        layout = self._layout(len(self.X), None)
        solution = self._solve(layout)
        stage = Stage(len(self.X), solution.alpha, solution.feature_weights, layout.inducing)
        return replace(self, stages=(*self.stages, stage))

    def _stage(self, t: int) -> int:
        """Return the position of a task's stage."""
        return max(0, t - (len(self.tasks) - len(self.stages)))

    @cached_property
    def _layouts(self) -> list[Layout]:
        return [self._layout(stage.n_rows, stage.inducing) for stage in self.stages]

    @cached_property
    def _solutions(self) -> list[Solution]:
        return [self._solve(layout) for layout in self._layouts]

    def _layout(self, n: int, inducing: Array | None) -> Layout:
        """Return the layout of the first n rows."""
        rows = Rows(self.X[:n], self.task[:n], self.group, self.units.size)
        theta = Hyperparameters.of(self.logarithms)
        return Layout.of(rows, theta, max_exact=self.max_exact, inducing=inducing)

    def _solve(self, layout: Layout) -> Solution:
        n = len(layout.rows.X)
        return solve(layout, self.targets[:n], layout.theta.noise / self.weights[:n])

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        (n, d), T, C = self.X.shape, len(self.tasks), len(self.units.centre)
        shapes = {
            "mean": (self.units.mean, (d,)),
            "scale": (self.units.scale, (d,)),
            "scales": (self.scales, (T,)),
            "targets": (self.targets, (n, C)),
            "weights": (self.weights, (n,)),
        }
        for name, (array, shape) in shapes.items():
            check_array(array, shape, name=name)
        for i, stage in enumerate(self.stages):
            check_array(stage.alpha, (stage.n_rows, C), name=f"alpha.{i}")
            if not 0 < stage.n_rows <= n or stage.feature_weights.shape[1:] != (C,):
                raise ValueError(f"stage {i} does not fit to {n} rows")
        if not self.fit_info["shares_of_variance"].keys() >= {"common", "noise"}:
            raise ValueError("the shares of variance are missing")
        if not 0 < len(self.stages) <= T:
            raise ValueError(f"{len(self.stages)} stages for {T} tasks")
        if self.task.shape != (n,) or self.group.shape != (d,) or (np.diff(self.task) < 0).any():
            raise ValueError("the tasks of rows, or the groups of columns, do not fit")
        if n == 0 or self.task.min() < 0 or self.task.max() >= T or self.group.min() < 0:
            raise ValueError("a row has no task, or a column no group")
