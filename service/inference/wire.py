"""Rows on the wire: JSON and .npy, by Content-Type and Accept."""

import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson
from numpy.lib import format as npy
from numpy.typing import NDArray
from starlette.requests import Request

from service.errors import Problem
from service.http import parse_json

JSON: Final = "application/json"
NPY: Final = "application/x-npy"
_FIELDS: Final = frozenset({"task", "inputs"})


@dataclass(frozen=True, slots=True)
class Call:
    """What a caller wants computed."""

    task: str
    inputs: NDArray[Any]


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
            raise _missing("parameter", "query:task", "name the task as ?task=...")
        return Call(task, _read_npy(body))
    raise Problem(
        "unsupported-media-type", f"'{media_type}' is not read here; send {JSON} or {NPY}"
    )


def accepted_type(request: Request) -> str:
    """Give the format to answer in: the first of ours that the caller accepts."""
    accept = request.headers.get("accept", "*/*")
    wanted = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    for media_type in wanted:
        if media_type in (JSON, NPY):
            return media_type
        if media_type in ("*/*", "application/*"):
            return JSON
    raise Problem("not-acceptable", f"'{accept}' cannot be given; accept {JSON} or {NPY}")


def write_outputs(outputs: NDArray[Any], head: dict[str, Any], media_type: str) -> bytes:
    """Give the body of an answer."""
    if media_type == NPY:
        buffer = io.BytesIO()
        npy.write_array(buffer, outputs, allow_pickle=False)
        return buffer.getvalue()
    body = {**head, "outputs": np.ascontiguousarray(outputs)}
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _read_json(body: bytes) -> Call:
    value = parse_json(body)
    if not isinstance(value, dict):
        raise _missing("pointer", "", 'expected an object {"task": ..., "inputs": [[...]]}')
    for name in value.keys() - _FIELDS:
        raise _missing("pointer", f"/{name}", f"unknown field '{name}'; known: task, inputs")
    for name in sorted(_FIELDS - value.keys()):
        raise _missing("pointer", f"/{name}", f"the field '{name}' is missing")
    if not isinstance(value["task"], str):
        raise _missing("pointer", "/task", "the task is named by a string")
    # numpy would take true for 1 among numbers
    may_hold_booleans = b"true" in body or b"false" in body
    return Call(value["task"], _as_matrix(value["inputs"], may_hold_booleans=may_hold_booleans))


def _as_matrix(rows: Any, *, may_hold_booleans: bool) -> NDArray[Any]:
    """Give nested lists of numbers as an array, or say which row is not one."""
    if not isinstance(rows, list):
        raise _missing("pointer", "/inputs", "expected a list of rows, each a list of numbers")
    width = len(rows[0]) if rows and isinstance(rows[0], list) else 0
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width:
            got = f"{len(row)} values" if isinstance(row, list) else type(row).__name__
            detail = f"row {i} has {got}, row 0 has {width} values; every row needs the same"
            raise _missing("pointer", f"/inputs/{i}", detail)
    try:
        array = np.asarray(rows)
    except (ValueError, OverflowError):
        array = np.asarray(rows, dtype=object)
    has_booleans = may_hold_booleans and any(type(v) is bool for row in rows for v in row)
    if array.dtype.kind not in "fiu" or has_booleans:
        raise _not_a_number(rows)
    return array.reshape(len(rows), width)


def _not_a_number(rows: list[list[Any]]) -> Problem:
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if type(value) not in (int, float):
                detail = f"row {i}, column {j} is {type(value).__name__}; expected a number"
                return _missing("pointer", f"/inputs/{i}/{j}", detail)
    return _missing("pointer", "/inputs", "expected rows of numbers that fit 64 bits")


def _read_npy(body: bytes) -> NDArray[Any]:
    buffer = io.BytesIO(body)
    try:
        array = npy.read_array(buffer, allow_pickle=False)
    except (ValueError, EOFError, OSError, SyntaxError, TypeError, MemoryError) as error:
        raise Problem("malformed-body", f"the body is not a readable .npy array: {error}") from None
    if buffer.read(1):
        raise Problem("malformed-body", "the .npy array is followed by more bytes")
    array_: NDArray[Any] = array
    return array_


def _missing(kind: str, place: str, detail: str) -> Problem:
    return Problem(
        "invalid-request", detail, errors=[{kind: place, "code": "invalid", "detail": detail}]
    )
