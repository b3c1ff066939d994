"""Parameter values that make an algorithm choose its parameters itself, or keep it from choosing.

An algorithm with a parameter ``selection`` can choose parameters inside its training rows. In a
comparison it should, in a search it should not: the search chooses.
"""

from collections.abc import Collection, Mapping
from typing import Any

from algorithms.interface.algorithm import Algorithm


def with_inner_selection(
    algorithm: Algorithm[Any, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values such that the algorithm selects the missing ones inside its training rows.

    A parameter in ``values`` keeps its value: its grid becomes that one value.
    """
    params = algorithm.Params
    if "selection" not in params.model_fields or "selection" in values:
        return dict(values)
    fixed = {
        grid: [values[name]]
        for name, grid in params.GRIDS.items()
        if name in values and grid not in values
    }
    return {**values, **fixed, "selection": params.INNER_SELECTION}


def with_fixed_values(
    algorithm: Algorithm[Any, Any], values: Mapping[str, Any], searched: Collection[str]
) -> dict[str, Any]:
    """Return the values such that the algorithm keeps the searched parameters fixed.

    Parameters
    ----------
    values
        Parameters of one candidate, from the job and from the search.
    """
    params = algorithm.Params
    names = [name for name in params.GRIDS if name in searched]
    if not names or "selection" not in params.model_fields:
        return dict(values)
    if params.GRIDS.keys() <= values.keys():
        return {**values, "selection": "given"}
    return {**values, **{params.GRIDS[name]: [values[name]] for name in names}}
