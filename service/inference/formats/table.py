"""Tables: columns with names, of which one may tell the task of each row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.inference.call import Answer, Call, Matrix, Wish, invalid, misfit, widened

#: The column that tells the task of each row.
TASK: Final = "task"
_SHOWN: Final = 5


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
        """Give the number of values."""
        return self.n_rows * len(self.columns)

    def as_matrix(self, wish: Wish) -> Matrix:
        """Give the columns by the names that the model knows, else by their order."""
        chosen = positions_of(self.names, len(self.columns), wish)
        matrix = np.empty((self.n_rows, len(chosen)))
        for j, position in enumerate(chosen):
            values = widened(self.columns[position][:, np.newaxis], task=wish.task)[:, 0]
            matrix[:, j] = values
        return matrix


def positions_of(names: tuple[str, ...] | None, n_columns: int, wish: Wish) -> list[int]:
    """Give the columns of a table as the model takes them: by the names it knows, or in order."""
    known = None if names is None else wish.columns()
    if names is None or known is None or len(known) != wish.width:
        if n_columns != wish.width:
            misfit(f"{wish}, got a table of {n_columns} columns", task=wish.task)
        return list(range(wish.width))
    positions = {name: i for i, name in enumerate(names)}
    missing = [name for name in known if name not in positions]
    if missing:
        listed = ", ".join(f"'{name}'" for name in missing[:_SHOWN])
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        detail = f"{wish}, in columns of the names it was trained on; missing: {listed}{more}"
        misfit(detail, task=wish.task, column=missing[0])
    unknown = [name for name in names if name not in set(known)]
    if unknown:
        detail = f"{wish}; it was not trained on a column '{unknown[0]}', leave it out"
        misfit(detail, task=wish.task, column=unknown[0])
    return [positions[name] for name in known]


def call_of(rows: TableRows, tasks: list[str] | None, task: str | None) -> Call:
    """Give the call of a table: its tasks from its column, or one task from the query."""
    if tasks is not None and task is not None:
        invalid("query:task", "the table has a column 'task'; name the tasks there or in the query")
    if tasks is None and task is None:
        invalid("query:task", "name the task as ?task=..., or that of each row in a column 'task'")
    if rows.names is not None:
        twice = [name for name, n in Counter(rows.names).items() if n > 1]
        if twice:
            misfit(f"two columns are named '{twice[0]}'", column=twice[0])
    return Call(tasks if tasks is not None else str(task), rows)


def columns_of(answer: Answer) -> dict[str, NDArray[Any]]:
    """Give the columns of an answer, named by the classes where they are classes."""
    outputs = answer.outputs
    if outputs.ndim == 1:
        return {answer.method: outputs}
    names = [str(label) for label in answer.classes] or [str(j) for j in range(outputs.shape[1])]
    return {f"{answer.method}_{name}": outputs[:, j] for j, name in enumerate(names)}
