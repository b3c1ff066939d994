"""Tasks that a model was not trained on."""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from algorithms.interface.errors import UnknownTask
from algorithms.interface.lists import list_names

#: What a call does about them: refuse them, or answer by the part that all tasks have in common.
NewTasks: TypeAlias = Literal["refuse", "common"]
DEFAULT_NEW_TASKS: Final = "refuse"

#: Algorithms to use instead of one without a common part.
WITH_COMMON_PART: Final = "mixed-model, mean-regularised, or an algorithm with form 'pooled'"
_MAX_LISTED: Final = 10


class NewTasksWarning(UserWarning):
    """A note that the common part of a model answered for tasks that were not trained.

    Parameters
    ----------
    tasks
        Names of these tasks; of many, the first.
    n_more
        Number of further ones.
    """

    def __init__(self, tasks: Sequence[str], n_more: int = 0) -> None:
        more = f" and {n_more} more" if n_more else ""
        super().__init__(
            "answered by what the tasks of the model have in common, because it was not trained "
            f"on them: {list_names(tasks, _MAX_LISTED)}{more}"
        )
        self.tasks = tuple(tasks)
        self.n_more = n_more

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the warning: its message alone makes none."""
        return type(self), (self.tasks, self.n_more), vars(self)


def no_common_part(algorithm: str, names: Sequence[str], why: str = "") -> UnknownTask:
    """Return the error that a model has no common part to answer for new tasks.

    Parameters
    ----------
    why
        The reason, if it is not the algorithm and its form alone.
    """
    reason = why or f"this model of {algorithm} has no part that is common to all tasks"
    what = "task was" if len(names) == 1 else "tasks were"
    return UnknownTask(
        f"the {what} not trained: {list_names(names, _MAX_LISTED)}; {reason}. Add their rows by "
        f"'adapt', or train {WITH_COMMON_PART}",
        task=names[0],
    )


def common_classes(classes: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the labels that all tasks have; None if tasks have different ones.

    A task may lack some of the labels of the others.
    """
    labels = max((tuple(of_task or ()) for of_task in classes), key=len, default=())
    known = set(labels)
    return labels if all(known.issuperset(of_task or ()) for of_task in classes) else None
