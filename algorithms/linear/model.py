"""The models whose answers are linear functions per task."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.tasks import Task
from algorithms.linear.functions import Functions
from algorithms.linear.targets import decode

Array = NDArray[np.float64]


class FunctionModel(Model):
    """A model whose answers are those of :class:`Functions`."""

    @property
    @abstractmethod
    def functions(self) -> Functions:
        """The functions of its tasks."""

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that trained it."""
        return self.functions.algorithm

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return self.functions.tasks

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """R² of numbers or share of right labels, on the training rows."""
        return {name: dict(values) for name, values in self.functions.metrics.items()}

    @property
    def fit_info(self) -> Mapping[str, Any]:
        """What the fit decided."""
        return self.functions.fit_info

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the user should know of this fit."""
        return self.functions.warnings

    def width(self, method: str, *, task: str) -> int:
        """Return the number of features."""
        del method
        self.task_index(task)
        return self.functions.basis.n_features

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the labels of a task, sorted; none for numbers."""
        return self.functions.classes[self.task_index(task)] or ()

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the predicted numbers or labels of a task.

        Parameters
        ----------
        X : (n_samples, n_features)

        Returns
        -------
        (n_samples,)
        """
        rows = self.check_rows(X, method="predict", task=task)
        index = self.task_index(task)
        return decode(self.functions.scores(rows, index), self.functions.classes[index])

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return the values behind the prediction: positive for the second of two classes.

        Parameters
        ----------
        X : (n_samples, n_features)

        Returns
        -------
        (n_samples,) or (n_samples, n_classes)
            One per class, in sorted order, where there are more than two; the predicted numbers
            themselves where the targets are numbers.
        """
        rows = self.check_rows(X, method="decision_function", task=task)
        scores = self.functions.scores(rows, self.task_index(task))
        return scores[:, 0] if scores.shape[1] == 1 else scores


@final
@dataclass(frozen=True, slots=True, eq=False)
class LinearModel(FunctionModel):
    """A function for each task, and nothing else."""

    # field() keeps the abstract property from being taken for a default
    functions: Functions = field()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return self.functions.to_arrays()

    def header(self) -> dict[str, Any]:
        """Return what is not an array, as JSON."""
        return self.functions.header()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` and ``header`` described."""
        return cls(Functions.from_arrays(arrays, header))


def check_new_task(model: FunctionModel, task: Task) -> None:
    """Raise InvalidData where the targets of a task are of another kind than the model's."""
    is_numbers = model.functions.classes[0] is None
    if (task.target == "numbers") != is_numbers:
        wanted = "numeric targets" if is_numbers else "class labels"
        raise InvalidData(
            f"task '{task.name}' needs {wanted}, like the tasks of the model", task=task.name
        )
