"""Tables: columns with names, of which one may tell the task of each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.columns import check_unique, match_columns
from service.inference.call import Answer, Call, Matrix, Wish, invalid, misfit, widened

#: The column that tells the task of each row.
TASK: Final = "task"


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table without its task column.

    Attributes
    ----------
    names
        Of the columns; none where the table has no header.
    columns
        Numbers, each (n_rows,).
    """

    names: tuple[str, ...] | None
    columns: Sequence[NDArray[Any]]
    n_rows: int

    def n_values(self) -> int:
        """Return the number of values."""
        return self.n_rows * len(self.columns)

    def as_matrix(self, wish: Wish) -> Matrix:
        """Return the columns by the names that the model knows, else by their order."""
        chosen = positions_of(self.names, len(self.columns), wish)
        matrix = np.empty((self.n_rows, len(chosen)))
        for j, position in enumerate(chosen):
            values = widened(self.columns[position][:, np.newaxis], task=wish.task)[:, 0]
            matrix[:, j] = values
        return matrix


def positions_of(names: tuple[str, ...] | None, n_columns: int, wish: Wish) -> list[int]:
    """Return the columns of a table in the order in which the model takes them.

    By their names, where the table and the columns that the model was trained on have names; by
    position where one of them has none.

    Raises
    ------
    InvalidData
        A column is missing, unknown or twice there.
    """
    known = None if names is None else wish.columns()
    if names is not None and known is not None:
        subject = f"{wish}, in columns of the names it was trained on"
        return match_columns(names, known, subject=subject, task=wish.task)
    if names is not None:
        check_unique(names, task=wish.task)
    if n_columns != wish.width:
        misfit(f"{wish}, got a table of {n_columns} columns", task=wish.task)
    return list(range(wish.width))


def call_of(rows: TableRows, tasks: list[str] | None, task: str | None) -> Call:
    """Return the call of a table: its tasks from its column, or one task from the query."""
    if tasks is not None and task is not None:
        invalid("query:task", "the table has a column 'task'; name the tasks there or in the query")
    if tasks is None and task is None:
        invalid("query:task", "name the task as ?task=..., or that of each row in a column 'task'")
    return Call(tasks if tasks is not None else str(task), rows)


def columns_of(answer: Answer) -> dict[str, NDArray[Any]]:
    """Return the columns of an answer, named by the classes where they are classes."""
    outputs = answer.outputs
    if outputs.ndim == 1:
        return {answer.method: outputs}
    names = [str(label) for label in answer.classes] or [str(j) for j in range(outputs.shape[1])]
    return {f"{answer.method}_{name}": outputs[:, j] for j, name in enumerate(names)}
