"""The result of parsing an upload."""

from dataclasses import dataclass

from algorithms.interface.tasks import Task
from algorithms.preparation.columns import Column


@dataclass(frozen=True, slots=True)
class Parsed:
    """The tasks of an upload, and how they were read.

    Attributes
    ----------
    columns
        Kinds of the columns of all tasks. None if all are numbers, without missing values.
    ignored
        Columns of the table that no task has: of tasks, targets, groups, or left out.
    notes
        What was detected or left out, in sentences: "read with delimiter ';'".
    """

    tasks: list[Task]
    columns: tuple[Column, ...] | None = None
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
