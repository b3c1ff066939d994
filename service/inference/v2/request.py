"""Inference requests of the protocol: a JSON header with tensors in it or after it."""

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.new_tasks import NewTasks
from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from service.errors.problems import Problem
from service.errors.validation import json_pointer
from service.http.bodies import parse_json
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
from service.inference.task_column import TASK, GivenTasks, TaskSource, composed, task_names
from service.inference.v2.columns import ROWS, labels_of, rows_of_columns, task_inputs
from service.inference.v2.datatypes import NUMBERS
from service.inference.v2.tensors import Tensor, Values, check_metadata, rows_of

_DATA: Final = array_pattern("data")
#: Number and size of parsed headers that are cached. Headers with task names are usually larger.
_MAX_CACHED_HEADERS: Final = 1024
_MAX_CACHED_BYTES: Final = 1024
_FIELDS: Final = frozenset({"id", "parameters", "inputs", "outputs"})
#: Fields that the KServe client repeats from the URL, with their index in Names.
_REPEATED: Final = {"model_name": 1, "model_version": 2}
_OUTPUT_FIELDS: Final = frozenset({"name", "parameters"})
#: Parameter with the level of intervals and sets.
LEVEL: Final = "level"
#: Parameter with what to do about tasks that the model was not trained on.
NEW_TASKS: Final = "new_tasks"
#: Parameters that some clients always send; they have no effect.
_IGNORED: Final = frozenset({"priority", "timeout", "content_type", "headers"})
_OTHER_PARAMETERS: Final = _IGNORED | {LEVEL, NEW_TASKS, "binary_data_output"}
_REQUEST_PARAMETERS: Final = _OTHER_PARAMETERS | {TASK}
_INPUT_PARAMETERS: Final = _IGNORED | {"binary_data_size"}
_OUTPUT_PARAMETERS: Final = _IGNORED | {"binary_data"}
#: Advice for parameters that other servers support.
_UNSUPPORTED: Final = {
    "classification": "request the output and select its largest values",
    "sequence_id": "models here have no state between calls",
    "sequence_start": "models here have no state between calls",
    "sequence_end": "models here have no state between calls",
    "shared_memory_region": "send the tensor in the body",
    "shared_memory_offset": "send the tensor in the body",
    "shared_memory_byte_size": "send the tensor in the body",
}


class RequestedOutput(NamedTuple):
    """A requested output."""

    name: str
    is_binary: bool


class InferRequest(NamedTuple):
    """Parsed header of an inference request.

    Attributes
    ----------
    tasks
        Tasks in the parameters.
    outputs
        Requested outputs; all outputs if empty.
    is_binary
        Whether outputs are sent as binary tensors by default.
    tensors
        Inputs. Their ``data`` is a list, ``PLACEHOLDER`` if the list was extracted, or the number
        of bytes after the header.
    """

    id: str | None
    tasks: list[GivenTasks]
    outputs: list[RequestedOutput]
    is_binary: bool
    tensors: list[Tensor]
    level: float | None = None
    new_tasks: NewTasks | None = None


#: Task column of the model, and name and version in the path.
Names: TypeAlias = tuple[str, str | None, int | None]


class _RawRows(NamedTuple):
    """Binary float64 numbers, row by row, without a header."""

    body: Body

    def n_values(self) -> int:
        """Return the number of values."""
        return len(self.body) // 8

    def as_matrix(self, spec: InputSpec) -> Matrix:
        size = 8 * spec.width
        if len(self.body) % size:
            detail = f"{spec}, {size} bytes of FP64 each; got {len(self.body)} bytes"
            raise_invalid_data(detail, task=spec.task)
        return np.frombuffer(self.body, np.dtype("<f8")).reshape(-1, spec.width)


