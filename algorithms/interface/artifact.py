"""The file format of models and checkpoints: safetensors with a JSON header, no executable code."""

import errno
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.files import replaced_file

HEADER_KEY = "sibling"
#: The number of an error of the system in a message of safetensors.
_OS_ERROR = re.compile(r"\(os error (\d+)\)")


def write_arrays(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    *,
    header: Mapping[str, Any],
    is_synced: bool = True,
) -> None:
    """Write arrays and a header to a file, which is replaced atomically.

    Parameters
    ----------
    is_synced
        As in :func:`~algorithms.interface.files.replaced_file`.

    Raises
    ------
    OSError
        The file cannot be written, for example because the disk is full.
    """
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    # ascontiguousarray makes scalars one-dimensional; the file keeps the true shape
    shaped = {name: a.reshape(np.shape(arrays[name])) for name, a in contiguous.items()}
    text = json.dumps(header, allow_nan=False, ensure_ascii=False, sort_keys=True)
    with replaced_file(path, is_synced=is_synced) as partial:
        try:
            save_file(shaped, partial, metadata={HEADER_KEY: text})
        except SafetensorError as error:
            number = _OS_ERROR.search(str(error))
            detail = f"'{path.name}' cannot be written: {error}"
            raise OSError(int(number[1]) if number else errno.EIO, detail) from error


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and the header of a file that :func:`write_arrays` wrote.

    Raises
    ------
    InvalidArtifact
        The file is truncated, or is not of this format.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})[HEADER_KEY])
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError) as error:
        raise InvalidArtifact(f"'{path.name}' is not a readable Sibling file: {error}") from error
    return arrays, header
