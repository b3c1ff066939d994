"""Parts of a job: of a search, a comparison, an evaluation, or an automatic choice."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from service.ui import formats, tables
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.jobs import progress_cell, state_cell
from service.ui.views.words import name_of

_COLUMNS: Final = ("Part", "State", "Progress", "Purpose", "Parameters")
#: States from worst to best; a cell for several parts shows the worst of them.
_WORST_FIRST: Final = ("failed", "timed_out", "cancelled", "running", "submitted", "queued")
_MIN_METHODS: Final = 2
#: How methods learn that have a parameter for it.
_FORMS: Final = {"task": "each group alone", "pooled": "one model for all"}


def part_table(parts: Sequence[Mapping[str, Any]], n_parts: int) -> Table:
    """Return the table of parts, which may be only the newest of ``n_parts``."""
    title = "All parts" if len(parts) == n_parts else f"The newest {len(parts)} of {n_parts} parts"
    varied = _varied(parts)
    return Table(title, _COLUMNS, [TableRow(part["id"], _cells(part, varied)) for part in parts])


def _cells(part: Mapping[str, Any], varied: Mapping[str, set[str]]) -> list[Cell]:
    splits = (part["part"] or {"splits": []})["splits"]
    name = f"{_method(part, varied)}, {_splits(splits)}" if splits else _method(part, varied)
    return [
        tables.text(name, f"/jobs/{part['id']}", note=part["id"]),
        state_cell(part),
        progress_cell(part),
        tables.text(_purpose(part)),
        tables.text(part["params"]),
    ]


def _splits(splits: Sequence[int | None]) -> str:
    """Return the splits of a part in words."""
    numbers = [_split(split) for split in splits]
    if numbers == [_split(None)]:
        return numbers[0]
    return f"{'split' if len(numbers) == 1 else 'splits'} {', '.join(numbers)}"


def grid_of(parts: Sequence[Mapping[str, Any]]) -> Table | None:
    """Return the states of parts by method and split; None without several methods and splits."""
    by_method: dict[str, dict[int | None, Mapping[str, Any]]] = {}
    has_purposes = len({_purpose(part) for part in parts}) > 1
    varied = _varied(parts)
    for part in parts:
        purpose = f"{_purpose(part)}: " if has_purposes else ""
        of_method = by_method.setdefault(purpose + _method(part, varied), {})
        for split in (part["part"] or {"splits": []})["splits"]:
            worst = of_method.get(split)
            of_method[split] = part if worst is None else min(part, worst, key=_rank)
    splits = sorted({split for row in by_method.values() for split in row}, key=_order)
    if len(by_method) < _MIN_METHODS or len(splits) < _MIN_METHODS:
        return None
    rows = [
        TableRow(
            f"grid-{i}",
            [tables.text(method), *(_square(row.get(split), split) for split in splits)],
        )
        for i, (method, row) in enumerate(by_method.items())
    ]
    return Table("Methods by split", ("Method", *map(_split, splits)), rows)


def _square(part: Mapping[str, Any] | None, split: int | None) -> Cell:
    if part is None:
        return tables.text(None)
    state = "running" if part["state"] == "waiting" else part["state"]
    label = f"{state.replace('_', ' ')}: {part['algorithm']}, split {_split(split)}"
    return Cell(label, "square", f"/jobs/{part['id']}", value=state)


def _varied(parts: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the parameters of each algorithm that are not the same in all of its parts."""
    by_algorithm: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts:
        by_algorithm.setdefault(part["algorithm"], []).append(part["params"])
    return {
        algorithm: {name for params in all_params for name in params if _differs(name, all_params)}
        for algorithm, all_params in by_algorithm.items()
    }


def _differs(name: str, all_params: Sequence[Mapping[str, Any]]) -> bool:
    return any(params.get(name) != all_params[0].get(name) for params in all_params)


def _method(part: Mapping[str, Any], varied: Mapping[str, set[str]]) -> str:
    """Return the name of a method, and the parameters that vary between its parts."""
    algorithm = part["algorithm"]
    shown = {name: value for name, value in part["params"].items() if name in varied[algorithm]}
    form = _FORMS.get(str(shown.get("form")), "")
    if form:
        del shown["form"]
    return ", ".join(filter(None, (name_of(part), form, formats.plain(shown))))


def _purpose(part: Mapping[str, Any]) -> str:
    return "part" if part["part"] is None else str(part["part"]["purpose"])


def _split(split: int | None) -> str:
    """Return the number of a split, from 1; none stands for all rows."""
    return "all rows" if split is None else str(split + 1)


def _order(split: int | None) -> float:
    return float("inf") if split is None else split


def _rank(part: Mapping[str, Any]) -> int:
    state = part["state"]
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)
