"""Trace ratios of several candidates on the same tasks.

The eigenvectors of S_b - αS_t depend on α alone: candidates differ in the number of directions and
in the ridge, which shifts all eigenvalues. So the decompositions for one candidate also give the F
of :mod:`algorithms.numerics.trace_ratio` and its slope, at the same α, for all others, and the root
of a candidate is first interpolated between the roots of earlier candidates. One step of Newton's
method is then often enough.
"""

from collections.abc import Sequence

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.trace_ratio import (
    Pencil,
    Spectrum,
    decompose,
    directions_from,
    numbers_inside,
)

#: Newton's method stops at this change of α. Its convergence is quadratic, so the error is about
#: the square of it.
STEP_ATOL = 1e-6
#: Maximum number of Newton steps; more indicate an error.
MAX_STEPS = 100


class _Sums:
    """Sums over the first m eigenvectors of one task at each known α.

    Attributes
    ----------
    n_positive : (n_alphas,)
        Number of positive eigenvalues.
    by_number : (n_alphas, 2, r + 1)
        tr(UᵀS_bU) and tr(UᵀS_tU) for each m.
    """

    def __init__(self, pencil: Pencil) -> None:
        self.n_positive = np.zeros(0, dtype=np.intp)
        self.by_number = np.zeros((0, 2, pencil.rank + 1))

    def add(self, pencil: Pencil, spectrum: Spectrum) -> None:
        """Add the sums at another α."""
        sums = np.zeros((1, 2, pencil.rank + 1))
        np.cumsum(np.sum((pencil.between @ spectrum.V) ** 2, axis=0), out=sums[0, 0, 1:])
        np.cumsum(pencil.total @ spectrum.V**2, out=sums[0, 1, 1:])
        self.n_positive = np.append(self.n_positive, np.sum(spectrum.values > 0))
        self.by_number = np.concatenate([self.by_number, sums])

    def of(self, pencil: Pencil) -> Array:
        """Return tr(UᵀS_bU) and tr(UᵀS_tU) for the directions of a candidate, (2, n_alphas)."""
        m = numbers_inside(pencil, self.n_positive)
        between, total = self.by_number[np.arange(len(m)), :, m].T
        return np.stack([between, total + pencil.trace_weight])


class RatioPath:
    """The largest trace ratios of candidates, each started from the previous ratios."""

    def __init__(self) -> None:
        self._alphas: list[float] = []
        self._sums: list[_Sums] = []

    def solve(self, pencils: Sequence[Pencil]) -> list[Array]:
        """Return the directions (r, m) of each task at the largest ratio.

        Parameters
        ----------
        pencils
            One per task, with the same scatter matrices in every call.
        """
        self._sums = self._sums or [_Sums(pencil) for pencil in pencils]
        alpha = self._start(pencils)
        for _ in range(MAX_STEPS):
            spectra = [decompose(pencil, alpha) for pencil in pencils]
            self._alphas.append(alpha)
            for pencil, spectrum, task_sums in zip(pencils, spectra, self._sums, strict=True):
                task_sums.add(pencil, spectrum)
            between, total = self._scatter(pencils)[:, -1]
            change = between / total - alpha if total > 0 else 0.0
            if abs(change) <= STEP_ATOL:
                break
            alpha += change
        return [directions_from(*pair) for pair in zip(pencils, spectra, strict=True)]

    def _start(self, pencils: Sequence[Pencil]) -> float:
        """Return the root of F as interpolated between the known α, 0 if none is known.

        F decreases, so α is a function of it, with the inverse slope of F.
        """
        if not self._alphas:
            return 0.0
        alphas = np.array(self._alphas)
        between, total = self._scatter(pencils)
        if not total.all():
            return 0.0
        F = between - alphas * total
        left, right = F >= 0, F < 0
        if not left.any() or not right.any():
            nearest = int(np.abs(F).argmin())
            return float(between[nearest] / total[nearest])
        i = int(np.where(left, alphas, -np.inf).argmax())
        j = int(np.where(right, alphas, np.inf).argmin())
        start = _cubic(F[[i, j]], alphas[[i, j]], -1.0 / total[[i, j]])
        return min(max(start, float(alphas[i])), float(alphas[j]))

    def _scatter(self, pencils: Sequence[Pencil]) -> Array:
        """Return Σ tr(UᵀS_bU) and Σ tr(UᵀS_tU) over the tasks at each known α, (2, n_alphas)."""
        sums = [task_sums.of(p) for task_sums, p in zip(self._sums, pencils, strict=True)]
        return np.asarray(np.sum(sums, axis=0))


def _cubic(x: Array, y: Array, slopes: Array) -> float:
    """Return the value at 0 of the cubic with values y and slopes at two points x."""
    h = x[1] - x[0]
    t = -x[0] / h
    basis = np.array([(1 + 2 * t) * (1 - t) ** 2, t**2 * (3 - 2 * t)])
    steps = np.array([t * (1 - t) ** 2, t**2 * (t - 1)])
    return float(basis @ y + h * (steps @ slopes))
