"""Centring that maps constant columns to exact zeros, in spite of rounding errors."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Relative deviation that can be a rounding error of the mean.
FLAT_RTOL: Final = 16 * np.finfo(np.float64).eps


def column_means(rows: Array) -> Array:
    """Return the mean of each column of rows (n, d), (d,).

    For a constant column it is exactly the constant. Otherwise rounding errors would remain after
    centring, and scaling by the variance would turn them into data.
    """
    return np.asarray(np.where(np.all(rows == rows[0], axis=0), rows[0], rows.mean(axis=0)))


def is_flat(variance: float | Array, peak: float | Array) -> NDArray[np.bool_]:
    """Return whether a variance is zero up to rounding errors.

    Parameters
    ----------
    variance : (...)
        Variances of columns.
    peak : (...)
        Largest absolute value in each column.
    """
    return np.asarray(np.sqrt(variance) <= FLAT_RTOL * np.asarray(peak))


def centre_columns(rows: Array) -> Array:
    """Return rows (n, d) minus their mean; columns that are constant up to rounding are 0."""
    centred = rows - column_means(rows)
    peak = np.abs(rows).max(axis=0)
    # relative to the largest value, because squares of large values overflow
    relative = centred / np.where(peak > 0, peak, 1.0)
    centred[:, is_flat(np.mean(relative**2, axis=0), 1.0)] = 0.0
    return centred
