"""Groups of rows in which a column of two values, such as yes and no, has only one of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL

#: Rows that are read for all pairs of a column of groups and one of two values.
_MAX_ROWS: Final = 2**25


def groups_without(groups: NDArray[np.intp], values: NDArray[np.float64]) -> tuple[int, int] | None:
    """Return in how many groups the smaller, and the larger of two values does not occur.

    Parameters
    ----------
    groups : (n_rows,)
        Number of the group of each row; -1 for none.
    values : (n_rows,)
        NaN is a missing value. None is returned unless there are two other values.
    """
    is_known = ~np.isnan(values) & (groups >= 0)
    known, of_known = values[is_known], groups[is_known]
    if not len(known):
        return None
    low, high = known.min(), known.max()
    is_high = known == high
    if low in (high, UNKNOWN_LEVEL) or not (is_high | (known == low)).all():
        return None
    n_groups = len(np.unique(groups[groups >= 0]))
    n_low, n_high = (n_groups - len(np.unique(of_known[chosen])) for chosen in (~is_high, is_high))
    return n_low, n_high


def find_one_sided(
    codes: Iterable[tuple[str, NDArray[np.intp]]], values: Mapping[str, NDArray[np.float64]]
) -> dict[str, dict[str, tuple[int, int]]]:
    """Return :func:`groups_without` by column of groups and column of two values.

    Columns for which no group lacks a value are left out, and so are the last ones of very many
    rows.

    Parameters
    ----------
    codes
        Names of columns, with the numbers of the groups of the rows.
    values
        Values of the rows, by name of a column.
    """
    found: dict[str, dict[str, tuple[int, int]]] = {}
    n_rows = max([1, *map(len, values.values())])
    for name, groups, other in islice(_pairs(codes, list(values)), _MAX_ROWS // n_rows + 1):
        missing = None if other == name else groups_without(groups, values[other])
        if missing is not None and any(missing):
            found.setdefault(name, {})[other] = missing
    return found


def _pairs(
    codes: Iterable[tuple[str, NDArray[np.intp]]], others: Sequence[str]
) -> Iterator[tuple[str, NDArray[np.intp], str]]:
    for name, groups in codes:
        yield from ((name, groups, other) for other in others)
