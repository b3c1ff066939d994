"""JSON bodies.

The fast parser reads the numbers directly into an array. If it fails, the strict parser checks
every value and reports the first invalid one.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import orjson

from algorithms.wrappers.preparation.column_matching import clean_name
from service.datasets.formats.json_records import has_lines
from service.datasets.formats.text_encoding import as_utf8
from service.errors.problems import Problem
from service.errors.validation import json_pointer
from service.http.bodies import parse_json
from service.inference.call import Body, Call, InferenceResult, Rows, raise_invalid_request
from service.inference.formats.json_rows import (
    JSON_NAMES,
    ListRows,
    NamedRows,
    ParsedRows,
    is_records,
)
from service.inference.formats.numbers import PLACEHOLDER, array_pattern, extract_number_array
from service.inference.task_column import TASK, GivenTasks, TaskSource, composed

#: First bytes of most bodies, whose encoding is not looked for.
_STARTS: Final = (b"{", b"[")
_FIELDS: Final = frozenset({"task", "inputs", "columns"})
_INPUTS: Final = array_pattern("inputs")


def read_json(body: Body, tasks: TaskSource) -> Call:
    """Parse a body ``{"task": ..., "inputs": [[...], ...], "columns": [...]}``.

    The records of an upload, in a list or by task, are rows, too.
    """
    if body[:1] not in _STARTS or body[1:2] == b"\0":
        body = as_utf8(body)
    return _parse_fast(body, tasks) or _of_document(_parse(body), tasks)


def read_json_lines(body: Body, tasks: TaskSource) -> Call:
    """Parse a body with one record on each line, or a list of records."""
    body = as_utf8(body)
    if body.lstrip()[:1] == b"[":
        return read_json(body, tasks)
    return _of_document(_parse_lines(body), tasks)


def _parse(body: Body) -> Any:
    """Return the value of a body; of one with a record on each line, the list of records."""
    try:
        return parse_json(body)
    except Problem:
        if not has_lines(body):
            raise
    return _parse_lines(body)


def _parse_lines(body: Body) -> list[Any]:
    return [parse_json(line) for line in bytes(body).splitlines() if line.strip()]


def write_json(result: InferenceResult) -> bytes:
    """Return the response body."""
    head: dict[str, Any] = {
        "model": result.name,
        "version": result.version,
        "task": result.task,
    }
    if result.classes and result.outputs.ndim == 2:
        head["classes"] = result.classes
    if result.new_tasks:
        head["new_tasks"] = result.new_tasks
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
        return Call(composed(in_body or tasks.query or ""), rows)
    return _call(rows, names, {} if in_body is None else {TASK: in_body}, tasks)


def _of_document(value: Any, tasks: TaskSource) -> Call:
    """Return the call of a parsed body after checking every value."""
    if isinstance(value, list):
        value = {"inputs": value}
    if not isinstance(value, dict):
        raise_invalid_request("", 'expected an object {"task": ..., "inputs": [[...]]}')
    if "inputs" not in value and _is_by_task(value):
        value = {
            "inputs": [record for records in value.values() for record in records],
            "task": [clean_name(task) for task, records in value.items() for _ in records],
        }
    members = [TASK]
    if not value.keys() <= _FIELDS:
        members = tasks.names({"inputs", "columns"})
        for name in sorted((value.keys() - _FIELDS).difference(members)):
            detail = f"unknown field '{name}'; expected task, inputs or columns"
            raise_invalid_request(json_pointer((name,)), detail)
    if "inputs" not in value:
        raise_invalid_request("/inputs", "the field 'inputs' is missing")
    body_tasks = {name: value[name] for name in members if value.get(name) is not None}
    return _call(ListRows(value["inputs"], "/inputs"), value.get("columns"), body_tasks, tasks)


def _is_by_task(value: dict[str, Any]) -> bool:
    """Return whether a document has lists of records by task, as an upload has."""
    return bool(value) and all(map(is_records, value.values()))


def _in_body(name: str, tasks: Any) -> GivenTasks:
    """Return the tasks in a field of the body: a string, or a list with one string per row."""
    if isinstance(tasks, list):
        for i, task in enumerate(tasks):
            if not isinstance(task, str):
                detail = f"task {i} is {JSON_NAMES[type(task)]}; expected a string"
                raise_invalid_request(json_pointer((name, i)), detail)
        tasks = [*map(composed, tasks)]
    elif isinstance(tasks, str):
        tasks = composed(tasks)
    else:
        detail = "expected a string, or a list with one string per row"
        raise_invalid_request(json_pointer((name,)), detail)
    return GivenTasks(tasks, {"pointer": json_pointer((name,))}, f"'{name}' of the body")


def _call(
    rows: ListRows | ParsedRows, names: Any, body_tasks: Mapping[str, Any], tasks: TaskSource
) -> Call:
    """Return the call, with the column names of the body if it has any.

    The task of each row may be in a column, or in the records.

    Parameters
    ----------
    given
        Tasks of the body, by the name of their field.
    """
    named: Rows = rows
    columns: dict[str, list[Any]] = {}
    is_given = bool(body_tasks) or tasks.query is not None
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise_invalid_request("/columns", "expected a list of column names, or null")
        named, columns = NamedRows(rows, tuple(names)).split(tasks, is_given=is_given)
    elif isinstance(rows, ListRows) and is_records(rows.rows):
        named, columns = rows.split(tasks, is_given=is_given)
    task = body_tasks.get(TASK)
    if isinstance(task, str) and len(body_tasks) == 1 and not columns and tasks.query is None:
        return Call(composed(task), named)  # most often: there is nothing to contradict it
    in_body = [_in_body(name, value) for name, value in body_tasks.items()]
    for other in in_body[1:]:
        in_body[0].check(other)
    chosen = tasks.choose(columns, in_body[0] if in_body else None)
    if chosen is None:
        detail = "expected the field 'task', the query parameter 'task', or rows with a column"
        raise_invalid_request("/task", f"{detail} '{tasks.column}'")
    return Call(chosen, named)
