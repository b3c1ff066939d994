"""Warnings where a chosen parameter lies at an end of the values that were tried.

There a better value may lie beyond. An end that is the bound of the parameter is none: nothing lies
beyond it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from algorithms.interface.params import Params
from algorithms.interface.tasks import describe_tasks

End = Literal["smallest", "largest"]

_BEYOND: dict[End, str] = {"smallest": "smaller", "largest": "larger"}


def end_warnings(
    params: Params, chosen: Mapping[str, float], *, most: Mapping[str, float] | None = None
) -> tuple[str, ...]:
    """Return a sentence for each parameter that was chosen at an end of its grid.

    Parameters
    ----------
    params
        With the grids that were tried.
    chosen
        Values by the name of the parameter, those of a grid.
    most
        Largest values that make a difference here, where these are below the bounds of the
        parameters: the rank of the rows for a dimension.
    """
    found = _ends(params, _grids(params, chosen), chosen, most or {}).items()
    return tuple(
        _sentence(name, end, f"{chosen[name]:g}", place=f"'{params.GRIDS[name]}'")
        for name, end in found
    )


def search_end_warnings(
    params: Params, tried: Mapping[str, Sequence[float]], chosen: Mapping[str, float]
) -> tuple[str, ...]:
    """Return a sentence for each parameter that a search chose at an end of the values it tried.

    Parameters
    ----------
    params
        Of the class whose bounds count.
    tried
        Numbers by the name of the parameter.
    """
    return tuple(
        _sentence(name, end, f"{chosen[name]:g}", place=f"the search space of '{name}'")
        for name, end in _ends(params, tried, chosen, {}).items()
    )


def end_warnings_by_task(
    params: Params,
    chosen: Mapping[str, Mapping[str, float]],
    *,
    most: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[str, ...]:
    """Return the sentences of :func:`end_warnings` where each task has a choice of its own."""
    tasks: dict[tuple[str, End], list[str]] = {}
    for task, values in chosen.items():
        grids, bounds = _grids(params, values), (most or {}).get(task, {})
        for key in _ends(params, grids, values, bounds).items():
            tasks.setdefault(key, []).append(task)
    return tuple(
        _sentence(
            name,
            end,
            f"{chosen[names[0]][name]:g}, for {describe_tasks(names, len(chosen))},",
            place=f"'{params.GRIDS[name]}'",
        )
        for (name, end), names in tasks.items()
    )


def _grids(params: Params, names: Iterable[str]) -> dict[str, Sequence[float]]:
    return {name: getattr(params, params.GRIDS[name]) for name in names}


def _sentence(name: str, end: End, value: str, *, place: str) -> str:
    return (
        f"the chosen {name} = {value} is the {end} value that was tried: a {_BEYOND[end]} one may "
        f"do better, so add {_BEYOND[end]} values to {place}"
    )


def _ends(
    params: Params,
    grids: Mapping[str, Sequence[float]],
    chosen: Mapping[str, float],
    most: Mapping[str, float],
) -> dict[str, End]:
    """Return the end at which each parameter lies that lies at one."""
    ends: dict[str, End] = {}
    for name, value in chosen.items():
        grid = grids[name]
        low, high = _bounds(params, name)
        if len(set(grid)) < 2:
            continue
        if value == min(grid) and value > low:
            ends[name] = "smallest"
        elif value == max(grid) and value < min(high, most.get(name, high)):
            ends[name] = "largest"
    return ends


def _bounds(params: Params, name: str) -> tuple[float, float]:
    """Return the bounds of a field; infinite where it has none."""
    metadata: Iterable[object] = type(params).model_fields[name].metadata
    low, high = -float("inf"), float("inf")
    for one in metadata:
        low = max(low, getattr(one, "ge", low))
        high = min(high, getattr(one, "le", high))
    return low, high
