"""An inference request of the protocol: a JSON header, and tensors in it or after it."""

import math
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.errors import Problem, json_pointer
from service.http import parse_json
from service.inference.call import (
    Body,
    Call,
    InputSpec,
    Matrix,
    Rows,
    raise_invalid_data,
    raise_invalid_request,
)
from service.inference.formats.numbers import (
    PLACEHOLDER,
    ExtractedArray,
    array_pattern,
    extract_number_array,
)
from service.inference.v2.datatypes import NUMBERS
from service.inference.v2.tensors import Tensor, Values, check_head, rows_of, texts_of

_DATA: Final = array_pattern("data")
#: Headers that are remembered with what they ask for, and their size: one with names is larger.
_MAX_CACHED_HEADERS: Final = 1024
_SMALL_BYTES: Final = 1024
#: Below, a float is the integer that is written.
_MAX_EXACT: Final = 2**53
ROWS: Final = "rows"
TASK: Final = "task"
_FIELDS: Final = frozenset({"id", "parameters", "inputs", "outputs"})
#: What KServe's client repeats from the address, and its place there, after the task.
_REPEATED: Final = {"model_name": 1, "model_version": 2}
_OUTPUT_FIELDS: Final = frozenset({"name", "parameters"})
#: Parameters that clients send of themselves; they change nothing here.
_IDLE: Final = frozenset({"priority", "timeout", "content_type", "headers"})
_OF_REQUEST: Final = _IDLE | {TASK, "binary_data_output"}
_OF_INPUT: Final = _IDLE | {"binary_data_size"}
_OF_OUTPUT: Final = _IDLE | {"binary_data"}
#: What other servers do with them, and this one does not.
_REFUSED: Final = {
    "classification": "ask for the output and take its largest values",
    "sequence_id": "models here have no state between calls",
    "sequence_start": "models here have no state between calls",
    "sequence_end": "models here have no state between calls",
    "shared_memory_region": "send the tensor in the body",
    "shared_memory_offset": "send the tensor in the body",
    "shared_memory_byte_size": "send the tensor in the body",
}


class RequestedOutput(NamedTuple):
    """An output that is requested."""

    name: str
    is_binary: bool


class InferRequest(NamedTuple):
    """Parsed header of an inference request.

    Attributes
    ----------
    outputs
        Requested outputs; all outputs if empty.
    is_binary
        Whether outputs are sent as binary tensors by default.
    tensors
        Inputs. Their ``data`` is a list, ``PLACEHOLDER`` if the list was extracted, or the number
        of bytes after the header.
    """

    id: str | None
    task: str | None
    outputs: list[RequestedOutput]
    is_binary: bool
    tensors: list[Tensor]


#: The task of the query, and the name and version in the address.
Named: TypeAlias = tuple[str | None, str | None, int | None]


class _RawRows(NamedTuple):
    """Float64 numbers and nothing else, row after row."""

    body: Body

    def n_values(self) -> int:
        """Return the number of values."""
        return len(self.body) // 8

    def as_matrix(self, spec: InputSpec) -> Matrix:
        size = 8 * spec.width
        if len(self.body) % size:
            detail = f"{spec}, {size} bytes of FP64 each; {len(self.body)} bytes came"
            raise_invalid_data(detail, task=spec.task)
        return np.frombuffer(self.body, np.dtype("<f8")).reshape(-1, spec.width)


def read_request(body: Body, header_length: str | None, named: Named) -> tuple[InferRequest, Call]:
    """Return what a body asks for, and the rows in it.

    Parameters
    ----------
    header_length
        ``Inference-Header-Content-Length``: bytes of JSON before the binary tensors; none: all of
        it is JSON; 0: all of it are the rows, as FP64.

    Raises
    ------
    Problem
        It is not as the protocol has it, or asks for what is not done here.
    """
    length = None if header_length is None else _length(header_length, len(body))
    if length == 0:
        task = named[0]
        if task is None:
            raise_invalid_request("query:task", "a raw binary request names its task as ?task=...")
        return InferRequest(None, task, [], is_binary=True, tensors=[]), Call(task, _RawRows(body))
    header = body if length is None else body[:length]
    tail = memoryview(body)[len(header) :]
    return _parse_fast(header, tail, named) or _parse_strict(bytes(header), tail, named)


