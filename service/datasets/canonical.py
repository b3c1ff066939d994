"""Stored form of datasets: a safetensors file and a manifest.

The file contains ``<task>/X`` and, if the task has them, ``<task>/y`` (numbers, or positions in the
manifest's classes), ``<task>/groups`` (positions in the groups of all tasks) and
``<task>/sample_weight``. Rows without a target are apart from them in ``<task>/unlabelled_X`` etc.
Sparse rows are ``<task>/X.data``, ``<task>/X.indices`` and ``<task>/X.indptr``, as in SciPy's CSR
arrays. Tasks with the same X store it once. Training processes import this module, so it imports
only NumPy, SciPy and ``algorithms``.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from algorithms.interface.artifact import write_arrays
from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.units import divisible_rows, hashes_of, units_of
from algorithms.numerics.row_hashes import Hashes
from algorithms.numerics.sparse_rows import concatenate_rows, is_sparse
from algorithms.wrappers.preparation.columns import Column, is_one_category
from service.datasets.distributions import describe_targets, summarise, task_columns
from service.datasets.manifest import feature_names_by_task

#: Prefix of the arrays of rows without a target.
_UNLABELLED: Final = "unlabelled_"
FORMAT: Final = "sibling-dataset/1"
#: Total number of features above which the manifest has no feature summaries.
_MAX_SUMMARISED: Final = 20_000
#: Number of features in all tasks above which further tasks have no distributions in the manifest.
#: Each takes 10 numbers, or one for each value of a category.
_MAX_DISTRIBUTIONS: Final = 2_000
#: Types of the stored arrays, by their names in safetensors.
DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
}
#: Size of the number at the start of a safetensors file, the length of its header.
HEADER_LENGTH_BYTES: Final = 8
_HASH_BYTES: Final = 16
#: Number of rows in all tasks above which equal rows are not searched for, which takes about 60
#: bytes a row.
_MAX_ROWS_COMPARED: Final = 10_000_000
#: Number of groups above which the manifest does not list their labels.
_MAX_GROUPS: Final = 10_000


def write_tasks(
    path: Path,
    tasks: Sequence[Task],
    *,
    columns: Sequence[Column] | None = None,
    unlabelled: Sequence[Task] = (),
    map_: Callable[..., Iterable[Any]] = map,
) -> dict[str, Any]:
    """Write tasks to a file and return their manifest.

    Parameters
    ----------
    columns
        Kinds of the columns of all tasks; None if all are numbers without missing values.
    unlabelled
        Further rows of some of the tasks, without targets.
    map_
        Maps the function that describes the columns of a task, such as ``map`` of a pool.
    """
    arrays: dict[str, NDArray[Any]] = {}
    owner_of_rows: dict[int, str] = {}
    entries = []
    is_small = sum(task.n_samples for task in tasks) <= _MAX_ROWS_COMPARED
    all_tasks = TaskSet(tuple(tasks))
    hashes = hashes_of(all_tasks)
    is_category = is_one_category(columns)
    units = units_of(all_tasks, hashes, is_category=is_category) if is_small else None
    n_divisible = divisible_rows(all_tasks, units) if units is not None else {}
    digests: dict[str, str] = {}
    described = _describe(tasks, columns, map_)
    for task in tasks:
        entry = _entry(task)
        first = owner_of_rows.setdefault(id(task.X), task.name)
        if first == task.name:
            arrays |= _arrays_of_rows(f"{task.name}/X", task.X)
            digests[first] = _digest(task, hashes[first])
        else:
            entry["rows_of"] = first
        if task.y is not None and task.target == "classes":
            classes, arrays[f"{task.name}/y"] = np.unique(task.y, return_inverse=True)
            entry["classes"] = classes.tolist()
        elif task.y is not None:
            arrays[f"{task.name}/y"] = task.y
        if id(task.X) in described:
            entry["features"] = described[id(task.X)]
        target = describe_targets(task)
        if target is not None:
            entry["target_summary"] = target
        entry["rows_hash"] = digests[first]
        entry["n_divisible"] = n_divisible.get(task.name)
        entry["n_units"] = None if units is None else len(np.unique(units.of(task.name)))
        entries.append(entry)
    for task in unlabelled:
        arrays |= _arrays_of_rows(f"{task.name}/{_UNLABELLED}X", task.X)
        entry = next(entry for entry in entries if entry["name"] == task.name)
        entry["n_unlabelled"] = task.n_samples
    groups = _add_groups(entries, tasks, unlabelled, arrays)
    _add_weights(entries, tasks, unlabelled, arrays)
    # not synced to disk, since the waiting process reads the file at once
    write_arrays(path, arrays, header={"format": FORMAT}, is_synced=False)
    names = _add_names(entries, tasks)
    kinds = {} if columns is None else {"columns": [column.to_json() for column in columns]}
    n_units = {} if units is None else {"n_units": len(units.sizes)}
    manifest = {"format": FORMAT, "tasks": entries, "feature_names": names}
    return manifest | groups | kinds | n_units


def _describe(
    tasks: Sequence[Task],
    columns: Sequence[Column] | None,
    map_: Callable[..., Iterable[Any]],
) -> dict[int, dict[str, Any]]:
    """Return the statistics of the columns of tasks, by the id of their rows."""
    if sum(task.n_features for task in tasks) > _MAX_SUMMARISED:
        return {}
    first: dict[int, Task] = {}
    for task in tasks:
        if task.input == "rows":
            first.setdefault(id(task.X), task)
    owners = [*first.values()]
    shown = [task_columns(task, columns) for task in owners]
    n_described = np.cumsum([len(first_columns) for first_columns in shown])
    described = [
        first_columns if n <= _MAX_DISTRIBUTIONS else []
        for first_columns, n in zip(shown, n_described, strict=True)
    ]
    summaries = map_(summarise, (task.X for task in owners), described)
    return dict(zip(first, summaries, strict=True))


def _arrays_of_rows(name: str, X: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays that store the rows of a task."""
    if not is_sparse(X):
        return {name: X}
    return {
        f"{name}.data": X.data,
        f"{name}.indices": X.indices.astype(np.int32),
        f"{name}.indptr": X.indptr.astype(np.int64),
    }


