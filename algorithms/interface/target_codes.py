"""Detection of numeric targets that may be class codes."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Range of the number of distinct integers that may be class codes. Ratings from 0 to 10 have more
#: values.
MIN_CODES, MAX_CODES = 2, 10
#: Class codes repeat: mean number of rows per value, at least.
MIN_ROWS_PER_CODE: Final = 2


def class_codes(targets: Iterable[NDArray[Any]]) -> list[float]:
    """Return the distinct values of the targets of all tasks if they look like class codes.

    That is, if all are integers (of any dtype) with :data:`MIN_CODES` to :data:`MAX_CODES` distinct
    values that repeat; the list is empty if not.
    """
    values: set[float] = set()
    n_rows = 0
    for y in targets:
        distinct = np.unique(y)
        values.update((distinct + 0.0).tolist())  # -0 is 0
        n_rows += len(y)
        if len(values) > MAX_CODES or not np.array_equal(np.rint(distinct), distinct):
            return []
    if len(values) < MIN_CODES or n_rows < MIN_ROWS_PER_CODE * len(values):
        return []
    return sorted(values)
