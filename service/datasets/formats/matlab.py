"""Parser of MATLAB files, versions 5 and 7.3: cell arrays ``X{t}`` and ``Y{t}``, or matrices."""

import struct
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import h5py
import numpy as np
from numpy.exceptions import ComplexWarning
from numpy.typing import NDArray
from scipy.io import loadmat, whosmat
from scipy.io.matlab import MatReadError
from scipy.sparse import csc_array, issparse

from algorithms.numerics.sparse_rows import is_sparse
from service.datasets.formats.array_names import ChosenArrays, choose_arrays, part_of
from service.datasets.formats.matlab_sizes import count_packed_values
from service.datasets.formats.matlab_structs import without_structs
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.sparse_arrays import rows_of_columns
from service.datasets.formats.validation import check_counts
from service.datasets.issues import reject

_HDF5: Final = b"\x89HDF"
#: Structs in structs are tasks by their names.
_MAX_DEPTH: Final = 2
#: MATLAB writes the HDF5 data of version 7.3 behind a text header of this size.
_USER_BLOCK: Final = 512
#: Parts of complex numbers in version 7.3.
_HDF5_COMPLEX: Final = ("real", "imag")
#: Names of tasks below it are 64-bit integers.
_BEYOND_INTEGERS: Final = 2.0**63
_LAYOUTS: Final = (
    "expected cell arrays X{t} and Y{t} with one cell for each task, or a matrix X and a vector "
    "'task' with the task of each row, or with targets of several tasks in the columns of Y; all "
    "of it may be in a struct"
)
_CORRUPT: Final = (
    MatReadError,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    NotImplementedError,
    EOFError,
    RuntimeError,
    OverflowError,
    UnicodeError,
    struct.error,
    zlib.error,
)

Variables = dict[str, Any]


def read_parts(path: Path, options: ReadOptions, limits: Limits) -> ChosenArrays:
    """Return the variables of a MATLAB file as arrays by task and part."""
    try:
        variables = _read_hdf5(path, limits) if _is_hdf5(path) else _read_old(path, limits)
    except _CORRUPT as error:
        reject("corrupt-file", f"the file is not a readable MATLAB file: {error}")
    variables, structs = without_structs(variables)
    for name in structs:
        if not variables or part_of(name) is not None:
            _reject_struct(name)
    chosen = choose_arrays(variables, options, _LAYOUTS)
    notes = chosen.notes + [f"the struct '{name}' is left out" for name in structs]
    return chosen._replace(arrays=_named(chosen, limits), notes=notes)


def _is_hdf5(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_USER_BLOCK + len(_HDF5))
    return head.startswith(_HDF5) or head[_USER_BLOCK:].startswith(_HDF5)


