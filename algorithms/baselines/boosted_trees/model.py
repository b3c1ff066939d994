"""The model of gradient-boosted trees."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from algorithms.baselines.boosted_trees.forest import Forest
from algorithms.families.linear.targets import decode
from algorithms.interface.model import Predictor, check_array
from algorithms.interface.new_tasks import no_common_part
from algorithms.numerics.arrays import Array


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The trees and targets of one task.

    Parameters
    ----------
    trees
        Position of the first tree, and of the first one after the last.
    center, unit
        Predictions are center + unit · (sum of the trees).
    category
        Category of the task in pooled trees, −1 if they do not know it.
    classes
        Labels, sorted; empty for numbers.
    """

    trees: tuple[int, int]
    center: float
    unit: float
    category: int
    classes: tuple[Any, ...] = ()

    @property
    def n_scores(self) -> int:
        """Number of scores of a row."""
        return len(self.classes) if len(self.classes) > 2 else 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class TreesModel(Predictor):
    """Sums of decision trees.

    Parameters
    ----------
    parts
        The part of each task.
    forest
        Trees of all tasks. With m > 2 classes, every m-th one belongs to the same class.
    mean, scale : (d,)
        Standardised rows are (x − mean) / scale.
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    parts: tuple[Part, ...]
    forest: Forest
    mean: Array
    scale: Array
    fit_info: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def width(self, method: str, *, task: str) -> int:
        """Return the number of features."""
        del method
        self.task_index(task)
        return len(self.mean)

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; empty for numbers."""
        return self.parts[self.task_index(task)].classes

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the predicted numbers or labels of a task, (n_samples,)."""
        scores = self._scores(X, method="predict", task=task)
        return decode(scores, self.classes(task) or None)

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return logarithms of the probabilities of the classes, (n_samples, n_classes).

        Up to a constant; for two classes, the log-odds of the second, (n_samples,).
        """
        scores = self._scores(X, method="decision_function", task=task)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def for_new_tasks(self, names: tuple[str, ...]) -> "TreesModel":
        """Return the trees of all tasks, for tasks that are no category of theirs."""
        first = self.parts[0]
        if self.fit_info["params"]["form"] != "pooled":
            raise no_common_part(self.algorithm, names)
        return replace(self, tasks=names, parts=(replace(first, category=-1),) * len(names))

    def _scores(self, X: object, *, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        part = self.parts[self.task_index(task)]
        with np.errstate(over="ignore"):
            standardised = (rows - self.mean) / self.scale
        category = np.full(len(rows), part.category)
        values = self.forest.leaf_values(standardised, category, slice(*part.trees))
        n_rounds = values.shape[1] // part.n_scores
        sums = values.reshape(len(rows), n_rounds, part.n_scores)
        return np.asarray(part.center + part.unit * sums.sum(axis=1))

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        d = len(self.mean)
        for name in ("mean", "scale"):
            check_array(getattr(self, name), (d,), name=name)
        self.forest.check(d)
        if len(self.tasks) != len(self.parts):
            raise ValueError(f"{len(self.parts)} parts for {len(self.tasks)} tasks")
        for part in self.parts:
            first, last = part.trees
            is_range = 0 <= first < last <= self.forest.n_trees
            if not is_range or (last - first) % part.n_scores:
                raise ValueError(f"trees {first} to {last} of {self.forest.n_trees}")
            if not -1 <= part.category < max(self.forest.sets.shape[1], 1):
                raise ValueError(f"category {part.category} is out of bounds")