def read_request(
    body: Body, header_length: str | None, names: Names, tasks: TaskSource
) -> tuple[InferRequest, Call]:
    """Parse the body of an inference request.

    Parameters
    ----------
    header_length
        ``Inference-Header-Content-Length``: size of the JSON before the binary tensors. If None,
        the body is JSON. If 0, the body is only the rows as FP64.

    Raises
    ------
    Problem
        The request is invalid or unsupported.
    """
    length = None if header_length is None else _length(header_length, len(body))
    if length == 0:
        task = tasks.choose({})
        if task is None:
            raise_invalid_request(
                "query:task", "expected the query parameter 'task' in a raw binary request"
            )
        request = InferRequest(None, [], [], is_binary=True, tensors=[])
        return request, Call(task, _RawRows(body))
    header = body if length is None else body[:length]
    tail = memoryview(body)[len(header) :]
    return _parse_fast(header, tail, names, tasks) or _parse_strict(
        bytes(header), tail, names, tasks
    )


def _parse_fast(
    header: Body, tail: memoryview, names: Names, tasks: TaskSource
) -> tuple[InferRequest, Call] | None:
    """Parse a header without creating an object per number; None if that is not possible."""
    extracted = extract_number_array(header, _DATA)
    if extracted is None:
        return None
    try:
        request = _parse_header(extracted.rest, names)
    except Problem:
        return None
    for tensor in request.tensors:
        if tensor.data == PLACEHOLDER:
            numbers = _as_datatype(extracted, tensor)
            return None if numbers is None else (request, _call(request, tail, numbers, tasks))
    return None


def _parse_strict(
    header: bytes, tail: memoryview, names: Names, tasks: TaskSource
) -> tuple[InferRequest, Call]:
    request = _parse_header(header, names)
    return request, _call(request, tail, None, tasks)


def _parse_header(header: bytes, names: Names) -> InferRequest:
    """Parse a header. Small ones are cached: clients repeat them with other numbers."""
    return (
        _parse_header_cached(header, names)
        if len(header) <= _MAX_CACHED_BYTES
        else _parse_document(header, names)
    )


def _parse_document(header: bytes, names: Names) -> InferRequest:
    document = parse_json(header)
    if not isinstance(document, dict):
        raise_invalid_request("", "expected an object with 'inputs'")
    unknown = sorted(document.keys() - _FIELDS - _REPEATED.keys())
    if unknown:
        expected = ", ".join(sorted(_FIELDS))
        raise_invalid_request(
            json_pointer(unknown[:1]), f"unknown field '{unknown[0]}'; expected one of {expected}"
        )
    for name in _REPEATED.keys() & document.keys():
        in_body, in_url = document[name], names[_REPEATED[name]]
        if in_body is not None and in_url is not None and in_body != str(in_url):
            detail = f"{name} is {in_body!s:.100}, but {in_url} in the URL; omit it in the body"
            raise_invalid_request(f"/{name}", detail)
    allowed = _REQUEST_PARAMETERS | {names[0]}
    parameters = _parameters(document.get("parameters", {}), "/parameters", allowed)
    tensors = _tensors(document.get("inputs"))
    tasks = _tasks(parameters, names[0])
    identity = document.get("id")
    if identity is not None and not isinstance(identity, str):
        raise_invalid_request("/id", "expected a string as id")
    is_binary = _flag(parameters, "binary_data_output", "/parameters")
    outputs = _outputs(document.get("outputs", []), is_binary=is_binary)
    level, new_tasks = _level(parameters), _new_tasks(parameters)
    return InferRequest(identity, tasks, outputs, is_binary, tensors, level, new_tasks)


def _tasks(parameters: dict[str, Any], column: str) -> list[GivenTasks]:
    """Return the task in the parameters, under each of its names."""
    tasks = []
    for name in dict.fromkeys((TASK, column)):
        task = parameters.get(name)
        if task is None or name in _OTHER_PARAMETERS:
            continue
        pointer = "/parameters" + json_pointer((name,))
        if not isinstance(task, str):
            raise_invalid_request(pointer, f"expected a string as {name}")
        tasks.append(GivenTasks(composed(task), {"pointer": pointer}, f"the parameter '{name}'"))
    return tasks


