"""Rows on the wire: JSON and .npy, by Content-Type and Accept."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.requests import Request

from service.errors import Problem, json_pointer
from service.http import JSON, parse_json
from service.inference.npy import read_npy, write_npy

NPY: Final = "application/x-npy"
_FIELDS: Final = frozenset({"task", "inputs"})
#: Types of JSON values that are numbers, and words for all types.
_NUMBERS: Final[frozenset[type]] = frozenset({int, float})
_JSON_NAMES: Final = {
    int: "a number",
    float: "a number",
    bool: "a boolean",
    str: "a string",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Call:
    """What a caller wants computed; the rows are checked where their width is known."""

    task: str
    rows: Any


def read_call(request: Request, body: bytes) -> Call:
    """Give the call in a request.

    Raises
    ------
    Problem
        The format is not read here, or the body is not of its format.
    """
    media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type == JSON:
        return _read_json(body)
    if media_type == NPY:
        task = request.query_params.get("task")
        if task is None:
            raise _invalid("parameter", "query:task", "name the task as ?task=...")
        return Call(task, read_npy(body))
    raise Problem(
        "unsupported-media-type", f"'{media_type}' is not read here; send {JSON} or {NPY}"
    )


def as_matrix(call: Call, *, method: str, width: int, is_missing_taken: bool) -> NDArray[Any]:
    """Give the rows of a call as an array of numbers of this width, or say what is not so.

    Where missing values are taken, null in JSON is one, as NaN is in an array.
    """
    wish = f"task '{call.task}' expects rows of {width} numbers for {method}"
    if isinstance(call.rows, np.ndarray):
        return _checked(call.rows, width, wish, call.task)
    if not isinstance(call.rows, list):
        raise _invalid("pointer", "/inputs", f"{wish}; inputs is no list of rows")
    for i, row in enumerate(call.rows):
        if not isinstance(row, list) or len(row) != width:
            came = f"has {len(row)}" if isinstance(row, list) else f"is {_JSON_NAMES[type(row)]}"
            raise _misfit(f"{wish}; row {i} {came}", call.task, i, f"/inputs/{i}")
    # numpy would take true for 1, and text and null for objects
    allowed = _NUMBERS | {type(None)} if is_missing_taken else _NUMBERS
    if not set(map(type, chain.from_iterable(call.rows))) <= allowed:
        raise _not_a_number(call, wish, allowed)
    return np.array(call.rows, dtype=np.float64).reshape(len(call.rows), width)


def accepted_type(request: Request) -> str:
    """Give the format to answer in: of those the caller accepts, the most wanted of ours."""
    accept = ",".join(request.headers.getlist("accept")) or "*/*"
    wanted = sorted(_ranges(accept), key=lambda item: -item[1])
    refused = {media_range for media_range, weight in wanted if weight <= 0}
    for media_range, weight in wanted:
        for media_type in (JSON, NPY):
            if weight > 0 and media_type not in refused and _covers(media_range, media_type):
                return media_type
    raise Problem("not-acceptable", f"'{accept}' cannot be given; accept {JSON} or {NPY}")


def write_outputs(outputs: NDArray[Any], head: dict[str, Any], media_type: str) -> bytes:
    """Give the body of an answer."""
    if media_type == NPY:
        return write_npy(outputs)
    is_text = outputs.dtype.kind == "U"
    values = outputs.tolist() if is_text else np.ascontiguousarray(outputs)
    return orjson.dumps({**head, "outputs": values}, option=orjson.OPT_SERIALIZE_NUMPY)


def _read_json(body: bytes) -> Call:
    value = parse_json(body)
    if not isinstance(value, dict):
        raise _invalid("pointer", "", 'expected an object {"task": ..., "inputs": [[...]]}')
    for name in sorted(value.keys() - _FIELDS):
        raise _invalid(
            "pointer", json_pointer((name,)), f"unknown field '{name}'; known: task, inputs"
        )
    for name in sorted(_FIELDS - value.keys()):
        raise _invalid("pointer", json_pointer((name,)), f"the field '{name}' is missing")
    if not isinstance(value["task"], str):
        raise _invalid("pointer", "/task", "the task is named by a string")
    return Call(value["task"], value["inputs"])


def _checked(array: NDArray[Any], width: int, wish: str, task: str) -> NDArray[Any]:
    if array.ndim != 2 or array.shape[1] != width:
        raise _misfit(f"{wish}, got an array of shape {array.shape}", task)
    return array


def _ranges(accept: str) -> Iterator[tuple[str, float]]:
    """Give the media ranges of an Accept header with their weights."""
    for part in accept.split(","):
        media_range, *params = (text.strip().lower() for text in part.split(";"))
        weight = next((p[2:] for p in params if p.startswith("q=")), "1")
        try:
            yield media_range, float(weight)
        except ValueError:
            yield media_range, 1.0


def _covers(media_range: str, media_type: str) -> bool:
    return media_range in ("*/*", "application/*", media_type)


def _not_a_number(call: Call, wish: str, allowed: frozenset[type]) -> Problem:
    row, column, value = next(
        (i, j, value)
        for i, values in enumerate(call.rows)
        for j, value in enumerate(values)
        if type(value) not in allowed
    )
    detail = f"{wish}; row {row}, column {column} is {_JSON_NAMES[type(value)]}"
    return _misfit(detail, call.task, row, f"/inputs/{row}/{column}")


def _misfit(detail: str, task: str, row: int | None = None, pointer: str | None = None) -> Problem:
    place = {"task": task, "row": row, "pointer": pointer}
    entry = {name: value for name, value in place.items() if value is not None}
    entry |= {"code": "invalid-data", "detail": detail}
    return Problem("invalid-data", detail, errors=[entry])


def _invalid(kind: str, place: str, detail: str) -> Problem:
    return Problem(
        "invalid-request", detail, errors=[{kind: place, "code": "invalid", "detail": detail}]
    )
