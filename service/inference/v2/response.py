"""An inference response of the protocol: a JSON header, and tensors in it or after it."""

from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from service.inference.call import Answer, invalid
from service.inference.v2.datatypes import BYTES, datatype_of, to_bytes
from service.inference.v2.request import InferRequest, Wanted

CLASSES: Final = "classes"


def write_response(
    request: InferRequest, answer: Answer, model_name: str
) -> tuple[bytes, int | None]:
    """Give the body, and how much of it is JSON where that is not all of it."""
    tensors = {answer.method: answer.outputs}
    if answer.classes:
        tensors[CLASSES] = np.array(answer.classes)
    wanted = request.outputs or [Wanted(name, request.is_binary) for name in tensors]
    for i, output in enumerate(wanted):
        if output.name not in tensors:
            known = ", ".join(f"'{name}'" for name in tensors)
            detail = f"there is no output '{output.name[:100]}'; there is {known}"
            invalid(f"/outputs/{i}/name", detail)
    binary: list[bytes] = []
    header: dict[str, Any] = {"model_name": model_name, "model_version": str(answer.version)}
    if request.id is not None:
        header["id"] = request.id
    header["outputs"] = [_output(output, tensors[output.name], binary) for output in wanted]
    body = orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    if not any(output.is_binary for output in wanted):
        return body, None
    return b"".join((body, *binary)), len(body)


def _output(output: Wanted, array: NDArray[Any], binary: list[bytes]) -> dict[str, Any]:
    datatype = datatype_of(array)
    entry: dict[str, Any] = {
        "name": output.name,
        "datatype": datatype,
        "shape": list(array.shape),
    }
    if output.is_binary:
        binary.append(to_bytes(array))
        entry["parameters"] = {"binary_data_size": len(binary[-1])}
    elif datatype == BYTES:
        entry["data"] = [str(text) for text in array.ravel().tolist()]
    else:
        entry["data"] = np.ascontiguousarray(array).ravel()
    return entry
