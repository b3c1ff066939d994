"""Tables of numbers with optional column names and an optional column of tasks."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, takewhile
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from algorithms.wrappers.preparation.column_matching import check_unique, match_columns
from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, Column
from algorithms.wrappers.preparation.encoder import encode, find_decimal, is_text, kind_of_type
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from algorithms.wrappers.preparation.text_values import is_number_cell
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_numbers import with_decimal
from service.datasets.formats.nameless import is_index, name_index
from service.inference.call import (
    Call,
    InferenceResult,
    InputSpec,
    Matrix,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.task_column import TaskSource

#: Values of a column: of Arrow, an array of numbers, or objects.
ColumnValues: TypeAlias = pa.ChunkedArray | NDArray[Any] | Sequence[Any]


def listed(values: ColumnValues) -> list[Any]:
    """Return the values of a column as a list."""
    if isinstance(values, pa.ChunkedArray):
        return list(values.to_pylist())
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table without its task column.

    Attributes
    ----------
    names
        Column names; None if the table has no header.
    columns
        The values of each column, as :func:`~algorithms.wrappers.preparation.encoder.encode` takes
        them.
    delimiter
        What divides the cells of CSV; None for other formats.
    decimal
        The decimal separator that the rows show; None if they show none.
    optional
        Columns that are left out unless they are columns of the model: an index of pandas.
    percents
        Which numbers are shown as percentages, 0.12 as 12 %, of the columns in which any is.
    """

    names: tuple[str, ...] | None
    columns: Sequence[ColumnValues]
    n_rows: int
    delimiter: str | None = None
    decimal: str | None = None
    optional: frozenset[str] = frozenset()
    percents: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def is_csv(self) -> bool:
        """Whether the values are cells of CSV."""
        return self.delimiter is not None

    def n_values(self) -> int:
        """Return the number of values."""
        return self.n_rows * len(self.columns)

    def without(self, left_out: Container[str]) -> "TableRows":
        """Return the rows without some columns."""
        names = self.names or ()
        is_kept = [name not in left_out for name in names]
        columns = [*compress(self.columns, is_kept)]
        return replace(self, names=tuple(compress(names, is_kept)), columns=columns)

    def with_empty(self, names: Sequence[str]) -> "TableRows":
        """Return the rows with further columns without a value."""
        empty = [["" if self.is_csv else None] * self.n_rows for _ in names]
        columns = [*self.columns, *empty]
        return replace(self, names=(*(self.names or ()), *names), columns=columns)

    def take(self, places: Sequence[int]) -> "TableRows":
        """Return some of the rows."""
        columns = [
            column.take(pa.array(places, pa.int64()))
            if isinstance(column, pa.ChunkedArray)
            else [column[i] for i in places]
            for column in self.columns
        ]
        percents = {name: shown[[*places]] for name, shown in self.percents.items()}
        return replace(self, columns=columns, n_rows=len(places), percents=percents)

    def values_of(self, name: str) -> ColumnValues:
        """Return the values of a column."""
        return self.columns[(self.names or ()).index(name)]

    def has_numbers(self, name: str) -> bool:
        """Return whether all values of a column are numbers."""
        values = self.values_of(name)
        if isinstance(values, pa.ChunkedArray):
            return kind_of_type(values.type) == "number"
        if not self.is_csv:
            return isinstance(values, np.ndarray)
        writing = with_decimal(PLAIN_NUMBERS, self.decimal or ".")
        return all(is_number_cell(cell, writing) for cell in values)

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows with columns in the order of the model."""
        chosen = positions_of(self.names, len(self.columns), spec, optional=self.optional)
        labels = [j if self.names is None else self.names[j] for j in chosen]
        matrix = np.empty((self.n_rows, len(chosen)))
        wanted = spec.columns_of(labels)
        decimal = self.decimal
        if not self.is_csv:
            decimal = find_decimal([self.columns[j] for j in chosen], wanted)
        for j, column in enumerate(wanted):
            try:
                matrix[:, j] = self._encode(chosen[j], labels[j], column, decimal)
            except InvalidColumn as error:
                raise_invalid_values(error, task=spec.task)
        return matrix

    def encoded(self, wanted: Mapping[str, Column]) -> list[NDArray[np.float64]]:
        """Return columns as numbers that are known to be valid."""
        names = self.names or ()
        decimal = self.decimal
        if not self.is_csv:
            decimal = find_decimal([self.values_of(name) for name in wanted], [*wanted.values()])
        return [
            self._encode(names.index(name), name, column, decimal)
            for name, column in wanted.items()
        ]

    def _encode(
        self, position: int, label: str | int, column: Column, decimal: str | None
    ) -> NDArray[np.float64]:
        values = encode(self.columns[position], column, decimal=decimal)
        shown = self.percents.get(str(label)) if column.numbers.unit == "%" else None
        # the training table has 12 % as 12
        return values if shown is None else np.where(shown, values * 100, values)


def raise_invalid_values(error: InvalidColumn, *, task: str) -> NoReturn:
    """Raise a problem with the place of a value that does not fit its column."""
    raise_invalid_data(error.message, task=task, row=error.row, column=error.column)


def positions_of(
    names: Sequence[str] | None,
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
        Columns that are left out unless they are columns of the model, beside an index without a
        name.

    Raises
    ------
    InvalidData
        A column is missing, unknown or duplicate.
    Problem
        Columns are matched by position, and their number differs from the number in the model.
    """
    if names is not None:
        names = name_index(names)
        optional = optional.union(takewhile(is_index, names))
    expected = None if names is None else spec.columns()
    if names is not None and expected is not None:
        subject = f"{spec}, with the column names of the training data"
        ignored = spec.ignored() | optional
        return match_columns(names, expected, subject=subject, task=spec.task, ignored=ignored)
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
    task_columns = tasks.find(rows.names or (), rows.has_numbers, is_given=tasks.query is not None)
    chosen = tasks.choose({name: _listed(rows.values_of(name)) for name in task_columns})
    if chosen is None:
        names = " or ".join(f"'{name}'" for name in tasks.names())
        raise_invalid_request(
            "query:task",
            f"expected a column {names} with the task of each row, or the query parameter 'task'",
        )
    return Call(chosen, rows.without(task_columns) if task_columns else rows)


def _listed(values: ColumnValues) -> Sequence[Any]:
    """Return the values of a column of tasks; None for values that cannot be names of tasks.

    Equal texts are the same object.
    """
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    if not isinstance(values, pa.ChunkedArray):
        return values
    if is_text(values.type):
        texts = Texts.of(values, "")
        return list(np.array(texts.levels.to_pylist(), object)[texts.positions])
    is_number = kind_of_type(values.type) == "number"
    return list(values.to_pylist()) if is_number else [None] * len(values)


def columns_of(result: InferenceResult) -> dict[str, NDArray[Any]]:
    """Return the output columns of a result, named by class or by index."""
    outputs = result.outputs
    if outputs.ndim == 1:
        return {result.method: outputs}
    names = [str(label) for label in result.classes] or [str(j) for j in range(outputs.shape[1])]
    return {f"{result.method}_{name}": outputs[:, j] for j, name in enumerate(names)}
