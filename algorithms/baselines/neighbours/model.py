"""The model of k-nearest neighbours: its training rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from algorithms.baselines.neighbours.params import Weights
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Predictor, check_array
from algorithms.interface.new_tasks import no_common_part
from algorithms.numerics.arrays import Array


@dataclass(frozen=True, eq=False)
class References:
    """Training rows with their targets.

    Parameters
    ----------
    rows : (n, d)
        Standardised rows.
    targets : (n, m)
        Numbers (m = 1), or an indicator of each class.
    classes
        Labels, sorted; empty for numbers.
    """

    rows: Array
    targets: Array
    classes: tuple[Any, ...] = ()

    @cached_property
    def tree(self) -> KDTree:
        """The tree that finds neighbours."""
        return KDTree(self.rows)

    def means(self, rows: Array, *, k: int, weights: Weights) -> Array:
        """Return the weighted means (n, m) of the neighbours' targets; NaN if distances overflow.

        Parameters
        ----------
        rows : (n, d)
            Standardised rows.
        """
        k = min(k, len(self.rows))
        nearest_rows = self.tree.query(rows, k=np.arange(1, k + 1))
        distances, which = (np.asarray(array) for array in nearest_rows)
        is_known = np.isfinite(distances).all(axis=1)  # the tree finds nothing at infinity
        if weights == "uniform":
            shares = np.full(distances.shape, 1 / k)
        else:
            nearest = np.maximum(distances[:, :1], np.finfo(float).tiny)
            with np.errstate(divide="ignore"):
                shares = np.where(distances > 0, nearest / distances, 1.0)
            shares[(distances[:, :1] == 0) & (distances > 0)] = 0.0
            shares /= shares.sum(axis=1, keepdims=True)
        means = np.full((len(rows), self.targets.shape[1]), np.nan)
        means[is_known] = np.einsum("nk,nkm->nm", shares[is_known], self.targets[which[is_known]])
        return means


def concatenated(parts: Sequence[References]) -> References:
    """Return the rows of several tasks with the same classes as one."""
    rows = np.concatenate([part.rows for part in parts])
    return References(rows, np.concatenate([part.targets for part in parts]), parts[0].classes)


@final
@dataclass(frozen=True, slots=True, eq=False)
class NeighboursModel(Predictor):
    """Training rows, in which the neighbours of new rows are found.

    Parameters
    ----------
    references
        Training rows of each task, or one set of rows for all tasks.
    source
        Position in ``references`` of each task.
    mean, scale : (d,)
        Standardised rows are (x − mean) / scale.
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    references: tuple[References, ...]
    source: tuple[int, ...]
    mean: Array
    scale: Array
    k: int
    weights: Weights
    fit_info: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def width(self, method: str, *, task: str) -> int:
        """Return the number of features."""
        del method
        self.task_index(task)
        return len(self.mean)

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; empty for numbers."""
        return self._references(task).classes

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the mean target, or the commonest label, of the neighbours, (n_samples,)."""
        means = self._means(X, method="predict", task=task)
        classes = self.classes(task)
        return np.array(classes)[means.argmax(axis=1)] if classes else means[:, 0]

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return the share of each class among the neighbours, (n_samples, n_classes).

        For two classes, the share of the second minus the share of the first, (n_samples,).
        """
        means = self._means(X, method="decision_function", task=task)
        return np.asarray(means[:, 1] - means[:, 0]) if means.shape[1] == 2 else means

    def for_new_tasks(self, names: tuple[str, ...]) -> "NeighboursModel":
        """Return the rows of all tasks, as those of tasks without rows."""
        first = self.references[0]
        if any(part.classes != first.classes for part in self.references):
            raise no_common_part(self.algorithm, names, "the tasks of the model differ in classes")
        return replace(
            self, tasks=names, references=(self._all_references,), source=(0,) * len(names)
        )

    @cached_property
    def _all_references(self) -> References:
        return self.references[0] if len(self.references) == 1 else concatenated(self.references)

    def _references(self, task: str) -> References:
        return self.references[self.source[self.task_index(task)]]

    def _means(self, X: object, *, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        with np.errstate(over="ignore"):
            standardised = (rows - self.mean) / self.scale
        is_finite = np.isfinite(standardised).all(axis=1)
        standardised[~is_finite] = 0.0
        means = self._references(task).means(standardised, k=self.k, weights=self.weights)
        is_known = is_finite & np.isfinite(means[:, 0])
        if not is_known.all():
            row = int(is_known.argmin())
            raise InvalidData(
                f"task '{task}', row {row} has values so large that its distances overflow; "
                "rescale the values",
                task=task,
                row=row,
            )
        return means

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        d = len(self.mean)
        check_array(self.mean, (d,), name="mean")
        check_array(self.scale, (d,), name="scale")
        for i, refs in enumerate(self.references):
            n = len(refs.rows)
            check_array(refs.rows, (n, d), name=f"rows.{i}")
            check_array(refs.targets, (n, max(len(refs.classes), 1)), name=f"targets.{i}")
            if n == 0 or not np.isfinite(refs.rows).all():
                raise ValueError(f"rows.{i} is empty, or has values that are not finite")
        if len(self.source) != len(self.tasks) or not all(
            0 <= i < len(self.references) for i in self.source
        ):
            raise ValueError(f"source {self.source} does not fit to {len(self.tasks)} tasks")
        if self.k < 1 or self.weights not in ("uniform", "distance"):
            detail = "expected k >= 1 and weights 'uniform' or 'distance'"
            raise ValueError(f"{detail}, got k = {self.k} and weights {self.weights!r}")
