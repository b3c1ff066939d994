"""Suitability of the algorithms for a dataset, with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams, UnusedWeights
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import MemoryEstimate
from algorithms.registry import ALGORITHMS, explain_weights
from service.settings import MIB

#: Memory of the process of a job that does nothing, with all libraries.
PROCESS_BYTES: Final = 240 * MIB
_NO_TARGETS: Final = "upload them as y, or name their column with target_column"
#: Advice about an upload, by the targets that an algorithm needs and the targets of a task.
_HINTS: Final[dict[tuple[str, str | None], str]] = {
    ("classes", "numbers"): "if the numbers are class codes, upload them with target_kind=classes",
    ("classes", "none"): _NO_TARGETS,
    ("numbers", "none"): _NO_TARGETS,
    ("any", "none"): _NO_TARGETS,
}


def check_tasks(algorithm: Algorithm[Any, Any], tasks: Sequence[TaskSummary], params: Any) -> None:
    """Raise InvalidData if the tasks do not meet the requirements, with a hint for the upload."""
    try:
        algorithm.check(tasks, params)
    except UnusedWeights as error:
        raise explain_weights(error) from None
    except InvalidData as error:
        targets = {task.name: task.target for task in tasks}
        hint = _HINTS.get((algorithm.needs.target, targets.get(error.task or "")))
        if hint is None:
            raise
        raise InvalidData(f"{error.message}; {hint}", task=error.task) from None


def check_weights(algorithm: Algorithm[Any, Any], tasks: Sequence[TaskSummary]) -> None:
    """Raise InvalidData if tasks have weights, but the algorithm does not use them."""
    try:
        for task in tasks:
            algorithm.needs.check_weights(task, algorithm=algorithm.name)
    except UnusedWeights as error:
        raise explain_weights(error) from None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether an algorithm can be trained on some tasks with default parameters.

    Attributes
    ----------
    obstacle
        Why it cannot; None if it can.
    memory_bytes
        Expected peak memory of the process of a job; None if it cannot be trained, or has a
        parameter without default.
    """

    obstacle: str | None
    memory_bytes: float | None


def outlooks(tasks: Sequence[TaskSummary]) -> dict[str, Outlook]:
    """Return the outlook of every algorithm by name.

    For an algorithm with a parameter that has no default, only its needs are checked.
    """
    outlook_of: dict[str, Outlook] = {}
    for name, algorithm in sorted(ALGORITHMS.items()):
        try:
            params = _defaults(algorithm)
            if params is None:
                algorithm.needs.check(tasks, algorithm=name)
            else:
                check_tasks(algorithm, tasks, params)
                algorithm.check_selection(tasks, params)
        except (InvalidData, InvalidParams) as error:
            outlook_of[name] = Outlook(str(error), None)
        else:
            memory = None if params is None else expected_memory(algorithm.memory(tasks, params))
            outlook_of[name] = Outlook(None, memory)
    return outlook_of


def expected_memory(estimate: MemoryEstimate) -> float:
    """Return the expected peak memory of the process of a job, in bytes."""
    return PROCESS_BYTES + estimate.n_bytes


def _defaults(algorithm: Algorithm[Any, Any]) -> Any:
    """Return the default parameters, or None if one has no default."""
    try:
        return algorithm.Params()
    except ValidationError:
        return None
