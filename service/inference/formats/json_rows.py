"""Rows of JSON bodies: lists of values, records, and arrays of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from algorithms.interface.errors import InvalidData
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import encode, find_decimal
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from service.inference.call import (
    InputSpec,
    Matrix,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.formats.table import positions_of, raise_invalid_values
from service.inference.task_column import TaskSource

#: Types of JSON numbers, and names of all JSON types for messages.
_NUMBERS: Final[frozenset[type]] = frozenset({int, float})
JSON_NAMES: Final[dict[type, str]] = {
    int: "a number",
    float: "a number",
    bool: "a boolean",
    str: "a string",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


def is_records(rows: Any) -> bool:
    """Return whether rows are JSON objects, at least one."""
    return isinstance(rows, list) and {*map(type, rows)} == {dict}


@dataclass(frozen=True, slots=True)
class ListRows:
    """Rows as JSON lists; every value is checked.

    Attributes
    ----------
    pointer
        JSON pointer to the rows in the body.
    flat_width
        Number of columns if the body has one flat list of values; else None.
    names
        Names of the columns of a table, in which numbers may be text as in uploads; None for an
        array of numbers.
    """

    rows: Any
    pointer: str
    flat_width: int | None = None
    names: tuple[str, ...] | None = None

    def n_values(self) -> int:
        """Return the number of values; the rows may still be invalid."""
        rows = self.rows if isinstance(self.rows, list) else []
        return sum(len(row) if isinstance(row, list | dict) else 1 for row in rows)

    def place(self, row: int, column: int) -> str:
        """Return the JSON pointer to a value."""
        if self.flat_width is not None:
            return f"{self.pointer}/{row * self.flat_width + column}"
        return f"{self.pointer}/{row}/{column}"

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows, with NaN for null if the method accepts missing values."""
        if not isinstance(self.rows, list):
            raise_invalid_request(
                self.pointer, f"{spec}; '{self.pointer[1:]}' is not a list of rows"
            )
        rows = self._of_records(spec) if is_records(self.rows) else self
        return rows.matrix_of_lists(spec)

    def matrix_of_lists(self, spec: InputSpec) -> Matrix:
        """Return the rows if each is a list, as :meth:`as_matrix` does."""
        for i, row in enumerate(self.rows):
            if not isinstance(row, list) or len(row) != spec.width:
                actual = (
                    f"has {len(row)}" if isinstance(row, list) else f"is {JSON_NAMES[type(row)]}"
                )
                place = f"{self.pointer}/{i}"
                raise_invalid_data(
                    f"{spec}; row {i} {actual}", task=spec.task, row=i, pointer=place
                )
        if spec.kinds is not None:
            return self._encode(spec.kinds, spec)
        # numpy would convert true to 1, and text and null to objects
        allowed = _NUMBERS | {type(None)} if spec.allow_missing else _NUMBERS
        types = set(map(type, chain.from_iterable(self.rows)))
        if types <= allowed:
            matrix = np.array(self.rows, dtype=np.float64).reshape(len(self.rows), spec.width)
            return matrix if self.names is None else spec.without_markers(matrix)
        if self.names is None or str not in types:
            self._refuse_first(spec, allowed)
        return self._encode(spec.columns_of(self.names), spec)

    def _encode(self, kinds: Sequence[Column], spec: InputSpec) -> Matrix:
        """Return the rows of a table with columns of some kinds."""
        matrix = np.empty((len(self.rows), len(kinds)))
        if self.rows:
            columns = [*zip(*self.rows, strict=True)]
            decimal = find_decimal(columns, kinds)
            for j, values in enumerate(columns):
                try:
                    matrix[:, j] = encode(values, kinds[j], decimal=decimal)
                except InvalidColumn as error:
                    raise_invalid_values(error, task=spec.task)
        return matrix

    def select(self, columns: list[int], names: tuple[str, ...]) -> "ListRows":
        """Return some of the columns; rows that are not of this length are an error later."""
        if not isinstance(self.rows, list):
            return self
        rows = [
            [row[j] for j in columns] if isinstance(row, list) and len(row) == len(names) else row
            for row in self.rows
        ]
        return ListRows(rows, self.pointer)

    def split(
        self, tasks: TaskSource, *, is_given: bool
    ) -> "tuple[ListRows, dict[str, list[Any]]]":
        """Return records without the columns of their tasks, and the values of these columns."""

        def has_numbers(name: str) -> bool:
            return all(type(record.get(name)) in _NUMBERS for record in self.rows)

        if not tasks.may_find(chain.from_iterable(self.rows)):
            return self, {}
        names = dict.fromkeys(chain.from_iterable(self.rows))
        task_columns = tasks.find(names, has_numbers, is_given=is_given)
        if not task_columns:
            return self, {}
        kept = [name for name in names if name not in task_columns]
        rows = [{name: record[name] for name in kept if name in record} for record in self.rows]
        columns = {name: [record.get(name) for record in self.rows] for name in task_columns}
        return ListRows(rows, self.pointer), columns

    def values_of(self, position: int, names: tuple[str, ...]) -> list[Any]:
        """Return the values of a column.

        Raises
        ------
        Problem
            A row does not have one value for each name.
        """
        rows = self.rows if isinstance(self.rows, list) else []
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != len(names):
                detail = f"row {i} has not one value for each of the {len(names)} columns"
                raise_invalid_data(detail, row=i, pointer=f"{self.pointer}/{i}")
        return [row[position] for row in rows]

    def _of_records(self, spec: InputSpec) -> "ListRows":
        """Return the rows of records, with columns in the order of the model."""
        names = spec.columns()
        if names is None:
            raise_invalid_data(
                f"{spec}; row 0 is an object, but the training data had no column names",
                task=spec.task,
                row=0,
                pointer=f"{self.pointer}/0",
            )
        # a column that only some records have is missing in the others, as in uploads
        given = dict.fromkeys(chain.from_iterable(self.rows))
        keys = names if given.keys() == {*names} else self._keys_of(list(given), spec)
        rows = [list(map(record.get, keys)) for record in self.rows]
        return ListRows(rows, self.pointer, names=names)

    def _keys_of(self, given: list[str], spec: InputSpec) -> list[str]:
        """Return the keys of records with the columns of the model, in its order."""
        try:
            chosen = positions_of(given, len(given), spec, optional=frozenset({""}))
        except InvalidData as error:
            has_column = [error.column in record for record in self.rows]
            row = has_column.index(True) if True in has_column else 0
            advice = "" if True in has_column else "; write null for a missing value"
            raise_invalid_data(
                f"{error.message}{advice}",
                task=spec.task,
                row=row,
                column=error.column,
                pointer=f"{self.pointer}/{row}",
            )
        return [given[position] for position in chosen]

    def _refuse_first(self, spec: InputSpec, allowed: frozenset[type]) -> NoReturn:
        row, column, value = next(
            (i, j, value)
            for i, values in enumerate(self.rows)
            for j, value in enumerate(values)
            if type(value) not in allowed
        )
        raise_invalid_data(
            f"{spec}; row {row}, column {column} is {JSON_NAMES[type(value)]}",
            task=spec.task,
            row=row,
            column=column,
            pointer=self.place(row, column),
        )


