"""What a report says of rows that belong together: how many, and which a named split divides."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.evaluation.splits import Splits
from algorithms.interface.tasks import TaskSet
from algorithms.interface.units import Units, divisible_rows, units_of


def describe_rows(tasks: TaskSet, splits: Splits) -> dict[str, Any]:
    """Return how the rows hang together, and warnings of named splits that divide them, as JSON.

    A named split is taken as it is named: whoever reproduces a published one wants just that. But
    a row that trains and is tested on as well, in this task or another, is told.
    """
    units = units_of(tasks)
    divided = _divided(tasks, units, splits.given or []) if splits.scheme == "given" else None
    return {
        "n_rows": len(units.unit),
        "n_units": len(units.sizes),
        "largest_unit": int(units.sizes.max()),
        "n_never_held_out": len(units.unit) - sum(divisible_rows(tasks).values()),
        "warnings": [] if divided is None else [divided],
    }


def _divided(
    tasks: TaskSet, units: Units, given: Sequence[Mapping[str, Sequence[int]]]
) -> str | None:
    """Return the warning that units are divided, with the first such row; None where none is."""
    found, n_divided, n_tested = "", 0, 0
    for which, rows in enumerate(given):
        held = {
            task.name: np.isin(np.arange(task.n_samples), rows.get(task.name, ())) for task in tasks
        }
        is_held = np.concatenate([held[name] for name in units.names])
        trains = np.zeros(len(units.sizes), dtype=bool)
        trains[units.unit[~is_held]] = True
        is_divided = is_held & trains[units.unit]
        n_divided += int(np.count_nonzero(is_divided))
        n_tested += int(np.count_nonzero(is_held))
        if not found and is_divided.any():
            row = int(np.flatnonzero(is_divided)[0])
            partner = int(np.flatnonzero(~is_held & (units.unit == units.unit[row]))[0])
            found = (
                f"split {which} tests on {units.place(row)} and trains on {units.place(partner)}"
            )
    if not found:
        return None
    return (
        f"{n_divided} of {n_tested} rows that are tested on belong together with rows that train "
        f"(the same values, or the same group): {found}; errors are too small where such rows "
        "have targets alike"
    )
