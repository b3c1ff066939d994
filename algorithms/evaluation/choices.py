"""Who chooses a parameter: the algorithm inside its training rows, or whoever tries values."""

from collections.abc import Collection, Mapping
from typing import Any

from algorithms.interface.algorithm import Algorithm


def with_inner_selection(
    algorithm: Algorithm[Any, Any], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values, with the choice of what they leave open made inside the training rows.

    A parameter that is given is not chosen again: its grid is that one value.
    """
    params = algorithm.Params
    if "selection" not in params.model_fields or "selection" in values:
        return dict(values)
    given = {
        grid: [values[name]]
        for name, grid in params.GRIDS.items()
        if name in values and grid not in values
    }
    return {**values, **given, "selection": params.INNER_SELECTION}


def with_fixed_values(
    algorithm: Algorithm[Any, Any], values: Mapping[str, Any], searched: Collection[str]
) -> dict[str, Any]:
    """Return the values such that the algorithm does not choose anew what is searched.

    Parameters
    ----------
    values
        Of one candidate: what is given, and the values that are tried.
    """
    params = algorithm.Params
    names = [name for name in params.GRIDS if name in searched]
    if not names or "selection" not in params.model_fields:
        return dict(values)
    if params.GRIDS.keys() <= values.keys():
        return {**values, "selection": "given"}
    return {**values, **{params.GRIDS[name]: [values[name]] for name in names}}
