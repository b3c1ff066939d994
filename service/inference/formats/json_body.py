"""JSON bodies.

The fast parser reads the numbers directly into an array. If it fails, the strict parser checks
every value and reports the first invalid one.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import orjson

from service.errors.problems import Problem
from service.errors.validation import json_pointer
from service.http.bodies import parse_json
from service.inference.call import (
    Body,
    Call,
    InferenceResult,
    InputSpec,
    Matrix,
    Rows,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.formats.numbers import PLACEHOLDER, array_pattern, extract_number_array
from service.inference.formats.table import positions_of
from service.inference.raw_values import encode_column
from service.inference.task_column import TASK, GivenTasks, TaskSource

_FIELDS: Final = frozenset({"task", "inputs", "columns"})
_INPUTS: Final = array_pattern("inputs")
_MAX_PROBLEMS: Final = 5
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


@dataclass(frozen=True, slots=True)
class ListRows:
    """Rows as JSON lists, every value of which is checked.

    Attributes
    ----------
    pointer
        JSON pointer to the rows in the body.
    flat_width
        Number of columns if the body has one flat list of values; else None.
    """

    rows: Any
    pointer: str
    flat_width: int | None = None

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
        if self.rows and all(isinstance(row, dict) for row in self.rows):
            return self._of_records(spec).as_matrix(spec)
        for i, row in enumerate(self.rows):
            if not isinstance(row, list) or len(row) != spec.width:
                actual = (
                    f"has {len(row)}" if isinstance(row, list) else f"is {JSON_NAMES[type(row)]}"
                )
                place = f"{self.pointer}/{i}"
                raise_invalid_data(
                    f"{spec}; row {i} {actual}", task=spec.task, row=i, pointer=place
                )
        if spec.kinds is not None and self.rows:
            columns = zip(*self.rows, strict=True)
            return np.column_stack(
                [
                    encode_column(values, kind, task=spec.task)
                    for values, kind in zip(columns, spec.kinds, strict=True)
                ]
            )
        # numpy would convert true to 1, and text and null to objects
        allowed = _NUMBERS | {type(None)} if spec.allow_missing else _NUMBERS
        if not set(map(type, chain.from_iterable(self.rows))) <= allowed:
            self._refuse_first(spec, allowed)
        return np.array(self.rows, dtype=np.float64).reshape(len(self.rows), spec.width)

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

        names = dict.fromkeys(chain.from_iterable(self.rows))
        found = tasks.find(names, has_numbers, is_given=is_given)
        if not found:
            return self, {}
        kept = [name for name in names if name not in found]
        rows = [{name: record[name] for name in kept if name in record} for record in self.rows]
        columns = {name: [record.get(name) for record in self.rows] for name in found}
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
        rows = []
        # what one record has, is missing in the others, as in uploads
        expected = {*names}
        common = expected.intersection(chain.from_iterable(self.rows))
        allowed = expected | spec.ignored()
        for i, record in enumerate(self.rows):
            if len(common) < len(names) or not record.keys() <= allowed:
                problems = [
                    f"the column '{name}' is missing" for name in names if name not in common
                ]
                advice = "; write null for a missing value" if problems else ""
                extra = [name for name in record if name not in allowed]
                problems += [f"there is no column '{name}'" for name in extra]
                raise_invalid_data(
                    f"{spec}, by name; row {i}: {'; '.join(problems[:_MAX_PROBLEMS])}{advice}",
                    task=spec.task,
                    row=i,
                    pointer=f"{self.pointer}/{i}",
                )
            rows.append([record.get(name) for name in names])
        return ListRows(rows, self.pointer)

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
        found = tasks.find(self.names, self._has_numbers, is_given=is_given)
        if not found:
            return self, {}
        values = {name: self.rows.values_of(self.names.index(name), self.names) for name in found}
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
        return rows.as_matrix(spec)[:, order]


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


def read_json(body: Body, tasks: TaskSource) -> Call:
    """Parse a body ``{"task": ..., "inputs": [[...], ...], "columns": [...]}``.

    The records of an upload, in a list or by task, are rows, too.
    """
    return _parse_fast(body, tasks) or _of_document(parse_json(body), tasks)


def read_json_lines(body: Body, tasks: TaskSource) -> Call:
    """Parse a body with one record on each line."""
    lines = [line for line in bytes(body).splitlines() if line.strip()]
    return _of_document([parse_json(line) for line in lines], tasks)


def write_json(result: InferenceResult) -> bytes:
    """Return the response body."""
    head: dict[str, Any] = {
        "model": result.name,
        "version": result.version,
        "task": result.task,
    }
    if result.classes and result.outputs.ndim == 2:
        head["classes"] = result.classes
    is_text = result.outputs.dtype.kind == "U"
    values = result.outputs.tolist() if is_text else np.ascontiguousarray(result.outputs)
    return orjson.dumps({**head, "outputs": values}, option=orjson.OPT_SERIALIZE_NUMPY)


def _parse_fast(body: Body, tasks: TaskSource) -> Call | None:
    """Parse a body without creating an object per number; None if that is not possible."""
    extracted = extract_number_array(body, _INPUTS)
    if extracted is None or extracted.numbers.ndim == 1:
        return None
    try:
        document = parse_json(extracted.rest)
    except Problem:
        return None
    if not isinstance(document, dict) or not document.keys() <= _FIELDS:
        return None
    in_body = document.get("task")
    if document.get("inputs") != PLACEHOLDER or not isinstance(in_body, str | None):
        return None
    rows, names = ParsedRows(extracted.numbers, "/inputs"), document.get("columns")
    if names is None and (in_body is None) != (tasks.query is None):
        return Call(in_body or tasks.query or "", rows)
    return _call(rows, names, None if in_body is None else _in_body(TASK, in_body), tasks)


def _of_document(value: Any, tasks: TaskSource) -> Call:
    """Return the call of a parsed body, every value of which is checked."""
    if isinstance(value, list):
        value = {"inputs": value}
    if not isinstance(value, dict):
        raise_invalid_request("", 'expected an object {"task": ..., "inputs": [[...]]}')
    if _is_by_task(value):
        value = {
            "inputs": [record for records in value.values() for record in records],
            "task": [task for task, records in value.items() for _ in records],
        }
    members = tasks.names({"inputs", "columns"})
    for name in sorted(value.keys() - _FIELDS - members.keys()):
        detail = f"unknown field '{name}'; expected task, inputs or columns"
        raise_invalid_request(json_pointer((name,)), detail)
    if "inputs" not in value:
        raise_invalid_request("/inputs", "the field 'inputs' is missing")
    given = [_in_body(name, value[name]) for name in members if value.get(name) is not None]
    for one in given[1:]:
        given[0].check(one)
    return _call(
        ListRows(value["inputs"], "/inputs"), value.get("columns"), next(iter(given), None), tasks
    )


def _is_by_task(value: dict[str, Any]) -> bool:
    """Return whether a document has lists of records by task, as an upload has."""
    return "inputs" not in value and bool(value) and all(map(_is_records, value.values()))


def _is_records(rows: Any) -> bool:
    return isinstance(rows, list) and bool(rows) and all(isinstance(row, dict) for row in rows)


def _in_body(name: str, tasks: Any) -> GivenTasks:
    """Return the tasks in a field of the body; raise a problem unless it is one, or a list."""
    if isinstance(tasks, list):
        for i, one in enumerate(tasks):
            if not isinstance(one, str):
                detail = f"task {i} is {JSON_NAMES[type(one)]}; expected a string"
                raise_invalid_request(json_pointer((name, i)), detail)
    elif not isinstance(tasks, str):
        detail = "expected a string, or a list with one string per row"
        raise_invalid_request(json_pointer((name,)), detail)
    return GivenTasks(tasks, {"pointer": json_pointer((name,))}, f"'{name}' of the body")


def _call(
    rows: "ListRows | ParsedRows", names: Any, in_body: GivenTasks | None, tasks: TaskSource
) -> Call:
    """Return the call, with the column names of the body if it has any.

    The task of each row may be in a column, or in the records.
    """
    named: Rows = rows
    columns: dict[str, list[Any]] = {}
    is_given = in_body is not None or tasks.query is not None
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise_invalid_request("/columns", "expected a list of column names, or null")
        named, columns = NamedRows(rows, tuple(names)).split(tasks, is_given=is_given)
    elif isinstance(rows, ListRows) and _is_records(rows.rows):
        named, columns = rows.split(tasks, is_given=is_given)
    chosen = tasks.choose(columns, in_body)
    if chosen is None:
        detail = "expected the field 'task', the query parameter 'task', or rows with a column"
        raise_invalid_request("/task", f"{detail} '{tasks.column}'")
    return Call(chosen, named)
