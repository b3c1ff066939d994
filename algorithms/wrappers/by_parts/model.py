"""A trained model of several fits, each of a part of the tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from numpy.typing import NDArray

from algorithms.interface.model import Model
from algorithms.interface.new_tasks import no_common_part
from algorithms.interface.relations import Relations
from algorithms.wrappers.dense import KEY as DENSE
from algorithms.wrappers.dense import DenseModel
from algorithms.wrappers.stored import below, inside, numbered
from algorithms.wrappers.wrapped_model import WrappedModel

#: Key of the header, and folder of the arrays.
_KEY: Final = "by_parts"

#: Makes a model of its arrays and its header.
Load = Callable[[Mapping[str, NDArray[Any]], Mapping[str, Any]], Model]


@dataclass(frozen=True, eq=False)
class PartsModel(WrappedModel):
    """Models of an algorithm, each of which has a part of the tasks.

    Attributes
    ----------
    inner
        The first of the parts.
    """

    parts: Sequence[Model]
    names: tuple[str, ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks of the model."""
        return self.names

    @property
    def takes_sparse(self) -> bool:
        """Whether the methods of all parts accept sparse rows."""
        return all(part.takes_sparse for part in self.parts)

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Scores on the training rows: ``{metric: {task: value}}``."""
        return {
            name: {task: v for part in self.parts for task, v in part.metrics[name].items()}
            for name in self.inner.metrics
            if all(name in part.metrics for part in self.parts)
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about all fits, in sentences."""
        return tuple(dict.fromkeys(one for part in self.parts for one in part.warnings))

    def part(self, task: str) -> Model:
        """Return the model that has a task."""
        self.task_index(task)
        return self._by_task[task]

    def for_new_tasks(self, names: tuple[str, ...]) -> Model:
        """Raise UnknownTask: the parts have nothing in common."""
        raise no_common_part(self.algorithm, names, "it has several models, of different tasks")

    def relations(self) -> Relations | None:
        """Return None: not all tasks are related."""
        return None

    def learned(self) -> dict[str, Any]:
        """Return nothing: what the parts have learned has different shapes."""
        return {}

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that all parts support."""
        others = [set(part.available_methods()) for part in self.parts[1:]]
        return tuple(
            name
            for name in self.inner.available_methods()
            if all(name in methods for methods in others)
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name; those of parts are in folders."""
        return {
            name: array
            for i, part in enumerate(self.parts)
            for name, array in inside(f"{_KEY}/{i}", part.to_arrays()).items()
        }

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        parts = [part.header() for part in self.parts]
        return {_KEY: {"tasks": list(self.names), "parts": parts}}

    @cached_property
    def _by_task(self) -> dict[str, Model]:
        return {task: part for part in self.parts for task in part.tasks}


def load_parts(
    arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any], *, load: Load
) -> Model:
    """Return the model in the arrays and the header of a file, with what contenders add to it.

    It may have several parts, or make dense copies of sparse rows.

    Parameters
    ----------
    load
        Makes one model of the algorithm.

    Raises
    ------
    ValueError
        The parts have other tasks than the model.
    """
    if header.get(DENSE):
        own = {name: value for name, value in header.items() if name != DENSE}
        return DenseModel(load_parts(arrays, own, load=load))
    if _KEY not in header:
        return load(arrays, header)
    folders, names = numbered(below(arrays, _KEY)), tuple(map(str, header[_KEY]["tasks"]))
    parts = [load(folders[i], own) for i, own in enumerate(header[_KEY]["parts"])]
    if sorted(task for part in parts for task in part.tasks) != sorted(names):
        raise ValueError("the parts have other tasks than the model")
    return PartsModel(parts[0], parts, names)
