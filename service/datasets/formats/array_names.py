"""Names of arrays in files of several arrays, and of variables in MATLAB files."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from algorithms.interface.lists import list_names
from service.datasets.formats.options import ReadOptions
from service.datasets.issues import reject

#: Parts of a file or of a task that an array can be.
PARTS: Final = ("X", "y", "C", "task", "tasks", "groups", "sample_weight", "feature_names")
#: Names that other tools use, in lower case.
_ALIASES: Final = {
    "x": "X",
    "data": "X",
    "y": "y",
    "target": "y",
    "targets": "y",
    "labels": "y",
    "task": "task",
    "tasks": "tasks",
    "names": "tasks",
    "task_names": "tasks",
}
_NOUNS: Final = {"X": "the rows", "y": "the targets"}
_MAX_LISTED: Final = 10


class ChosenArrays(NamedTuple):
    """Arrays by their parts, the names that they had, and notes about others."""

    arrays: dict[str, Any]
    names: dict[str, str]
    notes: list[str]


def part_of(name: str) -> str | None:
    """Return the part that an array is by its name, None if that is unknown."""
    return name if name in PARTS else _ALIASES.get(name.lower())


def choose_arrays(arrays: Mapping[str, Any], options: ReadOptions, layouts: str) -> ChosenArrays:
    """Return the arrays to read under the names of their parts.

    Parameters
    ----------
    layouts
        End of the message if no name is known.

    Raises
    ------
    Rejected
        No array is known, or two are the same part.
    """
    parts = _declared(arrays, options) if options.variables else {}
    chosen: dict[str, Any] = {}
    source: dict[str, str] = {}
    others = []
    for name, array in arrays.items():
        task, slash, last = name.rpartition("/")
        part = parts.get(last) if options.variables else part_of(last)
        if part is None:
            others.append(name)
            continue
        key = f"{task}{slash}{part}"
        if key in chosen:
            detail = f"both '{source[key]}' and '{name}' are names of {_NOUNS.get(part, part)}"
            reject("duplicate-array", f"{detail}; save one of them, or choose with variables=NAME")
        chosen[key], source[key] = array, name
    if others and not chosen:
        reject("unexpected-array", f"'{others[0]}' is not known; {layouts}")
    return ChosenArrays(chosen, source, _left_out(others))


def _declared(arrays: Iterable[str], options: ReadOptions) -> dict[str, str]:
    """Return the part of each array that is named in the options."""
    known = {name.rpartition("/")[2] for name in arrays}
    parts = {}
    for entry in options.variables:
        name, _, declared = entry.partition(":")
        part = declared or part_of(name)
        if name not in known:
            detail = f"there is no '{name}'; the file has {list_names(sorted(known), _MAX_LISTED)}"
            reject("missing-array", detail, parameter="query:variables")
        if part is None:
            detail = f"declare what '{name}' is, as variables={name}:X or {name}:y"
            reject("unexpected-array", detail, parameter="query:variables")
        parts[name] = part
    return parts


def _left_out(names: list[str]) -> list[str]:
    if not names:
        return []
    are = "is" if len(names) == 1 else "are"
    listed = list_names(names, _MAX_LISTED)
    return [f"{listed} {are} left out; variables=NAME:X and NAME:y choose what is read"]
