"""Warnings about selected parameters at an end of their grid, beyond which a better value may lie.

An end that is a bound of the parameter causes no warning: there are no values beyond it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from algorithms.interface.params import Params
from algorithms.interface.tasks import describe_tasks

End = Literal["smallest", "largest"]

_BEYOND: dict[End, str] = {"smallest": "smaller", "largest": "larger"}


def end_warnings(
    params: Params, chosen: Mapping[str, float], *, limits: Mapping[str, float] | None = None
) -> tuple[str, ...]:
    """Return a warning for each parameter that was selected at an end of its grid.

    Parameters
    ----------
    params
        Parameters with the grids.
    chosen
        Selected values by the name of the parameter.
    limits
        Largest effective values, if they are smaller than the bounds of the parameters: for
        example the rank of the rows for a dimension.
    """
    ends = _ends(params, _grids(params, chosen), chosen, limits or {}).items()
    return tuple(
        _sentence(name, end, f"{chosen[name]:g}", place=f"'{params.GRIDS[name]}'")
        for name, end in ends
    )


def search_end_warnings(
    params: Params, tried: Mapping[str, Sequence[float]], chosen: Mapping[str, float]
) -> tuple[str, ...]:
    """Return a warning for each parameter that a search chose at an end of the values it tried.

    Parameters
    ----------
    params
        Parameters of the algorithm, whose class has the bounds.
    tried
        Values that the search tried, by the name of the parameter.
    chosen
        Selected values by the name of the parameter.
    """
    return tuple(
        _sentence(name, end, f"{chosen[name]:g}", place=f"the search space of '{name}'")
        for name, end in _ends(params, tried, chosen, {}).items()
    )


def end_warnings_by_task(
    params: Params,
    chosen: Mapping[str, Mapping[str, float]],
    *,
    limits: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[str, ...]:
    """Return the warnings of :func:`end_warnings` if parameters were selected per task."""
    tasks: dict[tuple[str, End], list[str]] = {}
    for task, values in chosen.items():
        grids, bounds = _grids(params, values), (limits or {}).get(task, {})
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
        f"be better, so add {_BEYOND[end]} values to {place}"
    )


def _ends(
    params: Params,
    grids: Mapping[str, Sequence[float]],
    chosen: Mapping[str, float],
    limits: Mapping[str, float],
) -> dict[str, End]:
    """Return the end for each parameter whose value is at an end of its grid."""
    ends: dict[str, End] = {}
    for name, value in chosen.items():
        grid = grids[name]
        low, high = _bounds(params, name)
        if len(set(grid)) < 2:
            continue
        if value == min(grid) and value > low:
            ends[name] = "smallest"
        elif value == max(grid) and value < min(high, limits.get(name, high)):
            ends[name] = "largest"
    return ends


def _bounds(params: Params, name: str) -> tuple[float, float]:
    """Return the bounds of a field; infinite if it has none."""
    metadata: Iterable[object] = type(params).model_fields[name].metadata
    low, high = -float("inf"), float("inf")
    for one in metadata:
        low = max(low, getattr(one, "ge", low))
        high = min(high, getattr(one, "le", high))
    return low, high
