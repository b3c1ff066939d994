"""Tables of numbers with optional column names and an optional column of tasks."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.wrappers.preparation.columns import Column
from service.datasets.column_matching import check_unique, match_columns
from service.inference.call import (
    Call,
    InferenceResult,
    InputSpec,
    Matrix,
    raise_invalid_data,
    raise_invalid_request,
    to_float64,
)
from service.inference.raw_values import encode_column, parse_number
from service.inference.task_column import TaskSource


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table without its task column.

    Attributes
    ----------
    names
        Column names; None if the table has no header.
    columns
        Arrays of numbers, each (n_rows,), or lists of other values; None for values of a type that
        no model takes.
    decimal
        The decimal separator of cells of CSV; None if the lists contain values of other formats.
    types
        Names of the types of the columns, for messages, if the format has types.
    optional
        Columns that are left out unless they are columns of the model: an index of pandas.
    """

    names: tuple[str, ...] | None
    columns: Sequence[NDArray[Any] | list[Any] | None]
    n_rows: int
    decimal: str | None = None
    types: Sequence[str] = ()
    optional: frozenset[str] = frozenset()

    def n_values(self) -> int:
        """Return the number of values."""
        return self.n_rows * len(self.columns)

    def without(self, left_out: Container[str]) -> "TableRows":
        """Return the rows without some columns."""
        names = self.names or ()
        is_kept = [name not in left_out for name in names]
        return TableRows(
            tuple(compress(names, is_kept)),
            [*compress(self.columns, is_kept)],
            self.n_rows,
            self.decimal,
            [*compress(self.types, is_kept)],
            self.optional,
        )

    def values_of(self, name: str) -> NDArray[Any] | list[Any] | None:
        """Return the values of a column."""
        return self.columns[(self.names or ()).index(name)]

    def has_numbers(self, name: str) -> bool:
        """Return whether all values of a column are numbers."""
        values = self.values_of(name)
        if self.decimal is None or values is None:
            return isinstance(values, np.ndarray)
        return all(parse_number(cell, self.decimal) is not None for cell in values)

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows with columns in the order of the model."""
        chosen = positions_of(self.names, len(self.columns), spec, optional=self.optional)
        columns = [self.columns[position] for position in chosen]
        labels = [j if self.names is None else self.names[j] for j in chosen]
        kinds = spec.kinds or [Column(str(label)) for label in labels]
        matrix = np.empty((self.n_rows, len(chosen)))
        for j, (values, column) in enumerate(zip(columns, kinds, strict=True)):
            is_array = isinstance(values, np.ndarray)
            if values is None:
                detail = f"column '{labels[j]}' has type {self.types[chosen[j]]}; expected numbers,"
                detail = f"{detail} text, booleans or dates"
                raise_invalid_data(detail, task=spec.task, column=labels[j])
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


def positions_of(
    names: tuple[str, ...] | None,
    n_columns: int,
    spec: InputSpec,
    *,
    optional: frozenset[str] = frozenset(),
) -> list[int]:
    """Return the positions of the columns of a table in the order of the model.

    Columns are matched by name if both the table and the training data have column names, else by
    position.

    Parameters
    ----------
    optional
        Columns that are left out unless they are columns of the model.

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
        ignored = spec.ignored() | optional
        return match_columns(names, known, subject=subject, task=spec.task, ignored=ignored)
    chosen = list(range(n_columns))
    if names is not None:
        check_unique(names, task=spec.task)
        chosen = [j for j in chosen if names[j] not in optional]
    if len(chosen) != spec.width:
        raise_invalid_data(f"{spec}, got a table of {len(chosen)} columns", task=spec.task)
    return chosen


def call_of(rows: TableRows, tasks: TaskSource) -> Call:
    """Return the call of a table, whose tasks are in a column or whose task is in the query.

    Raises
    ------
    Problem
        There is no task, or tasks contradict each other.
    """
    found = tasks.find(rows.names or (), rows.has_numbers, is_given=tasks.query is not None)
    chosen = tasks.choose({name: _listed(rows.values_of(name)) for name in found})
    if chosen is None:
        wanted = " or ".join(f"'{name}'" for name in tasks.names())
        raise_invalid_request(
            "query:task",
            f"expected a column {wanted} with the task of each row, or the query parameter 'task'",
        )
    return Call(chosen, rows.without(found) if found else rows)


def _listed(values: NDArray[Any] | list[Any] | None) -> list[Any]:
    """Return the values of a column; none of a type that has no names of tasks."""
    if values is None:
        return [None]
    return values.tolist() if isinstance(values, np.ndarray) else values


def columns_of(result: InferenceResult) -> dict[str, NDArray[Any]]:
    """Return the output columns of a result, named by class or by index."""
    outputs = result.outputs
    if outputs.ndim == 1:
        return {result.method: outputs}
    names = [str(label) for label in result.classes] or [str(j) for j in range(outputs.shape[1])]
    return {f"{result.method}_{name}": outputs[:, j] for j, name in enumerate(names)}
