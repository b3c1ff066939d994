"""Means that leave nothing of a constant, and variances that are nothing but rounding."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Deviation, as a part of the largest value, that the rounding of a mean explains.
FLAT_RTOL: Final = 16 * np.finfo(np.float64).eps


def column_means(rows: Array) -> Array:
    """Return the mean of each column (d,) of rows (n, d).

    Of a constant column it is the constant itself: a mean that misses it by rounding would leave a
    column of noise, which a penalty in units of the rows takes for data.
    """
    return np.asarray(np.where(np.all(rows == rows[0], axis=0), rows[0], rows.mean(axis=0)))


def is_flat(variance: float | Array, peak: float | Array) -> NDArray[np.bool_]:
    """Return whether a variance is zero, or what rounding makes of zero.

    Parameters
    ----------
    variance, peak : (...)
        Mean square about the mean, and the largest absolute value.
    """
    return np.asarray(np.sqrt(variance) <= FLAT_RTOL * np.asarray(peak))


def centre_columns(rows: Array) -> Array:
    """Return rows (n, d) about their mean, a flat column as zeros."""
    centred = rows - column_means(rows)
    peak = np.abs(rows).max(axis=0)
    # in parts of the largest value, whose square may be no number
    parts = centred / np.where(peak > 0, peak, 1.0)
    centred[:, is_flat(np.mean(parts**2, axis=0), 1.0)] = 0.0
    return centred