def _read_old(path: Path, limits: Limits) -> Variables:
    """Return the variables of a file of version 4 to 7."""
    listing = whosmat(path)
    n_values = sum(int(np.prod(shape)) for _, shape, kind in listing if kind != "sparse")
    _check_size(8 * n_values, limits)
    _check_size(8 * count_packed_values(path, limits.decompressed_bytes // 8), limits)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ComplexWarning)
            loaded = loadmat(path, mat_dtype=True, squeeze_me=False, chars_as_strings=True)
    except ComplexWarning:  # the imaginary parts would be dropped: they are kept, and refused later
        loaded = loadmat(path, mat_dtype=False, squeeze_me=False, chars_as_strings=True)
    return {name: value for name, value in loaded.items() if not name.startswith("__")}


def _read_hdf5(path: Path, limits: Limits) -> Variables:
    """Return the variables of a file of version 7.3, whose matrices are stored transposed."""
    with h5py.File(path, "r") as file:
        sizes: list[int] = []
        file.visititems(lambda _, item: sizes.append(getattr(item, "size", 0) or 0))
        _check_size(8 * sum(sizes), limits)
        names = [name for name in file if not name.startswith("#")]
        reader = _Hdf5Reader(file, limits)
        return {name: _hdf5_value(reader, _member(file, name), name) for name in names}


@dataclass(slots=True)
class _Hdf5Reader:
    """A file of version 7.3, in which many cells may be the same object."""

    file: h5py.File
    limits: Limits
    n_bytes: int = 0

    def read(self, item: h5py.Dataset) -> Any:
        """Return the values of a dataset, if all that are read so far are within the limits."""
        self.n_bytes += 8 * item.size
        _check_size(self.n_bytes, self.limits)
        return item[()]


def _member(group: h5py.Group, name: str) -> Any:
    """Return an object of a group; refuse links, which could lead to another local file."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        _reject_outside(name)
    return group[name]


def _reject_outside(name: str) -> NoReturn:
    detail = f"the values of the variable '{name}' are not in the file itself"
    reject("unexpected-array", f"{detail}; save the file without links to other data")


def _reject_struct(name: str) -> NoReturn:
    reject("unsupported-dtype", f"'{name}' is a struct; {_LAYOUTS}")


def _hdf5_value(
    reader: _Hdf5Reader, item: Any, name: str, *, is_cell: bool = False, depth: int = 0
) -> Any:
    if "MATLAB_sparse" in item.attrs:
        return _hdf5_sparse(reader, item)
    if not isinstance(item, h5py.Dataset):
        if is_cell or depth == _MAX_DEPTH:
            _reject_struct(name)
        return {
            field: _hdf5_value(reader, _member(item, field), f"{name}.{field}", depth=depth + 1)
            for field in item
        }
    if item.external or item.is_virtual:
        _reject_outside(name)
    if h5py.check_ref_dtype(item.dtype) is not None:
        if is_cell:
            reject("unexpected-array", f"a cell of the variable '{name}' has cells; {_LAYOUTS}")
        cells = np.empty(item.shape, dtype=object)
        for place in np.ndindex(*item.shape):
            cells[place] = _hdf5_value(reader, reader.file[item[place]], name, is_cell=True)
        return cells
    if item.attrs.get("MATLAB_empty", 0):
        return np.empty((0, 0))
    values: NDArray[Any] = reader.read(item)
    if item.attrs.get("MATLAB_class") == b"char":
        return np.array(["".join(map(chr, row)) for row in np.atleast_2d(values.T)])
    return values.T


def _hdf5_sparse(reader: _Hdf5Reader, group: h5py.Group) -> Any:
    """Return a sparse matrix, a group of values, their rows, and the offsets of the columns.

    Without values, MATLAB leaves out all but the offsets.
    """
    parts = {
        name: _hdf5_value(reader, _member(group, name), name, is_cell=True)
        for name in ("data", "ir", "jc")
        if name in group
    }
    indptr = parts["jc"]
    data, rows = (parts.get(name, np.zeros(0)) for name in ("data", "ir"))
    shape = int(group.attrs["MATLAB_sparse"]), len(indptr) - 1
    return csc_array((data, rows.astype(np.int64), indptr.astype(np.int64)), shape=shape)


def _check_size(n_bytes: int, limits: Limits) -> None:
    if n_bytes > limits.decompressed_bytes:
        detail = f"the variables have {n_bytes} bytes as 64-bit floats, more than the limit of"
        reject("decompression-limit", f"{detail} {limits.decompressed_bytes}")


def _named(chosen: ChosenArrays, limits: Limits) -> dict[str, Any]:
    """Return the variables as arrays named by task and part, as in .npz."""
    variables, name_of = chosen.arrays, chosen.names
    if "X" not in variables:
        reject("missing-array", f"the file has no variable 'X'; {_LAYOUTS}")
    if "task" in variables or not _is_cells(variables["X"]):
        return _table(chosen, limits)
    cells = {p: _cells(variables[p], name_of[p]) for p in ("X", "y") if p in variables}
    n_tasks = len(cells["X"])
    names = _task_names(chosen, n_tasks)
    arrays = {}
    for part, listed in cells.items():
        variable = name_of[part]
        if len(listed) != n_tasks:
            detail = f"'{variable}' has {len(listed)} cells, but X has {n_tasks}"
            reject("wrong-shape", f"{detail}; one for each task is expected")
        for t, (name, values) in enumerate(zip(names, listed, strict=True), start=1):
            arrays[f"{name}/{part}"] = _array(
                values, f"{variable}{{{t}}}", limits, is_vector=part == "y"
            )
    return arrays


def _is_cells(values: Any) -> bool:
    return not issparse(values) and np.asarray(values).dtype.hasobject


def _cells(values: Any, name: str) -> list[Any]:
    """Return the contents of the cells of a cell array."""
    array = np.asarray(values)
    if array.dtype.names is not None:
        _reject_struct(name)
    if issparse(values) or not array.dtype.hasobject:
        reject("wrong-shape", f"'{name}' is not a cell array; {_LAYOUTS}")
    listed: list[Any] = array.ravel(order="F").tolist()
    return listed


def _table(chosen: ChosenArrays, limits: Limits) -> dict[str, Any]:
    """Return a matrix of all rows, with the task of each row or the targets of several tasks."""
    variables, name_of = chosen.arrays, chosen.names
    arrays = {"X": _array(variables["X"], name_of["X"], limits, is_vector=False)}
    if "y" in variables:
        has_columns = "task" not in variables and not _is_cells(variables["y"])
        y = _array(variables["y"], name_of["y"], limits, is_vector=not has_columns)
        if is_sparse(y):
            check_counts(y.shape[1], 1, limits)
            y = y.toarray()
        arrays["y"] = y.ravel() if y.size == arrays["X"].shape[0] else y
    if "task" not in variables:
        if "tasks" in variables:
            names = _task_names(chosen, np.asarray(variables["tasks"]).size)
            arrays["tasks"] = np.array(names)
        return arrays
    labels = _array(variables["task"], name_of["task"], limits, is_vector=True)
    if labels.dtype.kind == "f":
        is_whole = (np.rint(labels) == labels) & (np.abs(labels) < _BEYOND_INTEGERS)
        labels = labels.astype(np.int64) if is_whole.all() else labels
    return arrays | {"task": labels}


def _task_names(chosen: ChosenArrays, n_tasks: int) -> list[str]:
    """Return the names of the tasks in the file; without any, their numbers."""
    if "tasks" not in chosen.arrays:
        return [str(t + 1) for t in range(n_tasks)]
    variable, array = chosen.names["tasks"], np.asarray(chosen.arrays["tasks"])
    cells = array.ravel(order="F").tolist()
    if len(cells) != n_tasks:
        n_names = "1 name" if len(cells) == 1 else f"{len(cells)} names"
        detail = f"'{variable}' has {n_names} for {n_tasks} cells"
        reject("wrong-shape", f"{detail}; one name for each cell is expected")
    names = [_task_name(cell, f"{variable}{{{t}}}") for t, cell in enumerate(cells, start=1)]
    for name, count in Counter(names).items():
        if count > 1:
            detail = f"{count} tasks are named '{name}' in '{variable}'"
            reject("duplicate-task", f"{detail}; give each a name of its own", task=name)
    return names


def _task_name(cell: Any, where: str) -> str:
    """Return a name, which is one text or whole number: 7, not 7.0."""
    array = np.asarray(cell)
    name = ""
    if array.size == 1 and array.dtype.kind == "U":
        name = str(array.item()).strip()
    elif array.size == 1 and array.dtype.kind in "iuf" and float(array.item()).is_integer():
        name = str(int(array.item()))
    if not name:
        reject("invalid-name", f"'{where}' is not the name of a task; use text or a whole number")
    return name


def _array(values: Any, name: str, limits: Limits, *, is_vector: bool) -> Any:
    """Return a matrix, which may be sparse, or a column or row of labels as a vector."""
    if issparse(values):
        rows = rows_of_columns(values, name, limits)
        if not is_vector:
            return rows
        values = rows.toarray()
    array = np.asarray(values)
    if array.dtype.kind == "c" or array.dtype.names == _HDF5_COMPLEX:
        dtype = "complex128" if array.dtype.names else array.dtype
        detail = f"'{name}' has dtype '{dtype}'; save real and imaginary parts as real columns"
        reject("unsupported-dtype", detail)
    if array.dtype.names is not None or array.dtype.hasobject:
        cells = array.ravel().tolist() if is_vector and array.dtype.names is None else [None]
        texts = [np.asarray(cell) for cell in cells]
        if not all(text.dtype.kind == "U" and text.size <= 1 for text in texts):
            reject("unsupported-dtype", f"'{name}' is neither numeric nor text; {_LAYOUTS}")
        array = np.array(["".join(text.ravel().tolist()) for text in texts])
    if is_vector:
        return array.ravel()
    return array
