"""Names of arrays that wrappers add to a model file: paths such as ``calibration/folds/0/W``."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

from algorithms.interface.model import Model

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
#: Makes a model of its arrays and its header.
Load = Callable[[Arrays, Mapping[str, Any]], Model]


def inside(folder: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return arrays as they are named in a folder."""
    return {f"{folder}/{name}": array for name, array in arrays.items()}


def below(arrays: Arrays, folder: str) -> dict[str, NDArray[Any]]:
    """Return the arrays in a folder, named as seen from it."""
    start = f"{folder}/"
    return {n.removeprefix(start): a for n, a in arrays.items() if n.startswith(start)}


def outside(arrays: Arrays, folder: str) -> dict[str, NDArray[Any]]:
    """Return the arrays that are not in a folder."""
    return {name: array for name, array in arrays.items() if not name.startswith(f"{folder}/")}


def numbered(arrays: Arrays) -> dict[int, dict[str, NDArray[Any]]]:
    """Return the arrays of each folder whose name is a number."""
    folders: dict[int, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        number, _, field = name.partition("/")
        folders.setdefault(int(number), {})[field] = array
    return folders
