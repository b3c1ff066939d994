"""Any algorithm, trained on raw rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.wrappers.by_parts.algorithm import ByParts
from algorithms.wrappers.per_task import for_parts
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.learning import Preparation, columns_of
from algorithms.wrappers.preparation.model import PreparedModel
from algorithms.wrappers.preparation.recipe import Recipe
from algorithms.wrappers.preparation.recoding import recode
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm


class PreparedAlgorithm(WrappedAlgorithm):
    """An algorithm whose fit first learns the preparation of the rows it is given.

    Whoever holds rows out gives a fit the training rows only, so nothing of a held-out row is
    learned. The inner algorithm's own selection is an exception: it splits rows that are prepared.

    Parameters
    ----------
    columns
        Kinds of the raw columns of all tasks; None: all are numbers.
    """

    def __init__(
        self, inner: Algorithm[Any, Any], columns: Sequence[Column] | None, recipe: Recipe
    ) -> None:
        super().__init__(inner)
        self._columns = columns
        self._recipe = recipe

    def fit(
        self, tasks: TaskSet, params: Params, *, trace: Trace, rng: np.random.Generator
    ) -> PreparedModel:
        """Return the model trained on the tasks, with the preparation of its rows."""
        preparation = Preparation.learn(tasks, self._columns, self._recipe)
        prepared = preparation.apply(tasks.tasks)
        self._inner.check(prepared.summaries(), params)
        model = self._inner.fit(prepared, params, trace=trace, rng=rng)
        return PreparedModel(model, preparation)

    def fit_path(
        self, tasks: TaskSet, params: Sequence[Params], *, trace: Trace, rng: np.random.Generator
    ) -> list[PreparedModel]:
        """Return one model for each of ``params``, all with the same preparation."""
        preparation = Preparation.learn(tasks, self._columns, self._recipe)
        prepared = preparation.apply(tasks.tasks)
        models = self._inner.fit_path(prepared, params, trace=trace, rng=rng)
        return [PreparedModel(model, preparation) for model in models]

    def has_common_part(self, params: Params) -> bool:
        """Return whether tasks without rows have a preparation and an answer."""
        return not self._recipe.per_task and super().has_common_part(params)

    def adapt(
        self, model: PreparedModel, task: Task, *, trace: Trace | None = None
    ) -> PreparedModel:
        """Return the model with a new task of raw rows, whose columns have the model's order."""
        wanted = model.preparation.parts[0].columns
        columns = columns_of(task, self._columns)
        if len(columns) == len(wanted):
            task = replace(task, X=recode(task.X, columns, wanted, task=task.name))
        prepared, preparation = model.prepare_task(task)
        return PreparedModel(self._inner.adapt(model.inner, prepared, trace=trace), preparation)


def for_model(
    algorithm: Algorithm[Any, Any], model: Model, columns: Sequence[Column] | None
) -> Algorithm[Any, Any]:
    """Return the algorithm that adds tasks of some columns to a model.

    Raises
    ------
    InvalidData
        The model takes plain numbers, and a column has another kind.
    """
    if isinstance(model, PreparedModel):
        inner = for_parts(algorithm, model.inner)
        return PreparedAlgorithm(inner, columns, model.preparation.recipe)
    check_numbers(columns)
    return for_parts(algorithm, model)


def check_numbers(columns: Sequence[Column] | None) -> None:
    """Raise InvalidData if a column is not of numbers, as models without preparation need."""
    for column in columns or ():
        if column.kind != "number":
            raise InvalidData(
                f"column '{column.name}' is of the kind {column.kind}; the model takes numbers",
                column=column.name,
            )


def prepared(
    algorithm: Algorithm[Any, Any], columns: Sequence[Column] | None, recipe: Recipe | None
) -> Algorithm[Any, Any]:
    """Return the algorithm for raw rows; the algorithm itself where nothing is to be prepared.

    Tables with anything but complete columns of numbers are prepared by default.
    """
    if columns is None and recipe is None:
        return algorithm
    is_known = algorithm.is_combined or isinstance(algorithm, ByParts)  # their fits divide tasks
    if recipe is not None and recipe.different_columns == "apart" and not is_known:
        algorithm = ByParts(algorithm, algorithm.role)
    return PreparedAlgorithm(algorithm, columns, recipe or Recipe())
