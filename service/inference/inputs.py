"""Inputs that the methods of models expect."""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final

from algorithms.interface.methods import FEATURE_METHODS
from algorithms.interface.model import Model
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.model import preparation_of
from service.inference.call import InputSpec, raise_invalid_data
from service.inference.task_column import TaskSource, composed
from service.models.columns import ColumnNames, Ranges
from service.models.store import ServableVersion

#: Size at which a cache is cleared, or forgets the least recently used entry.
_MAX_CACHED: Final = 1024


class InputSpecs:
    """Specifications of the inputs of methods, cached by version and task: versions never change.

    Parameters
    ----------
    names
        Names of the columns of the training data.
    """

    def __init__(self, names: ColumnNames) -> None:
        self._names = names
        self._cache: dict[tuple[str, str, str], InputSpec] = {}
        self._source_of = lru_cache(_MAX_CACHED)(self._task_source)

    def task_source(self, served: ServableVersion, in_query: str | None) -> TaskSource:
        """Return the source of the tasks of rows for a version."""
        source = self._source_of(served.id, served.task_column)
        return source if in_query is None else source._replace(query=composed(in_query))

    def _task_source(self, version_id: str, column: str) -> TaskSource:
        names = self._names
        return TaskSource(
            None,
            column,
            partial(names.has, version_id),
            partial(names.options, version_id),
            partial(names.of, version_id),
        )

    def uses(self, served: ServableVersion, name: str) -> bool:
        """Return whether a task of the training data has a column with a name."""
        return any(name in (names or ()) for names in self._names.of(served.id).values())

    def ranges(self, served: ServableVersion) -> Ranges:
        """Return the columns of numbers of the training rows, with their ranges."""
        return self._names.ranges(served.id)

    def of_task(self, served: ServableVersion, model: Model, method: str, task: str) -> InputSpec:
        """Return the specification for rows of a task that the model was trained on."""
        key = served.id, method, task
        spec = self._cache.get(key)
        if spec is None:
            spec = self.of_tasks(served, model, method, [task])
            if spec.kinds is None:  # raw columns can be large, and take longer to read
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[key] = spec
        return spec

    def of_tasks(
        self, served: ServableVersion, model: Model, method: str, tasks: list[str]
    ) -> InputSpec:
        """Return the specification for rows of some tasks, which must expect the same."""
        return InputSpec(
            tasks[0],
            method,
            _common_width(model, method, tasks),
            method in model.takes_missing,
            partial(self._common_column_names, served, method, tasks),
            _common_kinds(model, method, tasks),
            partial(self._names.ignored, served.id),
            partial(self._names.numbers, served.id),
        )

    def _common_column_names(
        self, served: ServableVersion, method: str, tasks: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Return the column names, which must be the same for all tasks; None without names."""
        if method not in FEATURE_METHODS:
            return None
        names_of = self._names.of(served.id)
        shared = next(iter(names_of.values()))  # of tasks that the model was not trained on
        names = names_of.get(tasks[0], shared)
        for task in tasks[1:]:
            if names_of.get(task, shared) != names:
                raise_invalid_data(
                    f"tasks '{tasks[0]}' and '{task}' were trained on columns with different "
                    "names; send the tasks in separate requests",
                    task=task,
                )
        return names


def _common_width(model: Model, method: str, tasks: list[str]) -> int:
    """Return the number of input columns, which must be the same for all tasks."""
    width = model.width(method, task=tasks[0])
    for task in tasks[1:]:
        other = model.width(method, task=task)
        if other != width:
            raise_invalid_data(
                f"task '{tasks[0]}' takes rows of {width} numbers, task '{task}' of {other}; send "
                "the tasks in separate requests",
                task=task,
            )
    return width


def _common_kinds(model: Model, method: str, tasks: list[str]) -> tuple[Column, ...] | None:
    """Return the raw columns, which must be the same for all tasks; None if all are numbers."""
    preparation = preparation_of(model) if method in FEATURE_METHODS else None
    if preparation is None:
        return None
    columns = preparation.of(tasks[0]).columns
    for task in tasks[1:]:
        if preparation.of(task).columns != columns:
            raise_invalid_data(
                f"tasks '{tasks[0]}' and '{task}' were trained on different columns; send the "
                "tasks in separate requests",
                task=task,
            )
    return None if all(column.kind == "number" for column in columns) else columns
