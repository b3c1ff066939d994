"""Centring that maps constant columns to exact zeros, in spite of rounding errors."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array

#: Relative deviation that can be a rounding error of the mean.
FLAT_RTOL: Final = 16 * np.finfo(np.float64).eps


def column_means(rows: Array, weights: Array | None = None) -> Array:
    """Return the mean of each column of rows (n, d), (d,).

    For a constant column it is exactly the constant. Otherwise rounding errors would remain after
    centring, and scaling by the variance would turn them into data.

    Parameters
    ----------
    weights : (n,) or None
        Weights of the rows; equal by default.
    """
    means = rows.mean(axis=0) if weights is None else weights @ rows / weights.sum()
    if not (rows[0] == rows[-1]).any():
        return np.asarray(means)  # no column is constant
    return np.asarray(np.where(np.all(rows == rows[0], axis=0), rows[0], means))


def column_variances(rows: Array, weights: Array | None = None) -> Array:
    """Return the variance of each column of rows (n, d), (d,).

    Parameters
    ----------
    weights : (n,) or None
        Weights of the rows; equal by default.
    """
    if weights is None:
        return np.asarray(rows.var(axis=0))
    return np.asarray(weights @ (rows - column_means(rows, weights)) ** 2 / weights.sum())


def times_roots(rows: Array, weights: Array | None) -> Array:
    """Return rows (n, d) times the roots of their weights (n,), as weighted squared losses need."""
    return rows if weights is None else np.sqrt(weights)[:, np.newaxis] * rows


def weighted_mean(values: Array, weights: Array | None = None) -> float:
    """Return the mean of values (n,) with weights (n,), or with equal ones."""
    return float(np.mean(values) if weights is None else weights @ values / weights.sum())


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
