"""Report on rows that belong together: their number, and the splits that divide them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algorithms.interface.tasks import TaskSet
from algorithms.interface.units import Units, divisible_rows, units_of
from algorithms.splits.splits import Splits


def describe_rows(tasks: TaskSet, splits: Splits) -> dict[str, Any]:
    """Return counts of the units of rows, and a warning if named splits divide them, as JSON.

    A named split is used exactly as named, so that published splits can be reproduced. The warning
    reports rows that are in both the training and the test part, in the same task or another.
    """
    units = units_of(tasks)
    is_given = splits.scheme == "given"
    warning = _divided_units_warning(tasks, units, splits.given or []) if is_given else None
    return {
        "n_rows": len(units.unit),
        "n_units": len(units.sizes),
        "largest_unit": int(units.sizes.max()),
        "n_never_held_out": len(units.unit) - sum(divisible_rows(tasks, units).values()),
        "warnings": [] if warning is None else [warning],
        "equal_rows": tasks.equal_rows,
    }


def about_equal(rows: Mapping[str, Any] | None) -> list[str]:
    """Return the sentence on equal rows of a result of :func:`describe_rows`, if it has one."""
    sentence = (rows or {}).get("equal_rows")  # not in old reports
    return [] if sentence is None else [sentence]


def _divided_units_warning(
    tasks: TaskSet, units: Units, parts: Sequence[Mapping[str, Sequence[int]]]
) -> str | None:
    """Return a warning with the first row of a divided unit; None if no unit is divided."""
    example, n_divided, n_test = "", 0, 0
    for which, rows in enumerate(parts):
        held_out = {
            task.name: np.isin(np.arange(task.n_samples), rows.get(task.name, ())) for task in tasks
        }
        is_test = np.concatenate([held_out[name] for name in units.names])
        trains = np.zeros(len(units.sizes), dtype=bool)
        trains[units.unit[~is_test]] = True
        is_divided = is_test & trains[units.unit]
        n_divided += int(np.count_nonzero(is_divided))
        n_test += int(np.count_nonzero(is_test))
        if not example and is_divided.any():
            row = int(np.flatnonzero(is_divided)[0])
            partner = int(np.flatnonzero(~is_test & (units.unit == units.unit[row]))[0])
            example = (
                f"split {which} tests on {units.place(row)} and trains on {units.place(partner)}"
            )
    if not example:
        return None
    have = "has" if n_divided == 1 else "have"
    return (
        f"{n_divided} of {n_test} test rows {have} the same values or the same group as training "
        f"rows: {example}; if such rows have similar targets, the errors are too small"
    )
