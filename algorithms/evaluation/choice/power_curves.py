"""Curves c + b n^(-a) with b >= 0: how losses, or gains, fall with the number n of training rows.

For a given exponent a, the limit c and the factor b minimise a weighted sum of squares in closed
form, with c within bounds. The exponent is found on a grid.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.numerics.arrays import Array

#: Exponents that are tried; regular models have 1/2 to 1.
_EXPONENTS: Final = np.linspace(0.25, 2.0, 36)


@dataclass(frozen=True, slots=True, eq=False)
class PowerCurves:
    """Some curves; each array is (n_curves,)."""

    limit: Array
    factor: Array
    exponent: Array

    def at(self, n: Array) -> Array:
        """Return the values (n_curves, n_points) at some numbers of rows."""
        decay = n ** -self.exponent[:, np.newaxis]
        return self.limit[:, np.newaxis] + self.factor[:, np.newaxis] * decay


def fit_power_curves(
    n: Array, values: Array, weights: Array, *, low: float = -np.inf, high: float = np.inf
) -> PowerCurves:
    """Return the curve of the smallest weighted squared error for each row of values.

    Parameters
    ----------
    n : (n_points,)
    values : (n_curves, n_points)
    weights : (n_points,)
    low, high
        Bounds of the limit.
    """
    share = weights / weights.sum()
    fits = [_fit(n**-a, values, share, (low, high)) for a in _EXPONENTS]
    best = np.stack([error for *_, error in fits]).argmin(axis=0)
    curve = np.arange(len(values))
    limits, factors = (np.stack([fit[i] for fit in fits])[best, curve] for i in (0, 1))
    return PowerCurves(limits, factors, _EXPONENTS[best])


def _fit(
    x: Array, values: Array, share: Array, bounds: tuple[float, float]
) -> tuple[Array, Array, Array]:
    """Return limits, factors and errors of the constrained least squares of c + b x."""
    x_mean, mean = x @ share, values @ share
    centred = (x - x_mean) * share
    slope = (values - mean[:, np.newaxis]) @ centred / (centred @ (x - x_mean))
    factor = np.maximum(slope, 0.0)
    free = mean - factor * x_mean
    limit = np.clip(free, *bounds)
    through = np.maximum((values - limit[:, np.newaxis]) @ (share * x) / (share @ x**2), 0.0)
    factor = np.where(limit == free, factor, through)
    residuals = values - limit[:, np.newaxis] - factor[:, np.newaxis] * x
    return limit, factor, residuals**2 @ share