def _parse_fast(header: Body, tail: memoryview, named: Named) -> tuple[InferRequest, Call] | None:
    """Read a header whose numbers are a plain list; None where it is to be looked at closely."""
    extracted = extract_number_array(header, _DATA)
    if extracted is None:
        return None
    try:
        request = _parse_header(extracted.rest, named)
    except Problem:
        return None
    for tensor in request.tensors:
        if tensor.data == PLACEHOLDER:
            numbers = _as_datatype(extracted, tensor)
            return None if numbers is None else (request, _call(request, tail, numbers))
    return None


def _parse_strict(header: bytes, tail: memoryview, named: Named) -> tuple[InferRequest, Call]:
    request = _parse_header(header, named)
    return request, _call(request, tail, None)


def _parse_header(header: bytes, named: Named) -> InferRequest:
    """Return what a header asks for; callers send the same one, but for the numbers."""
    return (
        _read_header_cached(header, named) if len(header) <= _SMALL_BYTES else _read(header, named)
    )


def _read(header: bytes, named: Named) -> InferRequest:
    document = parse_json(header)
    if not isinstance(document, dict):
        raise_invalid_request("", "an inference request is an object with 'inputs'")
    unknown = sorted(document.keys() - _FIELDS - _REPEATED.keys())
    if unknown:
        known = ", ".join(sorted(_FIELDS))
        raise_invalid_request(
            json_pointer(unknown[:1]), f"unknown field '{unknown[0]}'; known: {known}"
        )
    for name in _REPEATED.keys() & document.keys():
        said, given = document[name], named[_REPEATED[name]]
        if said is not None and given is not None and said != str(given):
            detail = f"{name} is {said!s:.100}, the address says {given}; leave it out"
            raise_invalid_request(f"/{name}", detail)
    parameters = _parameters(document.get("parameters", {}), "/parameters", _OF_REQUEST)
    tensors = _tensors(document.get("inputs"))
    task = parameters.get(TASK, named[0])
    if task is not None and not isinstance(task, str):
        raise_invalid_request("/parameters/task", "the task is named by a string")
    identity = document.get("id")
    if identity is not None and not isinstance(identity, str):
        raise_invalid_request("/id", "the id is a string")
    is_binary = _flag(parameters, "binary_data_output", "/parameters")
    outputs = _outputs(document.get("outputs", []), is_binary=is_binary)
    return InferRequest(identity, task, outputs, is_binary, tensors)


_read_header_cached = lru_cache(_MAX_CACHED_HEADERS)(_read)


def _length(text: str, n_bytes: int) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or int(text) > n_bytes:
        place = "header:Inference-Header-Content-Length"
        raise_invalid_request(place, f"it is '{text[:40]}', the body has {n_bytes} bytes")
    return int(text)


def _call(request: InferRequest, tail: memoryview, numbers: NDArray[Any] | None) -> Call:
    values = _values(request.tensors, tail, numbers)
    if ROWS not in values:
        raise_invalid_request("/inputs", f"the input '{ROWS}' is missing")
    rows: Rows = rows_of(*values[ROWS])
    if TASK not in values:
        if request.task is None:
            detail = f"name the task: a parameter '{TASK}', or an input '{TASK}' of BYTES"
            raise_invalid_request("/parameters/task", detail)
        return Call(request.task, rows)
    if request.task is not None:
        raise_invalid_request(
            "/parameters/task", f"both a parameter and an input '{TASK}' came; send one"
        )
    tasks = texts_of(*values[TASK])
    return Call(tasks[0] if len(tasks) == 1 else tasks, rows)


