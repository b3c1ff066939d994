"""Search for tasks that are better learned alone, by leave-one-out errors.

Backward elimination: the tasks with the largest errors of the common fit, relative to the errors of
a separate fit, are left out of it, until two are left; of the sets on this path, the set with the
smallest error of all tasks is taken. A path has about 8 log T sets, because an eighth of the tasks
is left out at once. The best of many sets looks better than it is, so it is taken only if it is
clearly better than both other ways:

- than the fit of all tasks, by :data:`MIN_GAIN` standard errors over units of rows;
- than a fit of each task alone, by √(2 log T) standard errors over tasks, about the largest of T
  normal values. The errors of a task's rows depend on each other through its coefficients, so that
  a few tasks that look related by chance have a large gain over rows, but not over tasks.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array, Indices

#: Smallest gain over the fit of all tasks, in standard errors over units of rows.
MIN_GAIN: Final = 2.25
#: Smallest number of tasks with a common fit.
MIN_RELATED: Final = 2
#: Share of the tasks that a step leaves out, at least one.
STEP_SHARE: Final = 0.125


def find_unrelated(
    together: Callable[[Indices], Array], alone: Array, *, task: Indices, unit: Indices
) -> NDArray[np.bool_]:
    """Return whether each task is better learned alone, (n_tasks,).

    Parameters
    ----------
    together
        Returns the squared leave-one-out errors (n,) of all rows if the tasks at some positions
        have a common fit; the errors of other tasks are ignored.
    alone : (n,)
        Those of rows if each task has its own fit.
    task, unit : (n,)
        Task of each row, and unit of rows that are left out together.
    """
    n_tasks = int(task.max()) + 1
    related = np.arange(n_tasks)
    everything = together(related)
    best, unrelated = everything, np.zeros(n_tasks, dtype=bool)
    errors = everything
    while len(related) > MIN_RELATED:
        excess = np.bincount(task, np.nan_to_num(errors - alone), n_tasks) / np.bincount(task)
        n_out = min(max(1, int(STEP_SHARE * len(related))), len(related) - MIN_RELATED)
        worst = related[np.argsort(-excess[related], kind="stable")[:n_out]]
        related = np.setdiff1d(related, worst)
        errors = np.where(np.isin(task, related), together(related), alone)
        if np.nansum(errors) < np.nansum(best):
            best, unrelated = errors, ~np.isin(np.arange(n_tasks), related)
    return unrelated & (
        _is_shown(everything - best, unit, MIN_GAIN)
        and _is_shown(alone - best, task, np.sqrt(2 * np.log(n_tasks)))
    )


def _is_shown(gains: Array, unit: Indices, n_errors: float) -> bool:
    """Return whether the sum of gains (n,) of units is larger than some standard errors."""
    is_known = np.isfinite(gains)
    if not is_known.any():
        return False
    units = np.unique(unit[is_known], return_inverse=True)[1]
    sums = np.bincount(units, gains[is_known])
    error = np.sqrt(len(sums)) * float(sums.std(ddof=1)) if len(sums) > 1 else np.inf
    return bool(sums.sum() > n_errors * error)
