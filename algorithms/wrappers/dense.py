"""An algorithm that needs dense rows, for sparse rows of which a dense copy is small."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.needs import MAX_COORDINATES
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import MemoryEstimate, WorkEstimate
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm
from algorithms.wrappers.wrapped_model import WrappedModel

#: Key of the header.
KEY = "takes_dense_copies"


@dataclass(frozen=True, eq=False)
class DenseModel(WrappedModel):
    """A model of dense rows, which makes a dense copy of sparse ones."""

    @property
    def takes_sparse(self) -> bool:
        """Whether the methods accept sparse rows: they do."""
        return True

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return self.inner.to_arrays()

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return {**self.inner.header(), KEY: True}

    def for_new_tasks(self, names: tuple[str, ...]) -> "DenseModel":
        """Return a model of tasks without rows, which the common part of this one answers for."""
        return DenseModel(self.inner.for_new_tasks(names))

    def _call(self, method: str, X: object, task: str, **options: float) -> NDArray[Any]:
        rows: Any = X
        return super()._call(method, rows.toarray() if issparse(X) else X, task, **options)


class Dense(WrappedAlgorithm):
    """An algorithm that is fitted to a dense copy of sparse rows."""

    def __init__(self, inner: Algorithm[Any, Any]) -> None:
        super().__init__(inner)
        self.needs = replace(inner.needs, sparse=True)

    def check(self, summaries: Sequence[TaskSummary], params: Params) -> None:
        """Raise InvalidData or InvalidParams if the algorithm cannot be fitted."""
        self._inner.check(_dense(summaries), params)

    def memory(self, summaries: Sequence[TaskSummary], params: Params) -> MemoryEstimate:
        """Return the expected peak memory of a fit of the dense copy."""
        return self._inner.memory(_dense(summaries), params)

    def work(self, summaries: Sequence[TaskSummary], params: Params) -> WorkEstimate:
        """Return the expected work of a fit of the dense copy."""
        return self._inner.work(_dense(summaries), params)

    def supports_adaptation(self) -> bool:
        """Return False: sparse rows of a new task are refused anyway."""
        return False

    def fit(
        self, tasks: TaskSet, params: Params, *, trace: Trace, rng: np.random.Generator
    ) -> DenseModel:
        """Return the model of the dense copy."""
        dense = TaskSet(tuple(task.dense() for task in tasks))
        return DenseModel(self._inner.fit(dense, params, trace=trace, rng=rng))


def is_small(summaries: Sequence[TaskSummary]) -> bool:
    """Return whether a dense copy of all rows is as small as coordinates may be."""
    return sum(task.n_samples * task.n_features for task in summaries) <= MAX_COORDINATES


def _dense(summaries: Sequence[TaskSummary]) -> list[TaskSummary]:
    return [replace(task, n_stored=None) for task in summaries]
