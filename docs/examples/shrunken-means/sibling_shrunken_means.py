"""Means of the tasks, shrunken towards the mean of all tasks.

The prediction for every row of task t, which has n_t rows with the mean target m_t, is

    (n_t m_t + k m) / (n_t + k),

where m is the mean of the m_t and k, the strength, counts as rows of the shared mean. It is the
simplest method that learns related tasks together. Cost: O(n).

Reference: B. Efron and C. Morris, Stein's paradox in statistics, Scientific American 236(5), 1977,
https://doi.org/10.1038/scientificamerican0577-119
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSet, check_magnitudes
from algorithms.interface.trace import Trace

Array = NDArray[np.float64]


class ShrunkenMeansParams(Params):
    """Parameters of the shrunken means."""

    strength: float = Field(
        5.0,
        ge=0,
        le=1e9,
        title="Strength",
        description="Number of rows that the shared mean counts as; 0 gives the mean of each task.",
    )


@dataclass(frozen=True, slots=True, eq=False)
class ShrunkenMeansModel(Model):
    """One mean per task.

    Parameters
    ----------
    means : (n_tasks,)
        Predictions.
    n_features
        Number of columns of the rows, which are not used.
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    means: Array
    n_features: int
    fit_info: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def width(self, method: str, *, task: str) -> int:
        """Return the number of columns of the training rows."""
        del method
        self.task_index(task)
        return self.n_features

    def predict(self, X: object, *, task: str) -> Array:
        """Return the shrunken mean of the task for every row, (n_samples,)."""
        n_rows = len(self.check_rows(X, method="predict", task=task))
        return np.full(n_rows, self.means[self.task_index(task)])

    def check_stored(self) -> None:
        """Raise ValueError if the means of a file do not fit to its tasks."""
        if self.means.shape != (len(self.tasks),):
            raise ValueError(f"means of shape {self.means.shape} for {len(self.tasks)} tasks")


class ShrunkenMeans(Algorithm[ShrunkenMeansParams, ShrunkenMeansModel]):
    """Means of the tasks, shrunken towards the mean of all tasks."""

    name = "shrunken-means"
    title = "Shrunken means"
    summary = (
        "Predicts the mean target of each task, shrunken towards the mean of all tasks. "
        "An example of an algorithm of another package."
    )
    reference = (
        "B. Efron and C. Morris, Stein's paradox in statistics, Scientific American, 1977, "
        "https://doi.org/10.1038/scientificamerican0577-119"
    )
    needs = Needs(same_features=True, target="numbers")
    Params = ShrunkenMeansParams
    Model = ShrunkenMeansModel

    def fit(
        self,
        tasks: TaskSet,
        params: ShrunkenMeansParams,
        *,
        trace: Trace,
        rng: np.random.Generator,
    ) -> ShrunkenMeansModel:
        """Return the shrunken mean of each task."""
        del rng
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        means = trace.run_once("means", lambda: (shrink(tasks, params.strength), 0.0))
        return ShrunkenMeansModel(
            self.name, tasks.names, means, n_features=tasks.tasks[0].n_features
        )

    def final_objective(self, params: ShrunkenMeansParams, trace: Trace) -> None:
        """Return None: nothing is optimised."""
        del params, trace


def shrink(tasks: TaskSet, strength: float) -> Array:
    """Return the shrunken mean of each task, (n_tasks,)."""
    n = np.array([task.n_samples for task in tasks])
    means = np.array([task.y.mean() for task in tasks])
    return (n * means + strength * means.mean()) / (n + strength)
