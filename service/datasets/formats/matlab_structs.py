"""Structs of MATLAB files: ``s.X`` and ``s.Y``, ``tasks(t).X``, or ``s.north.X``."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from scipy.sparse import issparse

from service.datasets.formats.array_names import part_of

#: Fields with the name of the task of each element of a struct array.
_NAME_FIELDS: Final = frozenset({"name", "task"})

Fields = Mapping[str, Any]


def fields_of(value: Any) -> Fields | None:
    """Return the fields of a struct, None for other values; those of a struct array are cells."""
    if isinstance(value, dict):
        return value
    array = None if issparse(value) else np.asarray(value)
    if array is None or not array.dtype.names or not array.dtype.hasobject:
        return None
    cells = {name: array[name] for name in array.dtype.names}
    return {name: v.ravel()[0] for name, v in cells.items()} if array.size == 1 else cells


def without_structs(variables: Fields) -> tuple[dict[str, Any], list[str]]:
    """Return variables with the fields of the structs that have the rows; and unused structs."""
    structs = {name: f for name, v in variables.items() if (f := fields_of(v)) is not None}
    plain = {name: v for name, v in variables.items() if name not in structs}
    if _has_rows(plain):
        return plain, [*structs]
    with_rows = {name: fields for name, fields in structs.items() if _has_rows(fields)}
    if not with_rows:
        for name, fields in structs.items():
            inner = {task: f for task, v in fields.items() if (f := fields_of(v)) is not None}
            if inner and all(map(_has_rows, inner.values())):
                return {**plain, **_by_task(inner)}, [n for n in structs if n != name]
        return plain, [*structs]
    unused = [name for name in structs if name not in with_rows]
    if len(with_rows) > 1:
        return {**plain, **_by_task(with_rows)}, unused
    (fields,) = with_rows.values()
    return {**plain, **_named(fields)}, unused


def _has_rows(fields: Fields) -> bool:
    return any(part_of(name) == "X" for name in fields)


def _named(fields: Fields) -> dict[str, Any]:
    """Return the fields of a struct; of a struct array, with the names of the tasks."""
    are_cells = any(part_of(n) == "X" and _is_cells(value) for n, value in fields.items())
    return {
        "tasks" if are_cells and name.lower() in _NAME_FIELDS else name: value
        for name, value in fields.items()
    }


def _by_task(structs: Mapping[str, Fields]) -> dict[str, Any]:
    """Return the rows and targets of structs, each of which is a task, as cells."""
    names = list(dict.fromkeys(name for fields in structs.values() for name in fields))
    cells = {}
    for name in names:
        if all(name in fields for fields in structs.values()):
            cells[name] = np.empty(len(structs), dtype=object)
            cells[name][:] = [fields[name] for fields in structs.values()]
    return {**cells, "tasks": np.array([*structs], dtype=object)}


def _is_cells(value: Any) -> bool:
    return not issparse(value) and np.asarray(value).dtype.hasobject
