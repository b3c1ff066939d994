"""Reader and writer of stored datasets in blocks of rows.

For processes that read a dataset once: their memory does not grow with its size, while pages of a
mapped file would count towards their memory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from algorithms.interface.artifact import HEADER_KEY
from algorithms.interface.errors import InvalidArtifact
from service.datasets.canonical import DTYPES, FORMAT, HEADER_LENGTH_BYTES, read_header

_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
_ALIGNMENT: Final = 8
#: Targets, groups or weights read at a time.
_TARGET_BLOCK: Final = 2**16


@dataclass(frozen=True, slots=True)
class Layout:
    """Name, type and shape of an array in a dataset file."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class DatasetReader:
    """Reader of the tasks of a file, in blocks of rows."""

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self._path = path
        self._begin, self._specs = read_header(path)
        self._entries = {entry["name"]: entry for entry in manifest["tasks"]}

    def rows(self, task: str, n_rows: int) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of a task in blocks of ``n_rows``; blocks of sparse rows are sparse."""
        entry = self._entries[task]
        owner = entry.get("rows_of", task)
        if "n_stored" in entry:
            return self._sparse_blocks(owner, n_rows, width=entry["n_features"])
        return self._blocks(f"{owner}/X", n_rows)

    def parts(self, task: str) -> list[Layout]:
        """Return the layouts of the targets, groups and weights that a task has."""
        entry = self._entries[task]
        stored = {
            "y": entry["target"] != "none",
            "groups": entry.get("has_groups"),
            "sample_weight": entry.get("has_weights"),
        }
        names = [f"{task}/{part}" for part, has_part in stored.items() if has_part]
        specs = [self._specs[name] for name in names]
        return [
            Layout(name, DTYPES[spec["dtype"]], tuple(spec["shape"]))
            for name, spec in zip(names, specs, strict=True)
        ]

    def values(self, part: Layout) -> Iterator[NDArray[Any]]:
        """Yield the values of a part: numbers, or positions in the manifest's classes or groups."""
        return self._blocks(part.name, _TARGET_BLOCK)

    def targets(self, task: str) -> Iterator[NDArray[Any]]:
        """Yield the targets of a task that has them."""
        return self._blocks(f"{task}/y", _TARGET_BLOCK)

    def _blocks(self, name: str, n_rows: int) -> Iterator[NDArray[Any]]:
        spec = self._specs[name]
        total, *width = spec["shape"]
        dtype = DTYPES[spec["dtype"]]
        with self._path.open("rb") as file:
            file.seek(self._begin + spec["data_offsets"][0])
            for first in range(0, total, n_rows):
                shape = (min(n_rows, total - first), *width)
                values = np.fromfile(file, dtype, int(np.prod(shape)))
                if values.size != np.prod(shape):
                    raise InvalidArtifact(f"'{self._path.name}' ends in the middle of '{name}'")
                yield values.reshape(shape)

    def _sparse_blocks(self, owner: str, n_rows: int, *, width: int) -> Iterator[Any]:
        name = f"{owner}/X.indptr"
        (indptr,) = self._blocks(name, self._specs[name]["shape"][0])
        with self._path.open("rb") as file:
            for first in range(0, len(indptr) - 1, n_rows):
                ends = indptr[first : first + n_rows + 1]
                data, indices = (
                    self._range(file, f"{owner}/X.{part}", int(ends[0]), int(ends[-1]))
                    for part in ("data", "indices")
                )
                shape = (len(ends) - 1, width)
                yield csr_array((data, indices, ends - ends[0]), shape=shape)

    def _range(self, file: BinaryIO, name: str, first: int, end: int) -> NDArray[Any]:
        """Return the entries ``first`` to ``end`` of an array of one dimension."""
        spec = self._specs[name]
        dtype = DTYPES[spec["dtype"]]
        file.seek(self._begin + spec["data_offsets"][0] + first * dtype.itemsize)
        values = np.fromfile(file, dtype, end - first)
        if values.size != end - first:
            raise InvalidArtifact(f"'{self._path.name}' ends in the middle of '{name}'")
        return values


class DatasetWriter:
    """Writer of arrays, in the order of the given layouts."""

    def __init__(self, path: Path, arrays: Sequence[Layout]) -> None:
        header: dict[str, Any] = {"__metadata__": {HEADER_KEY: json.dumps({"format": FORMAT})}}
        end = 0
        for array in arrays:
            begin, end = end, end + int(np.prod(array.shape)) * array.dtype.itemsize
            header[array.name] = {
                "dtype": _NAMES[array.dtype],
                "shape": list(array.shape),
                "data_offsets": [begin, end],
            }
        text = json.dumps(header, ensure_ascii=False).encode()
        text += b" " * (-len(text) % _ALIGNMENT)
        self._file = path.open("wb")
        self._file.write(len(text).to_bytes(HEADER_LENGTH_BYTES, "little") + text)
        self._left = end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, values: NDArray[Any]) -> None:
        """Write the next rows."""
        self._left -= values.nbytes
        np.ascontiguousarray(values).tofile(self._file)

    def finish(self) -> None:
        """Raise ValueError unless all arrays have been written completely."""
        if self._left:
            raise ValueError(f"{self._left} bytes of the arrays have not been written")
