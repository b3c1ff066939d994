"""The source task of a transfer: its parameter, and its default."""

from collections.abc import Sequence

from pydantic import Field

from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSummary, unknown_task


class SourceParams(Params):
    """Parameters that select the source task."""

    source: str = Field(
        "",
        max_length=1000,
        title="Source task",
        description="Name of the task to transfer from; all other tasks are targets. Default: the "
        "task with the most rows; of several, the first by name.",
    )


def choose_source(summaries: Sequence[TaskSummary], source: str, *, algorithm: str) -> str:
    """Return the name of the source task.

    Raises
    ------
    InvalidParams
        There is no task of this name.
    InvalidData
        The source has only one row.
    """
    by_name = {task.name: task for task in summaries}
    if source and source not in by_name:
        problem = unknown_task(source, tuple(by_name)).message
        raise InvalidParams(f"{problem}; 'source' must be one of them", field="source")
    name = source or min(by_name, key=lambda name: (-by_name[name].n_samples, name))
    if by_name[name].n_samples < 2:
        raise InvalidData(
            f"the source task '{name}' has 1 row; {algorithm} needs at least 2: add rows, or set "
            "'source' to another task",
            task=name,
        )
    return name


def check_own_rows(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData if a task has too few rows for a model of its own."""
    for task in summaries:
        if task.n_samples < 2:
            raise InvalidData(
                f"task '{task.name}' has 1 row; {algorithm} with rows 'own' needs at least 2 in "
                "every task",
                task=task.name,
            )