def _tensors(inputs: object) -> list[Tensor]:
    """Return the tensors, with their values as they stand in the header, or the size they have."""
    if not isinstance(inputs, list):
        raise_invalid_request("/inputs", "inputs are a list of tensors")
    tensors: dict[str, Tensor] = {}
    for i, entry in enumerate(inputs):
        pointer = f"/inputs/{i}"
        name, shape, datatype, parameters = check_head(entry, pointer)
        if name not in (ROWS, TASK):
            detail = f"there is no input '{name[:100]}'; send '{ROWS}', and '{TASK}' if you like"
            raise_invalid_request(f"{pointer}/name", detail)
        if name in tensors:
            raise_invalid_request(f"{pointer}/name", f"two inputs are named '{name}'")
        _parameters(parameters, f"{pointer}/parameters", _OF_INPUT)
        data, size = entry.get("data"), parameters.get("binary_data_size")
        if size is not None and data is not None:
            raise_invalid_request(pointer, f"input '{name}' has both data and binary_data_size")
        if size is not None and type(size) is not int:
            place = f"{pointer}/parameters/binary_data_size"
            raise_invalid_request(
                place, f"input '{name}' has binary_data_size {size!s:.40}, no number of bytes"
            )
        if size is None and not isinstance(data, list) and data != PLACEHOLDER:
            raise_invalid_request(
                f"{pointer}/data", f"input '{name}' needs data, a list, or binary_data_size"
            )
        values = data if size is None else size
        tensors[name] = Tensor(name, shape, math.prod(shape), datatype, values, pointer)
    return list(tensors.values())


def _values(
    tensors: list[Tensor], tail: memoryview, numbers: NDArray[Any] | None
) -> dict[str, tuple[Tensor, Values]]:
    """Return tensors and their values: in the header, behind it, or those cut out of it."""
    values: dict[str, tuple[Tensor, Values]] = {}
    for tensor in tensors:
        data: Any = tensor.data
        if isinstance(data, int):
            n_bytes = data
            if not 0 <= n_bytes <= len(tail):
                came = f"{n_bytes!s:.40}, {len(tail)} bytes are left"
                place = f"{tensor.pointer}/parameters/binary_data_size"
                raise_invalid_request(place, f"input '{tensor.name}' has binary_data_size {came}")
            data, tail = tail[:n_bytes], tail[n_bytes:]
        elif data == PLACEHOLDER:
            data = numbers
        values[tensor.name] = tensor, data
    if tail:
        _refuse(f"{len(tail)} bytes follow the last tensor")
    return values


def _outputs(outputs: object, *, is_binary: bool) -> list[RequestedOutput]:
    if not isinstance(outputs, list):
        raise_invalid_request("/outputs", "outputs are a list of {name}")
    wanted: list[RequestedOutput] = []
    for i, entry in enumerate(outputs):
        pointer = f"/outputs/{i}"
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise_invalid_request(pointer, "an output that is requested is an object with a name")
        unknown = sorted(entry.keys() - _OUTPUT_FIELDS)
        if unknown:
            raise_invalid_request(
                pointer, f"unknown field '{unknown[0]}' of an output; known: name, parameters"
            )
        if entry["name"] in {output.name for output in wanted}:
            raise_invalid_request(
                f"{pointer}/name", f"the output '{entry['name']}' is requested twice"
            )
        parameters = _parameters(entry.get("parameters", {}), f"{pointer}/parameters", _OF_OUTPUT)
        own = _flag(parameters, "binary_data", f"{pointer}/parameters", default=is_binary)
        wanted.append(RequestedOutput(entry["name"], own))
    return wanted


def _parameters(parameters: object, pointer: str, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(parameters, dict):
        raise_invalid_request(pointer, "parameters are an object")
    for name in parameters:
        if name not in known:
            why = _REFUSED.get(name, f"known: {', '.join(sorted(known))}")
            raise_invalid_request(
                pointer + json_pointer((name,)), f"the parameter '{name}' is not taken; {why}"
            )
    return parameters


def _flag(parameters: dict[str, Any], name: str, pointer: str, *, default: bool = False) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise_invalid_request(f"{pointer}/{name}", f"{name} is true or false")
    return value


def _as_datatype(extracted: ExtractedArray, tensor: Tensor) -> NDArray[Any] | None:
    """Return numbers as their tensor has them; None where that is to be looked at closely."""
    dtype, numbers = NUMBERS.get(tensor.datatype), extracted.numbers
    if dtype is None or (numbers.ndim == 2 and numbers.shape != tensor.shape):
        return None
    if dtype.kind == "f":
        return numbers.ravel()
    is_exact = extracted.is_integer and np.abs(numbers).max() < _MAX_EXACT
    return numbers.ravel().astype(np.int64) if is_exact else None


def _refuse(why: str) -> NoReturn:
    raise Problem("malformed-body", f"the body is no inference request: {why}")
