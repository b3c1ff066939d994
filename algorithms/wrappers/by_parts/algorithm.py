"""An algorithm that is fitted to several parts of the tasks, each apart from the others.

An algorithm that needs the same columns in every task learns tasks with different columns so: tasks
share only with those of the same columns. One that learns tasks together learns each alone so.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from algorithms.interface.algorithm import Algorithm, Role
from algorithms.interface.lists import list_names
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import MemoryEstimate, WorkEstimate
from algorithms.wrappers.by_parts.model import PartsModel
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm

Described = TypeVar("Described", Task, TaskSummary)


def groups_of_columns(tasks: Sequence[Described]) -> list[list[Described]]:
    """Return the tasks of each set of columns, in the order of their first tasks."""
    groups: dict[Any, list[Described]] = {}
    for task in tasks:
        groups.setdefault((task.n_features, task.feature_names), []).append(task)
    return list(groups.values())


def each_task(tasks: Sequence[Described]) -> list[list[Described]]:
    """Return the parts that learn each task alone."""
    return [[task] for task in tasks]


class ByParts(WrappedAlgorithm):
    """An algorithm that is fitted to parts of the tasks: by default, those of each set of columns.

    Parameters
    ----------
    role
        How it learns the tasks then.
    parts_of
        Divides tasks, or their summaries.
    """

    def __init__(
        self,
        inner: Algorithm[Any, Any],
        role: Role,
        *,
        parts_of: Callable[[Sequence[Any]], list[list[Any]]] = groups_of_columns,
    ) -> None:
        super().__init__(inner)
        self._parts_of = parts_of
        self.role = role
        self.needs = replace(inner.needs, same_features=False)

    def check(self, summaries: Sequence[TaskSummary], params: Params) -> None:
        """Raise InvalidData or InvalidParams if the algorithm cannot be fitted to some tasks."""
        for group in self._parts_of(summaries):
            self._inner.check(group, params)

    def memory(self, summaries: Sequence[TaskSummary], params: Params) -> MemoryEstimate:
        """Return the expected peak memory of the largest fit."""
        needed = [self._inner.memory(group, params) for group in self._parts_of(summaries)]
        return max(needed, key=lambda one: one.n_bytes)

    def work(self, summaries: Sequence[TaskSummary], params: Params) -> WorkEstimate:
        """Return the expected work of all fits."""
        works = [self._inner.work(group, params) for group in self._parts_of(summaries)]
        return sum(works[1:], works[0])

    def has_common_part(self, params: Params) -> bool:
        """Return False: what tasks have in common is learned in each part anew."""
        del params
        return False

    def supports_adaptation(self) -> bool:
        """Return False: the columns of a new task may be those of no other."""
        return False

    def fit(
        self, tasks: TaskSet, params: Params, *, trace: Trace, rng: np.random.Generator
    ) -> Model:
        """Return the model of all parts: that of the algorithm itself, if there is only one."""
        parts = [
            self._inner.fit(TaskSet(tuple(own)), params, trace=trace.nested(), rng=deepcopy(rng))
            for own in self._parts_of(tasks.tasks)
        ]
        return PartsModel(parts[0], parts, tasks.names) if len(parts) > 1 else parts[0]


def describe_columns(tasks: Sequence[TaskSummary], sharing: Sequence[str]) -> str | None:
    """Return a sentence on what could be shared if columns differ; None if they are the same.

    Parameters
    ----------
    sharing
        Names of the methods that learned tasks together.
    """
    groups = groups_of_columns(tasks)
    if len(groups) == 1:
        return None
    first, other = groups[0][0], groups[1][0]
    differ = (
        f"The tasks have different columns ('{first.name}' {first.n_features}, '{other.name}' "
        f"{other.n_features})"
    )
    if len(groups) < len(tasks):
        what = f"methods share only between tasks of the same ones, of {len(groups)} sets"
    elif sharing:
        names = ", ".join(dict.fromkeys(sharing))
        what = f"only {names} can share between them, and other methods learn each task alone"
    else:
        what = "nothing could be shared between them: every method learned each task alone"
    return f"{differ}: {what}.{_describe_common(groups)}"


def _describe_common(groups: Sequence[Sequence[TaskSummary]]) -> str:
    names = [group[0].feature_names for group in groups]
    common = set(names[0] or ()).intersection(*(own or () for own in names[1:]))
    if not common:
        return ""
    return (
        f" They have {list_names(sorted(common), _MAX_NAMES)} in common: upload the tasks with "
        "these columns alone to let methods share."
    )


_MAX_NAMES = 5