def _level(parameters: dict[str, Any]) -> float | None:
    value = parameters.get(LEVEL)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise_invalid_request(f"/parameters/{LEVEL}", "expected a number between 0 and 1 as level")
    return float(value)


def _new_tasks(parameters: dict[str, Any]) -> NewTasks | None:
    value: NewTasks | None = parameters.get(NEW_TASKS)
    if value is not None and value not in get_args(NewTasks):
        expected = " or ".join(f"'{name}'" for name in get_args(NewTasks))
        raise_invalid_request(f"/parameters/{NEW_TASKS}", f"expected {expected} as new_tasks")
    return value


_parse_header_cached = lru_cache(_MAX_CACHED_HEADERS)(_parse_document)


def _length(text: str, n_bytes: int) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or int(text) > n_bytes:
        place = "header:Inference-Header-Content-Length"
        raise_invalid_request(
            place, f"'{text[:40]}' is not a size within the body of {n_bytes} bytes"
        )
    return int(text)


def _call(
    request: InferRequest, tail: memoryview, numbers: NDArray[Any] | None, tasks: TaskSource
) -> Call:
    values = _values(request.tensors, tail, numbers)
    own_rows = values.pop(ROWS, None)
    names = task_inputs(tasks) if values else ()
    own_tasks = {name: values.pop(name) for name in names if name in values}
    columns = list(values.values())
    rows: Rows
    if own_rows is not None:
        if columns:
            tensor = columns[0][0]
            detail = f"there is no input '{tensor.name[:100]}' beside '{ROWS}' and '{tasks.column}'"
            raise_invalid_request(f"{tensor.pointer}/name", detail)
        rows = rows_of(*own_rows)
    elif columns:
        rows = rows_of_columns(columns)
    else:
        detail = f"the input '{ROWS}' is missing, or an input for each column"
        raise_invalid_request("/inputs", detail)
    chosen: str | list[str] | None
    if not own_tasks and tasks.query is None and len(request.tasks) == 1:
        chosen = request.tasks[0].tasks
    else:
        chosen = _choose(request, own_tasks, tasks)
    if chosen is None:
        detail = f"expected a parameter '{TASK}', or an input '{tasks.column}' of datatype BYTES"
        raise_invalid_request("/parameters/task", detail)
    return Call(chosen, rows, request.level, request.new_tasks)


def _choose(
    request: InferRequest, own_tasks: dict[str, tuple[Tensor, Values]], tasks: TaskSource
) -> str | list[str] | None:
    """Return the tasks of the rows: in inputs, else in parameters, else in the query."""
    given_tasks = list(request.tasks)
    for name, (tensor, values) in own_tasks.items():
        names = task_names(labels_of(tensor, values), name)
        place = {"pointer": tensor.pointer}
        # a single name is the task of all rows
        given_tasks.append(
            GivenTasks(names[0] if len(names) == 1 else names, place, f"input '{name}'")
        )
    for earlier, other in pairwise(given_tasks):
        earlier.check(other)
    return tasks.choose({}, given_tasks[-1] if given_tasks else None)


def _tensors(inputs: object) -> list[Tensor]:
    """Return the validated inputs of a header."""
    if not isinstance(inputs, list):
        raise_invalid_request("/inputs", "expected a list of tensors as inputs")
    tensors: dict[str, Tensor] = {}
    for i, entry in enumerate(inputs):
        pointer = f"/inputs/{i}"
        name, shape, datatype, parameters = check_metadata(entry, pointer)
        if name in tensors:
            raise_invalid_request(f"{pointer}/name", f"two inputs are named '{name}'")
        _parameters(parameters, f"{pointer}/parameters", _INPUT_PARAMETERS)
        data, size = entry.get("data"), parameters.get("binary_data_size")
        if size is not None and data is not None:
            raise_invalid_request(pointer, f"input '{name}' has both data and binary_data_size")
        if isinstance(size, float) and size.is_integer():
            size = int(size)
        if size is not None and type(size) is not int:
            place = f"{pointer}/parameters/binary_data_size"
            raise_invalid_request(
                place, f"input '{name}' has binary_data_size {size!s:.40}; expected an integer"
            )
        if size is None and not isinstance(data, list) and data != PLACEHOLDER:
            raise_invalid_request(
                f"{pointer}/data", f"input '{name}' needs data (a list) or binary_data_size"
            )
        values = data if size is None else size
        tensors[name] = Tensor(name, shape, math.prod(shape), datatype, values, pointer)
    return list(tensors.values())