class NamedRows(NamedTuple):
    """Rows whose columns have names in the body."""

    rows: "ListRows | ParsedRows"
    names: tuple[str, ...]

    def split(
        self, tasks: TaskSource, *, is_given: bool
    ) -> "tuple[NamedRows, dict[str, list[Any]]]":
        """Return the rows without the columns of their tasks, and the values of these columns."""
        task_columns = tasks.find(self.names, self._has_numbers, is_given=is_given)
        if not task_columns:
            return self, {}
        values = {
            name: self.rows.values_of(self.names.index(name), self.names) for name in task_columns
        }
        kept = [j for j, name in enumerate(self.names) if name not in values]
        rows = self.rows.select(kept, self.names)
        return NamedRows(rows, tuple(self.names[j] for j in kept)), values

    def _has_numbers(self, name: str) -> bool:
        values = self.rows.values_of(self.names.index(name), self.names)
        return all(type(value) in _NUMBERS for value in values)

    def n_values(self) -> int:
        """Return the number of values; the rows may still be invalid."""
        return self.rows.n_values()

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows with columns in the order of the model."""
        chosen = positions_of(self.names, len(self.names), spec)
        used = sorted(chosen)
        place = {position: i for i, position in enumerate(used)}
        order = [place[position] for position in chosen]
        rows = self.rows if len(used) == len(self.names) else self.rows.select(used, self.names)
        if spec.kinds is not None:
            kind_at = dict(zip(chosen, spec.kinds, strict=True))
            spec = spec._replace(kinds=tuple(kind_at[position] for position in used))
        matrix = rows.as_matrix(spec)[:, order]
        return matrix if spec.kinds is not None else spec.without_markers(matrix)


class ParsedRows(NamedTuple):
    """Rows that the fast parser has read: lists of numbers, all of the same length."""

    array: Matrix
    pointer: str

    def n_values(self) -> int:
        """Return the number of values."""
        return self.array.size

    def values_of(self, position: int, names: tuple[str, ...]) -> list[Any]:
        """Return the values of a column; raise a problem if there is not one for each name."""
        if self.array.shape[1] != len(names):
            detail = f"row 0 has {self.array.shape[1]} values; expected {len(names)}, as 'columns'"
            raise_invalid_data(detail, row=0, pointer=f"{self.pointer}/0")
        return list(self.array[:, position].tolist())

    def select(self, columns: list[int], names: tuple[str, ...]) -> "ParsedRows":
        """Return some of the columns; other widths are an error later."""
        is_complete = self.array.shape[1] == len(names)
        return ParsedRows(self.array[:, columns], self.pointer) if is_complete else self

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows."""
        actual = self.array.shape[1]
        if actual != spec.width:
            place = f"{self.pointer}/0"
            raise_invalid_data(f"{spec}; row 0 has {actual}", task=spec.task, row=0, pointer=place)
        if spec.kinds is not None:
            return ListRows(self.array.tolist(), self.pointer).as_matrix(spec)
        return self.array
