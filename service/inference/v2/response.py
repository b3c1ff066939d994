"""Inference responses of the protocol: a JSON header with tensors in it or after it."""

from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from service.inference.call import InferenceResult, raise_invalid_request
from service.inference.new_tasks import join_names
from service.inference.v2.datatypes import BYTES, datatype_of, to_bytes
from service.inference.v2.request import NEW_TASKS, InferRequest, RequestedOutput

CLASSES: Final = "classes"


def write_response(
    request: InferRequest, result: InferenceResult, model_name: str
) -> tuple[bytes, int | None]:
    """Return the body and the length of its JSON header, None if all of it is JSON."""
    tensors = {result.method: result.outputs}
    if result.classes:
        tensors[CLASSES] = np.array(result.classes)
    requested = request.outputs or [RequestedOutput(name, request.is_binary) for name in tensors]
    binary: list[bytes] = []
    outputs = []
    for i, (name, is_binary) in enumerate(requested):
        if name not in tensors:
            names = ", ".join(f"'{name}'" for name in tensors)
            detail = f"there is no output '{name[:100]}'; expected {names}"
            raise_invalid_request(f"/outputs/{i}/name", detail)
        outputs.append(_output(name, tensors[name], binary if is_binary else None))
    header: dict[str, Any] = {"model_name": model_name, "model_version": str(result.version)}
    if request.id is not None:
        header["id"] = request.id
    if result.new_tasks:
        header["parameters"] = {NEW_TASKS: join_names(result.new_tasks)}
    header["outputs"] = outputs
    body = orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    return (b"".join((body, *binary)), len(body)) if binary else (body, None)


def _output(name: str, array: NDArray[Any], binary: list[bytes] | None) -> dict[str, Any]:
    """Return an output as JSON; if ``binary`` is a list, append the values to it instead."""
    datatype = datatype_of(array)
    entry: dict[str, Any] = {"name": name, "datatype": datatype, "shape": array.shape}
    if binary is not None:
        binary.append(to_bytes(array))
        entry["parameters"] = {"binary_data_size": len(binary[-1])}
    elif datatype == BYTES:
        entry["data"] = [str(text) for text in array.ravel().tolist()]
    else:
        entry["data"] = array.ravel()
    return entry