def _values(
    tensors: list[Tensor], tail: memoryview, numbers: NDArray[Any] | None
) -> dict[str, tuple[Tensor, Values]]:
    """Return each tensor with its values: JSON, bytes after the header, or the extracted array."""
    values: dict[str, tuple[Tensor, Values]] = {}
    for tensor in tensors:
        data: Any = tensor.data
        if isinstance(data, int):
            n_bytes = data
            if not 0 <= n_bytes <= len(tail):
                detail = f"{n_bytes!s:.40}, but {len(tail)} bytes are left"
                place = f"{tensor.pointer}/parameters/binary_data_size"
                raise_invalid_request(place, f"input '{tensor.name}' has binary_data_size {detail}")
            data, tail = tail[:n_bytes], tail[n_bytes:]
        elif data == PLACEHOLDER:
            data = numbers
        values[tensor.name] = tensor, data
    if tail:
        _raise_malformed(f"{len(tail)} bytes follow the last tensor")
    return values


def _outputs(outputs: object, *, is_binary: bool) -> list[RequestedOutput]:
    if not isinstance(outputs, list):
        raise_invalid_request("/outputs", "expected a list of objects with a name as outputs")
    requested: list[RequestedOutput] = []
    for i, entry in enumerate(outputs):
        pointer = f"/outputs/{i}"
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise_invalid_request(pointer, "expected an object with a name as requested output")
        unknown = sorted(entry.keys() - _OUTPUT_FIELDS)
        if unknown:
            raise_invalid_request(
                pointer, f"unknown field '{unknown[0]}' of an output; expected name or parameters"
            )
        if entry["name"] in {output.name for output in requested}:
            raise_invalid_request(
                f"{pointer}/name", f"the output '{entry['name']}' is requested twice"
            )
        parameters = _parameters(
            entry.get("parameters", {}), f"{pointer}/parameters", _OUTPUT_PARAMETERS
        )
        binary = _flag(parameters, "binary_data", f"{pointer}/parameters", default=is_binary)
        requested.append(RequestedOutput(entry["name"], binary))
    return requested


def _parameters(parameters: object, pointer: str, allowed: frozenset[str]) -> dict[str, Any]:
    if not isinstance(parameters, dict):
        raise_invalid_request(pointer, "expected an object as parameters")
    for name in parameters:
        if name not in allowed:
            advice = _UNSUPPORTED.get(name, f"expected one of {', '.join(sorted(allowed))}")
            raise_invalid_request(
                pointer + json_pointer((name,)), f"parameter '{name}' is not supported; {advice}"
            )
    return parameters


def _flag(parameters: dict[str, Any], name: str, pointer: str, *, default: bool = False) -> bool:
    value = parameters.get(name, default)
    if not isinstance(value, bool):
        raise_invalid_request(f"{pointer}/{name}", f"expected true or false as {name}")
    return value


def _as_datatype(extracted: ExtractedArray, tensor: Tensor) -> NDArray[Any] | None:
    """Return numbers in the datatype of a tensor; None if they need strict validation."""
    dtype, numbers = NUMBERS.get(tensor.datatype), extracted.numbers
    if dtype is None or (numbers.ndim == 2 and numbers.shape != tensor.shape):
        return None
    if dtype.kind == "f":
        return numbers.ravel()
    is_exact = extracted.is_integer and np.abs(numbers).max() < MAX_EXACT_INTEGER
    return numbers.ravel().astype(np.int64) if is_exact else None


def _raise_malformed(why: str) -> NoReturn:
    raise Problem("malformed-body", f"the body is not a valid inference request: {why}")
