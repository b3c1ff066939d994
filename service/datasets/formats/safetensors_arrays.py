"""Parser of safetensors: arrays named as in .npz."""

import json
import math
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open

from service.datasets.formats.array_names import ChosenArrays
from service.datasets.formats.npz_arrays import parts_of
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.issues import reject

#: Number of tensors of a task: ``X`` or the four parts of a sparse one, ``y``, ``C``, ``groups``,
#: ``sample_weight``.
_MAX_ARRAYS_PER_TASK: Final = 8


def read_parts(path: Path, options: ReadOptions, limits: Limits) -> ChosenArrays:
    """Return the arrays of a safetensors file by task and part.

    Names of columns are JSON lists in the metadata, by the name that the array has in .npz:
    ``feature_names`` or ``<task>/feature_names``.
    """
    arrays: dict[str, Any] = {}
    try:
        with safe_open(path, framework="numpy") as file:
            names = list(file.keys())
            _check_size(file, names, limits)
            for name in names:
                arrays[name] = file.get_tensor(name)
            metadata = file.metadata() or {}
    except (SafetensorError, TypeError, ValueError, KeyError, AttributeError) as error:
        reject("corrupt-file", f"the file is not readable as safetensors: {error}")
    for name, text in metadata.items():
        if name.rpartition("/")[2] == "feature_names":
            arrays[name] = _column_names(name, text)
    return parts_of(arrays, options, limits)


def _check_size(file: Any, names: list[str], limits: Limits) -> None:
    if len(names) > _MAX_ARRAYS_PER_TASK * limits.tasks:
        detail = f"{len(names)} arrays exceed the limit of {limits.tasks} tasks"
        reject("too-many-tasks", detail)
    n_bytes = sum(8 * math.prod(file.get_slice(name).get_shape()) for name in names)
    if n_bytes > limits.decompressed_bytes:
        detail = f"the arrays have {n_bytes} bytes as 64-bit floats, more than the limit of"
        reject("decompression-limit", f"{detail} {limits.decompressed_bytes}")


def _column_names(name: str, text: str) -> Any:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(item, str) for item in names):
        reject("wrong-shape", f"'{name}' in the metadata is not a JSON list of texts")
    return np.array(names, dtype=str)