def _read_rows(arrays: Mapping[str, NDArray[Any]], name: str, entry: Mapping[str, Any]) -> Any:
    if "n_stored" not in entry:
        return arrays[name]
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    X = csr_array((data, indices, indptr), shape=(len(indptr) - 1, entry["n_features"]))
    X.has_sorted_indices = X.has_canonical_format = True  # as it was written
    return X


def _add_groups(
    entries: Sequence[dict[str, Any]],
    tasks: Sequence[Task],
    unlabelled: Sequence[Task],
    arrays: dict[str, NDArray[Any]],
) -> dict[str, Any]:
    """Add the groups, numbered over all tasks, to the arrays; return their labels for the manifest.

    Very many labels are left out of the manifest; the numbers still distinguish the groups.
    """
    groups_of = {f"{task.name}/groups": task.groups for task in tasks}
    groups_of |= {f"{task.name}/{_UNLABELLED}groups": task.groups for task in unlabelled}
    grouped = {name: groups for name, groups in groups_of.items() if groups is not None}
    if not grouped:
        return {}
    labels, codes = np.unique(np.concatenate([*grouped.values()]), return_inverse=True)
    ends = np.cumsum([len(groups) for groups in grouped.values()])
    for name, task_codes in zip(grouped, np.split(codes, ends[:-1]), strict=True):
        arrays[name] = task_codes.astype(np.int64)
    for entry in entries:
        if f"{entry['name']}/groups" in arrays:
            entry["has_groups"] = True
    return {"groups": labels.tolist()} if len(labels) <= _MAX_GROUPS else {}


def _add_weights(
    entries: Sequence[dict[str, Any]],
    tasks: Sequence[Task],
    unlabelled: Sequence[Task],
    arrays: dict[str, NDArray[Any]],
) -> None:
    """Add the weights of rows to the arrays."""
    for prefix, members in (("", tasks), (_UNLABELLED, unlabelled)):
        for task in members:
            if task.weights is not None:
                arrays[f"{task.name}/{prefix}sample_weight"] = task.weights
    for entry in entries:
        if f"{entry['name']}/sample_weight" in arrays:
            entry["has_weights"] = True


def _add_names(entries: Sequence[dict[str, Any]], tasks: Sequence[Task]) -> list[str] | None:
    """Return the column names if all tasks share them; otherwise add each task's to its entry.

    Entries without names use the shared ones, if any.
    """
    names = {task.feature_names for task in tasks}
    if len(names) == 1:
        shared = names.pop()
        return None if shared is None else list(shared)
    for entry, task in zip(entries, tasks, strict=True):
        if task.feature_names is not None:
            entry["feature_names"] = list(task.feature_names)
    return None


def read_tasks(path: Path, manifest: Mapping[str, Any]) -> TaskSet:
    """Return the tasks of a file, without the rows that `read_unlabelled` returns.

    The arrays are read-only and memory-mapped.

    Raises
    ------
    InvalidArtifact
        The file is truncated or does not match the manifest.
    """
    arrays = _map_arrays(path)
    names = feature_names_by_task(manifest)
    try:
        tasks, rows = [], {}
        for entry in manifest["tasks"]:
            owner = entry.get("rows_of", entry["name"])
            if owner not in rows:
                rows[owner] = _read_rows(arrays, f"{owner}/X", entry)
            tasks.append(
                _read_task(
                    arrays,
                    entry,
                    names[entry["name"]],
                    X=rows[owner],
                    labels=manifest.get("groups"),
                )
            )
    except KeyError as error:
        raise InvalidArtifact(f"'{path.name}' lacks the array {error} of its manifest") from None
    return TaskSet(tuple(tasks))


