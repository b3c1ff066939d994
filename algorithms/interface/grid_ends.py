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
    found = _ends(params, chosen, most or {}).items()
    return tuple(_sentence(params, name, end, f"{chosen[name]:g}") for name, end in found)


def end_warnings_by_task(
    params: Params,
    chosen: Mapping[str, Mapping[str, float]],
    *,
    most: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[str, ...]:
    """Return the sentences of :func:`end_warnings` where each task has a choice of its own."""
    tasks: dict[tuple[str, End], list[str]] = {}
    for task, values in chosen.items():
        for key in _ends(params, values, (most or {}).get(task, {})).items():
            tasks.setdefault(key, []).append(task)
    return tuple(
        _sentence(
            params,
            name,
            end,
            f"{chosen[names[0]][name]:g}, for {describe_tasks(names, len(chosen))},",
        )
        for (name, end), names in tasks.items()
    )


def _sentence(params: Params, name: str, end: End, value: str) -> str:
    grid = params.GRIDS[name]
    return (
        f"the chosen {name} = {value} is the {end} value that was tried: a {_BEYOND[end]} one may "
        f"do better, so add {_BEYOND[end]} values to '{grid}'"
    )


def _ends(params: Params, chosen: Mapping[str, float], most: Mapping[str, float]) -> dict[str, End]:
    """Return the end at which each parameter lies that lies at one."""
    ends: dict[str, End] = {}
    for name, value in chosen.items():
        grid: Sequence[float] = getattr(params, params.GRIDS[name])
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
