"""The result of parsing an upload."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from algorithms.interface.tasks import Task
from algorithms.numerics.sparse_rows import is_sparse
from algorithms.wrappers.preparation.columns import Column
from service.datasets.number_writings import PLAIN_TABLE, NumberWritings


@dataclass(frozen=True, slots=True)
class Parsed:
    """The tasks of an upload, and how they were read.

    Attributes
    ----------
    columns
        Kinds of the columns of all tasks. None if all are numbers, without missing values.
    ignored
        Columns of the table that are not features: tasks, targets, groups, or left out.
    notes
        Sentences about what was detected or left out, such as "read with delimiter ';'".
    unlabelled
        Rows without a target, of some of the tasks.
    task_column
        Column of the table with the task of each row; None without one.
    numbers
        How numbers in the text of the table are written.
    empty
        Columns that are left out since they have no value.
    inspection
        What was found in a file that is only looked at, which then has no tasks.
    """

    tasks: list[Task]
    columns: tuple[Column, ...] | None = None
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unlabelled: tuple[Task, ...] = ()
    task_column: str | None = None
    numbers: NumberWritings = PLAIN_TABLE
    empty: tuple[str, ...] = ()
    inspection: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        tasks: list[Task],
        columns: Sequence[Column],
        *,
        notes: tuple[str, ...] = (),
        ignored: tuple[str, ...] = (),
        unlabelled: Sequence[Task] = (),
        task_column: str | None = None,
        numbers: NumberWritings = PLAIN_TABLE,
        empty: tuple[str, ...] = (),
    ) -> Self:
        """Return the tasks, with their columns unless all are numbers without missing values."""
        is_plain = all(column.kind == "number" for column in columns) and not any(
            task.input == "rows" and not is_sparse(task.X) and np.isnan(task.X).any()
            for task in (*tasks, *unlabelled)
        )
        kinds = None if is_plain else tuple(columns)
        return cls(
            tasks,
            kinds,
            notes,
            ignored,
            tuple(unlabelled),
            task_column,
            numbers,
            empty,
        )