def read_unlabelled(path: Path, manifest: Mapping[str, Any]) -> tuple[Task, ...]:
    """Return the rows without a target, of tasks with targets; errors as for `read_tasks`."""
    entries = [entry for entry in manifest["tasks"] if entry.get("n_unlabelled")]
    if not entries:
        return ()
    arrays = _map_arrays(path)
    names, labels = feature_names_by_task(manifest), manifest.get("groups")
    try:
        return tuple(
            Task(
                entry["name"],
                _read_rows(arrays, f"{entry['name']}/{_UNLABELLED}X", entry),
                feature_names=names[entry["name"]],
                groups=_read_groups(arrays, entry, _UNLABELLED, labels),
                weights=_read_weights(arrays, entry, _UNLABELLED),
            )
            for entry in entries
        )
    except KeyError as error:
        raise InvalidArtifact(f"'{path.name}' lacks the array {error} of its manifest") from None


def read_all_rows(path: Path, manifest: Mapping[str, Any]) -> TaskSet:
    """Return the tasks with all rows, for methods that need no targets.

    Tasks in which some rows have no target are copied, without any targets.
    """
    unlabelled = {task.name: task for task in read_unlabelled(path, manifest)}
    return TaskSet(
        tuple(
            _concatenate(task, unlabelled[task.name]) if task.name in unlabelled else task
            for task in read_tasks(path, manifest)
        )
    )


def _concatenate(task: Task, more: Task) -> Task:
    groups = weights = None
    if task.groups is not None and more.groups is not None:
        groups = np.concatenate([task.groups, more.groups])
    if task.weights is not None and more.weights is not None:
        weights = np.concatenate([task.weights, more.weights])
    X = concatenate_rows([task.X, more.X])
    return replace(task, X=X, y=None, groups=groups, weights=weights)


def _read_task(
    arrays: Mapping[str, NDArray[Any]],
    entry: Mapping[str, Any],
    feature_names: tuple[str, ...] | None,
    *,
    X: Any,
    labels: Sequence[Any] | None,
) -> Task:
    name = entry["name"]
    y = None if entry["target"] == "none" else arrays[f"{name}/y"]
    if entry["target"] == "classes":
        y = np.array(entry["classes"])[y]
    groups = _read_groups(arrays, entry, "", labels)
    weights = _read_weights(arrays, entry, "")
    return Task(name, X, entry["input"], y, feature_names, groups, weights)


def _read_groups(
    arrays: Mapping[str, NDArray[Any]],
    entry: Mapping[str, Any],
    prefix: str,
    labels: Sequence[Any] | None,
) -> NDArray[Any] | None:
    groups = arrays[f"{entry['name']}/{prefix}groups"] if entry.get("has_groups") else None
    return groups if groups is None or labels is None else np.array(labels)[groups]


def _read_weights(
    arrays: Mapping[str, NDArray[Any]], entry: Mapping[str, Any], prefix: str
) -> NDArray[Any] | None:
    return arrays[f"{entry['name']}/{prefix}sample_weight"] if entry.get("has_weights") else None


def _map_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Memory-map the arrays of a safetensors file."""
    try:
        data: NDArray[np.uint8] = np.asarray(np.memmap(path, np.uint8, mode="r"))
        begin, specs = read_header(path)
        return {name: _map_array(data[begin:], spec) for name, spec in specs.items()}
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InvalidArtifact(f"'{path.name}' is not a readable dataset: {error}") from error


def read_header(path: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the offset of the data in a safetensors file, and the header entry of each array."""
    with path.open("rb") as file:
        n_bytes = int.from_bytes(file.read(HEADER_LENGTH_BYTES), "little")
        header = json.loads(file.read(n_bytes))
    del header["__metadata__"]
    return HEADER_LENGTH_BYTES + n_bytes, header


def _map_array(data: NDArray[np.uint8], spec: Mapping[str, Any]) -> NDArray[Any]:
    first, end = spec["data_offsets"]
    dtype = DTYPES[spec["dtype"]]
    if end - first != math.prod(spec["shape"]) * dtype.itemsize or end > len(data):
        raise ValueError(f"bytes {first} to {end} do not hold an array of shape {spec['shape']}")
    return data[first:end].view(dtype).reshape(spec["shape"])


def _entry(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "n_samples": task.n_samples,
        "n_features": task.n_features,
        "input": task.input,
        "target": task.target,
    } | ({} if task.n_stored is None else {"n_stored": task.n_stored})


def _digest(task: Task, hashes: Hashes) -> str:
    """Return a hash of the rows, in order.

    Parameters
    ----------
    hashes : (n_samples,)
        The hash of each row.
    """
    digest = hashlib.blake2b(str(task.X.shape).encode(), digest_size=_HASH_BYTES)
    digest.update(hashes.astype("<u8").tobytes())
    return digest.hexdigest()
