"""JSON bodies.

The fast parser reads the numbers directly into an array. If it fails, the strict parser checks
every value and reports the first invalid one.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import orjson

from service.errors import Problem
from service.http.bodies import parse_json
from service.inference.call import (
    Body,
    Call,
    InferenceResult,
    InputSpec,
    Matrix,
    choose_task,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.formats.numbers import PLACEHOLDER, array_pattern, extract_number_array
from service.inference.formats.table import positions_of
from service.inference.raw_values import encode_column
from service.validation_errors import json_pointer

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
        expected = {*names}
        allowed = expected | spec.ignored()
        for i, record in enumerate(self.rows):
            if record.keys() != expected and not expected <= record.keys() <= allowed:
                problems = [
                    f"the column '{name}' is missing" for name in names if name not in record
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
            rows.append([record[name] for name in names])
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


def read_json(body: Body, task: str | None) -> Call:
    """Parse a body ``{"task": ..., "inputs": [[...], ...], "columns": [...]}``.

    Parameters
    ----------
    task
        Task in the query, for a body without one.
    """
    return _parse_fast(body, task) or _parse_strict(body, task)


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


def _parse_fast(body: Body, in_query: str | None) -> Call | None:
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
    task = choose_task(in_body, in_query)
    rows = ParsedRows(extracted.numbers, "/inputs")
    return None if task is None else _with_column_names(task, rows, document)


def _parse_strict(body: Body, in_query: str | None) -> Call:
    value = parse_json(body)
    if not isinstance(value, dict):
        raise_invalid_request("", 'expected an object {"task": ..., "inputs": [[...]]}')
    for name in sorted(value.keys() - _FIELDS):
        detail = f"unknown field '{name}'; expected task, inputs or columns"
        raise_invalid_request(json_pointer((name,)), detail)
    if "inputs" not in value:
        raise_invalid_request("/inputs", "the field 'inputs' is missing")
    in_body = value.get("task")
    if isinstance(in_body, list):
        for i, one in enumerate(in_body):
            if not isinstance(one, str):
                raise_invalid_request(
                    f"/task/{i}", f"task {i} is {JSON_NAMES[type(one)]}; expected a string"
                )
    elif not isinstance(in_body, str | None):
        raise_invalid_request("/task", "expected a string, or a list with one string per row")
    task = choose_task(in_body, in_query)
    if task is None:
        raise_invalid_request("/task", "expected the field 'task', or the query parameter 'task'")
    return _with_column_names(task, ListRows(value["inputs"], "/inputs"), value)


def _with_column_names(
    task: str | list[str], rows: "ListRows | ParsedRows", document: dict[str, Any]
) -> Call:
    """Return the call with the column names of the body, if it has any."""
    names = document.get("columns")
    if names is None:
        return Call(task, rows)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise_invalid_request("/columns", "expected a list of column names, or null")
    return Call(task, NamedRows(rows, tuple(names)))
