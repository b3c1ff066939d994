"""Preparations of the tasks of a fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.new_tasks import no_common_part
from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.arrays import Array
from algorithms.numerics.sparse_rows import is_sparse
from algorithms.wrappers.preparation.columns import Column, unnamed
from algorithms.wrappers.preparation.recipe import Recipe
from algorithms.wrappers.preparation.rows import RowPreparation
from algorithms.wrappers.stored import below, inside

#: Key of the header, and folder of the arrays.
PREPARATION: Final = "preparation"


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """The learned preparations of all tasks of a model.

    Attributes
    ----------
    parts
        Distinct preparations; tasks with the same columns share one unless they have their own.
    part_of
        Position of each task's preparation in ``parts``, by name.
    """

    recipe: Recipe
    parts: tuple[RowPreparation, ...]
    part_of: Mapping[str, int]

    @classmethod
    def learn(cls, tasks: TaskSet, columns: Sequence[Column] | None, recipe: Recipe) -> Self:
        """Return the preparations learned from the rows of tasks.

        Parameters
        ----------
        columns
            Kinds of the columns of all tasks; None: all are numbers.

        Raises
        ------
        InvalidData
            A task has covariance matrices, or the options do not suit the columns.
        """
        groups: dict[tuple[Column, ...], list[Task]] = {}
        for task in tasks:
            groups.setdefault(columns_of(task, columns), []).append(task)
        parts: list[RowPreparation] = []
        part_of: dict[str, int] = {}
        for own_columns, members in groups.items():
            shared = RowPreparation.learn(_distinct_rows(members), own_columns, recipe)
            for task in members:
                part_of[task.name] = len(parts)
                if recipe.per_task:
                    parts.append(shared.relearn(task.X, recipe))
            if not recipe.per_task:
                parts.append(shared)
        return cls(recipe, tuple(parts), part_of)

    def with_task(self, task: Task) -> "Preparation":
        """Return the preparations with one for a new task, which has the columns of a known task.

        Raises
        ------
        InvalidData
            The number of columns differs.
        """
        first = self.parts[0]
        if task.n_features != len(first.columns):
            raise InvalidData(
                f"task '{task.name}' has {task.n_features} columns, the model {len(first.columns)}",
                task=task.name,
            )
        if not self.recipe.per_task:
            return replace(self, part_of={**self.part_of, task.name: 0})
        parts = (*self.parts, first.relearn(task.X, self.recipe))
        return replace(self, parts=parts, part_of={**self.part_of, task.name: len(parts) - 1})

    def for_new_tasks(self, names: tuple[str, ...]) -> "Preparation":
        """Return the common preparation for tasks without rows.

        Raises
        ------
        UnknownTask
            Each task has a preparation of its own.
        """
        if self.recipe.per_task:
            why = "the model's preparation is 'per_task', learned from the rows of each task"
            raise no_common_part("", names, why)
        return replace(self, parts=self.parts[:1], part_of=dict.fromkeys(names, 0))

    def of(self, task: str) -> RowPreparation:
        """Return the preparation of a task; the common one for a task without rows."""
        return self.parts[self.part_of.get(task, 0)]

    def apply(self, tasks: Sequence[Task]) -> TaskSet:
        """Return tasks with prepared rows; tasks that share their rows still do."""
        done: dict[tuple[int, int], Array] = {}
        prepared = []
        for task in tasks:
            part = self.of(task.name)
            key = self.part_of[task.name], id(task.X)
            if key not in done:
                part.check(task.X, task=task.name)
                done[key] = part.apply(task.X)
            prepared.append(
                replace(
                    task,
                    X=done[key],
                    feature_names=part.names,
                    sources=tuple(part.sources.tolist()),
                )
            )
        return TaskSet(tuple(prepared))

    def describe(self) -> dict[str, Any]:
        """Return a readable summary as JSON: options, raw and prepared columns by task."""
        parts = [
            {
                "columns": [column.to_json() for column in part.columns],
                "prepared": list(part.names),
                "fill": part.fill.tolist(),
                "centre": part.centre.tolist(),
                "scale": part.scale.tolist(),
            }
            for part in self.parts
        ]
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "parts": parts,
            "part_of": dict(self.part_of),
        }

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learned numbers by name."""
        arrays: dict[str, NDArray[Any]] = {}
        for i, part in enumerate(self.parts):
            arrays |= inside(f"{PREPARATION}/{i}", part.to_arrays())
        return arrays

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        return {
            "recipe": self.recipe.model_dump(mode="json"),
            "parts": [part.header() for part in self.parts],
            "part_of": dict(self.part_of),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the preparations from the results of :meth:`to_arrays` and :meth:`header`."""
        parts = [
            RowPreparation.from_arrays(below(arrays, f"{PREPARATION}/{i}"), part)
            for i, part in enumerate(header["parts"])
        ]
        recipe = Recipe.model_validate(header["recipe"], strict=False)
        return cls(recipe, tuple(parts), dict(header["part_of"]))


def columns_of(task: Task, columns: Sequence[Column] | None) -> tuple[Column, ...]:
    """Return the columns of a task in its order; columns without a kind are numbers."""
    if task.input != "rows" or is_sparse(task.X):
        what = "covariance matrices" if task.input != "rows" else "sparse rows"
        raise InvalidData(
            f"task '{task.name}' has {what}, which cannot be prepared", task=task.name
        )
    of_name = {column.name: column for column in columns or ()}
    if task.feature_names is None:
        return unnamed(task.n_features)
    return tuple(of_name.get(name) or Column(name) for name in task.feature_names)


def _distinct_rows(tasks: Sequence[Task]) -> Array:
    """Return the rows of all tasks; rows that tasks share occur once."""
    return np.concatenate(list({id(task.X): task.X for task in tasks}.values()))
