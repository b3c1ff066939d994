"""NumPy's .npz: arrays ``<task>/X``, ``<task>/y``, ``<task>/C``, or one long table of arrays."""

import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from algorithms.interface.tasks import Task
from service.datasets.assembly import (
    as_targets,
    check_counts,
    check_name,
    covariance_task,
    rows_task,
)
from service.datasets.complaints import Complaint, Complaints, Rejected
from service.datasets.options import Limits, ReadOptions

_TABLE: Final = frozenset({"X", "task", "y", "feature_names"})
_PARTS: Final = frozenset({"X", "y", "C"})
_LAYOUTS: Final = (
    "expected '<task>/X' (and '<task>/y') or '<task>/C' for each task, "
    "or one table in 'X' and 'task' (and 'y', 'feature_names')"
)

Arrays = dict[str, NDArray[Any]]


def parse(path: Path, options: ReadOptions, limits: Limits) -> list[Task]:
    """Give the tasks in an .npz file.

    Raises
    ------
    Rejected
        With every complaint, up to a bound.
    """
    arrays = _read(path, limits)
    if not arrays:
        raise Rejected(Complaint(f"the file holds no arrays; {_LAYOUTS}"))
    if {"X", "task"} <= arrays.keys():
        return _from_table(arrays, options, limits)
    return _from_parts(arrays, options, limits)


def _read(path: Path, limits: Limits) -> Arrays:
    try:
        with zipfile.ZipFile(path) as archive:
            members = _check_members(archive.infolist(), limits, path.stat().st_size)
            return {name: _read_member(archive, member, name) for name, member in members.items()}
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        detail = f"the file is not a complete .npz archive: {error}"
        raise Rejected(Complaint(detail)) from None


def _check_members(
    infos: list[zipfile.ZipInfo], limits: Limits, size: int
) -> dict[str, zipfile.ZipInfo]:
    """Give the members by array name, before anything is decompressed."""
    members: dict[str, zipfile.ZipInfo] = {}
    expanded = 0
    for info in infos:
        if not info.filename.endswith(".npy"):
            raise Rejected(Complaint(f"'{info.filename}' is not an array; {_LAYOUTS}"))
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise Rejected(Complaint(f"two arrays are named '{name}'"))
        members[name] = info
        expanded += info.file_size
    if expanded > limits.expanded_bytes:
        raise Rejected(
            Complaint(f"decompressed, the file has {expanded} bytes, over {limits.expanded_bytes}")
        )
    if expanded > limits.expansion * max(size, 1):
        raise Rejected(
            Complaint(
                f"decompressed, the file is {expanded / size:.0f} times as large, "
                f"more than {limits.expansion:g} times; send it less compressed"
            )
        )
    return members


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> NDArray[Any]:
    with archive.open(info) as file:
        try:
            _check_header(file, info, name)
            file.seek(0)
            # the archive gives no more bytes than its directory says, which was checked
            array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        except (ValueError, SyntaxError, TypeError) as error:
            raise Rejected(Complaint(f"array '{name}' cannot be read: {error}")) from None
    return array


def _check_header(file: Any, info: zipfile.ZipInfo, name: str) -> None:
    """Refuse an array whose header promises what its bytes cannot hold, or that needs pickle."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise Rejected(
            Complaint(
                f"array '{name}' holds Python objects, which are never read; "
                "store numbers or text (dtype float, int or str)"
            )
        )
    promised = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize
    if promised != info.file_size - file.tell():
        raise Rejected(
            Complaint(
                f"array '{name}' says it has shape {shape}, {promised} bytes, "
                f"but holds {info.file_size - file.tell()}"
            )
        )


def _from_table(arrays: Arrays, options: ReadOptions, limits: Limits) -> list[Task]:
    for name in sorted(arrays.keys() - _TABLE):
        raise Rejected(Complaint(f"a table has no array '{name}'; {_LAYOUTS}"))
    X, labels, y = arrays["X"], arrays["task"], arrays.get("y")
    if X.ndim != 2:
        raise Rejected(Complaint(f"'X' needs shape (rows, columns), got {X.shape}"))
    for name, array in (("task", labels), ("y", y)):
        if array is not None and array.shape != X.shape[:1]:
            detail = f"'{name}' needs shape {X.shape[:1]}, one entry a row of 'X', got"
            raise Rejected(Complaint(f"{detail} {array.shape}"))
    if labels.dtype.kind not in "Uiub":
        raise Rejected(Complaint(f"'task' holds {labels.dtype}; expected text or whole numbers"))
    names, first, which = np.unique(labels, return_index=True, return_inverse=True)
    check_counts(len(names), X.shape[1], limits)
    complaints = Complaints()
    tasks = []
    for i in np.argsort(first):  # tasks keep the order of their first rows
        rows = np.flatnonzero(which == i)
        name = check_name(str(names[i]), limits, what="task")
        targets = None if y is None else as_targets(y[rows], options.target_kind, task=name)
        features = _feature_names(arrays, arrays, limits)
        tasks.append(rows_task(name, X[rows], targets, features, complaints))
    complaints.check()
    return [task for task in tasks if task is not None]


def _from_parts(arrays: Arrays, options: ReadOptions, limits: Limits) -> list[Task]:
    parts: dict[str, Arrays] = {}
    for name, array in arrays.items():
        task, _, part = name.rpartition("/")
        if name == "feature_names":
            continue
        if not task or part not in _PARTS:
            raise Rejected(Complaint(f"array '{name}' belongs to no task; {_LAYOUTS}"))
        parts.setdefault(check_name(task, limits, what="task"), {})[part] = array
    complaints = Complaints()
    tasks = []
    for name, own in parts.items():
        check_counts(
            len(parts), max((a.shape[-1] for a in own.values() if a.ndim), default=0), limits
        )
        names = None if "C" in own else _feature_names(arrays, own, limits)
        tasks.append(_from_own(name, own, names, options, complaints))
    complaints.check()
    return [task for task in tasks if task is not None]


def _from_own(
    name: str,
    own: Arrays,
    feature_names: list[str] | None,
    options: ReadOptions,
    complaints: Complaints,
) -> Task | None:
    if own.keys() == {"C"}:
        return covariance_task(name, own["C"], complaints)
    if "C" in own or "X" not in own:
        has = ", ".join(sorted(own))
        complaints.add(f"task '{name}' has {has}; a task needs X (and y), or C alone", task=name)
        return None
    X, y = own["X"], own.get("y")
    targets = None if y is None else as_targets(y, options.target_kind, task=name)
    return rows_task(name, X, targets, feature_names, complaints)


def _feature_names(arrays: Arrays, own: Arrays, limits: Limits) -> list[str] | None:
    """Give the names of the columns of X, where the upload has them."""
    names = arrays.get("feature_names")
    if names is None or "X" not in own:
        return None
    width = own["X"].shape[-1] if own["X"].ndim else 0
    if names.dtype.kind != "U" or names.shape != (width,):
        detail = f"'feature_names' needs {width} texts, got {names.dtype} of shape {names.shape}"
        raise Rejected(Complaint(detail))
    return [check_name(str(name), limits, what="column") for name in names]
