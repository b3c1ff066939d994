"""Tables of numbers with optional column names and an optional column of tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.preparation.columns import Column
from service.columns import check_unique, match_columns
from service.inference.call import (
    Call,
    InferenceResult,
    InputSpec,
    Matrix,
    choose_task,
    raise_invalid_data,
    raise_invalid_request,
    to_float64,
)
from service.inference.raw_values import encode_column

#: Name of the column with the task of each row.
TASK: Final = "task"


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table without its task column.

    Attributes
    ----------
    names
        Column names; None if the table has no header.
    columns
        Arrays of numbers, each (n_rows,), or lists of other values.
    decimal
        The decimal separator of cells of CSV; None if the lists contain values of other formats.
    types
        Names of the types of the columns, for messages, if the format has types.
    """

    names: tuple[str, ...] | None
    columns: Sequence[NDArray[Any] | list[Any]]
    n_rows: int
    decimal: str | None = None
    types: Sequence[str] = ()

    def n_values(self) -> int:
        """Return the number of values."""
        return self.n_rows * len(self.columns)

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows with columns in the order of the model."""
        chosen = positions_of(self.names, len(self.columns), spec)
        columns = [self.columns[position] for position in chosen]
        labels = [j if self.names is None else self.names[j] for j in chosen]
        kinds = spec.kinds or [Column(str(label)) for label in labels]
        matrix = np.empty((self.n_rows, len(chosen)))
        for j, (values, column) in enumerate(zip(columns, kinds, strict=True)):
            is_array = isinstance(values, np.ndarray)
            if isinstance(values, np.ndarray) and column.kind == "number":
                matrix[:, j] = to_float64(values[:, np.newaxis], task=spec.task, names=labels[j:])[
                    :, 0
                ]
            elif not is_array and column.kind == "number" and self.types:
                detail = f"column '{labels[j]}' has type {self.types[chosen[j]]}; expected numbers"
                raise_invalid_data(detail, task=spec.task, column=labels[j])
            else:
                matrix[:, j] = encode_column(
                    values.tolist() if isinstance(values, np.ndarray) else values,
                    column,
                    task=spec.task,
                    decimal=None if is_array else self.decimal,
                    label=labels[j],
                )
        return matrix


def positions_of(names: tuple[str, ...] | None, n_columns: int, spec: InputSpec) -> list[int]:
    """Return the positions of the columns of a table in the order of the model.

    Columns are matched by name if both the table and the training data have column names, else by
    position.

    Raises
    ------
    InvalidData
        A column is missing, unknown or duplicate.
    Problem
        Columns are matched by position, and their number is not that of the model.
    """
    known = None if names is None else spec.columns()
    if names is not None and known is not None:
        subject = f"{spec}, with the column names of the training data"
        return match_columns(names, known, subject=subject, task=spec.task, ignored=spec.ignored())
    if names is not None:
        check_unique(names, task=spec.task)
    if n_columns != spec.width:
        raise_invalid_data(f"{spec}, got a table of {n_columns} columns", task=spec.task)
    return list(range(spec.width))


def is_feature(task: str | None, *, has_numbers: bool) -> bool:
    """Return whether a column named 'task' is a column of the model.

    It is if it has numbers and the query has the task of all rows.
    """
    return task is not None and has_numbers


def call_of(rows: TableRows, tasks: list[str] | None, task: str | None) -> Call:
    """Return the call of a table, whose tasks are in a column or whose task is in the query."""
    chosen = choose_task(tasks, task)
    if chosen is None:
        raise_invalid_request(
            "query:task",
            "expected the query parameter 'task', or a column 'task' with the task of each row",
        )
    return Call(chosen, rows)


def columns_of(result: InferenceResult) -> dict[str, NDArray[Any]]:
    """Return the output columns of a result, named by class or by index."""
    outputs = result.outputs
    if outputs.ndim == 1:
        return {result.method: outputs}
    names = [str(label) for label in result.classes] or [str(j) for j in range(outputs.shape[1])]
    return {f"{result.method}_{name}": outputs[:, j] for j, name in enumerate(names)}
