"""Detection of numeric targets that may be class codes."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from algorithms.interface.tasks import Task

#: Range of the number of distinct integers that may be class codes. Ratings from 0 to 10 have more
#: values.
MIN_CODES, MAX_CODES = 2, 10
#: Class codes repeat: mean number of rows per value, at least.
MIN_ROWS_PER_CODE: Final = 2


def warn_of_codes(tasks: Sequence[Task]) -> list[str]:
    """Return a warning if the numeric targets of all tasks together look like class codes.

    That is, if all are integers (of any dtype) with :data:`MIN_CODES` to :data:`MAX_CODES` distinct
    values that repeat.
    """
    numbers = [task.y for task in tasks if task.y is not None and task.target == "numbers"]
    values: set[float] = set()
    for y in numbers:
        distinct = np.unique(y)
        values.update((distinct + 0.0).tolist())  # -0 is 0
        if len(values) > MAX_CODES or not np.array_equal(np.rint(distinct), distinct):
            return []
    n_rows = sum(len(y) for y in numbers)
    if len(values) < MIN_CODES or n_rows < MIN_ROWS_PER_CODE * len(values):
        return []
    listed = ", ".join(f"{value:.15g}" for value in sorted(values))
    warning = (
        f"all targets are integers with {len(values)} distinct values ({listed}) and are used as "
        "numbers, for regression; if they are class codes, upload with target_kind=classes, and if "
        "they are numbers, with target_kind=numbers"
    )
    return [warning]
