"""Global maximum of the trace ratio Σ tr(UᵢᵀS_bⁱUᵢ) / Σ tr(UᵢᵀS_tⁱUᵢ) over orthonormal Uᵢ.

F(α) = Σ_i max over Uᵢ of tr(Uᵢᵀ(S_bⁱ - αS_tⁱ)Uᵢ) is a maximum of decreasing lines, so it is convex
and decreasing, and its root is the largest ratio. Newton's method on F is Dinkelbach's method:
compute the leading eigenvectors at α, then set α to their ratio. From the left it converges
monotonically and quadratically. It starts at the ratio of the directions of linear discriminant
analysis, which is often near.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.arrays import Array
from algorithms.numerics.eigen import leading_of_dense

#: Eigenvalues that differ by less than this, relative to the scale, count as equal.
TIE_RTOL = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Pencil:
    """The matrices S_b and S_t of a task, in an orthonormal basis of the span of its rows.

    Outside the span, S_b is 0 and S_t is ridge·I.

    Parameters
    ----------
    between : (n_classes, r)
        B with S_b = BᵀB.
    total : (r,)
        Diagonal of S_t without its ridge.
    ridge
        ρ, added to S_t in every direction.
    k
        Number of columns of U, at most r + n_fillers.
    n_fillers
        Number of directions outside the span that U may use.
    """

    between: Array
    total: Array
    ridge: float
    k: int
    n_fillers: int = 0

    @property
    def rank(self) -> int:
        """Dimension of the span."""
        return int(self.total.size)

    @property
    def trace_weight(self) -> float:
        """The part ρ·k of tr(UᵀS_tU) that is due to the ridge, the same for any U."""
        return self.ridge * self.k

    @property
    def tie(self) -> float:
        """Tolerance for equal eigenvalues of S_b - αS_t.

        It is relative to S_b and S_t, because their difference may cancel.
        """
        largest = float(np.max(self.total, initial=0.0))
        return TIE_RTOL * max(largest, float(np.sum(self.between**2)))

    def difference(self, alpha: float) -> Array:
        """Return S_b - αS_t in the span, without the common shift -αρI."""
        A = self.between.T @ self.between
        A.flat[:: self.rank + 1] -= alpha * self.total
        return A


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The eigenvectors of S_b - αS_t in the span of a task's rows; no ridge changes them.

    Parameters
    ----------
    values : (r,)
        Eigenvalues, decreasing.
    V : (r, r)
        Eigenvectors as columns.
    """

    values: Array
    V: Array


def first_ratio(pencils: Sequence[Pencil]) -> float:
    """Return a ratio that some U attain, at most the largest: by discriminant directions.

    It is 0 if a task needs more directions than these, and fillers are too few.
    """
    parts = np.zeros(2)
    for pencil in pencils:
        root = np.sqrt(pencil.total + pencil.ridge)
        B = pencil.between / root
        m = min(pencil.k, pencil.rank, len(B) - 1)
        if pencil.k - m > pencil.n_fillers:
            return 0.0
        lead = leading_of_dense(B @ B.T, m) @ B
        parts += scatter_of(pencil, np.linalg.qr((lead / root).T)[0])
    return float(parts[0] / parts[1]) if parts[1] > 0 else 0.0


def ratio_of(pencils: Sequence[Pencil], spectra: Sequence[Spectrum], alpha: float) -> float:
    """Return the ratio of the leading eigenvectors of S_b - αS_t, which is Newton's next α.

    The result is α itself if no direction has any scatter.
    """
    parts = np.zeros(2)
    for pencil, spectrum in zip(pencils, spectra, strict=True):
        m = n_inside(pencil, int((spectrum.values > 0).sum()))
        parts += scatter_of(pencil, spectrum.V[:, :m])
    return float(parts[0] / parts[1]) if parts[1] > 0 else alpha


def scatter_of(pencil: Pencil, Y: Array) -> Array:
    """Return tr(UᵀS_bU) and tr(UᵀS_tU) for the columns Y (r, m <= k) of U inside the span, (2,)."""
    between = np.sum((pencil.between @ Y) ** 2)
    total = np.sum(pencil.total @ Y**2) + pencil.trace_weight
    return np.array([between, total])


def decompose(pencil: Pencil, alpha: float) -> Spectrum:
    """Return the eigenvalues and eigenvectors of S_b - αS_t in the span."""
    values, V = np.linalg.eigh(pencil.difference(alpha))
    return Spectrum(values[::-1], V[:, ::-1])


def leading_directions(pencil: Pencil, alpha: float) -> Array:
    """Return the columns of U inside the span, (r, m); the other k - m are fillers outside it.

    Among directions with equal eigenvalues, all have the same ratio. Those with the largest S_b are
    used, and directions inside the span before fillers, which do not separate classes. This is the
    limit for α from the left, and null-space LDA for α = 1.
    """
    return directions_from(pencil, decompose(pencil, alpha))


def directions_from(pencil: Pencil, spectrum: Spectrum) -> Array:
    """Return the columns of U inside the span, (r, m), as in :func:`leading_directions`."""
    m = n_inside(pencil, int((spectrum.values >= -pencil.tie).sum()))
    return _with_ties(spectrum, pencil.between, m, tie=pencil.tie)


def leading_with_ties(A: Array, between: Array, k: int, *, tie: float) -> Array:
    """Return k leading eigenvectors of A; of equal eigenvalues, vectors with the largest S_b.

    Parameters
    ----------
    A : (r, r)
        Symmetric.
    between : (m, r)
        B with S_b = BᵀB.
    tie
        Eigenvalues that differ by less count as equal.

    Returns
    -------
    (r, k)
        Orthonormal columns.
    """
    values, V = np.linalg.eigh(A)
    return _with_ties(Spectrum(values[::-1], V[:, ::-1]), between, k, tie=tie)


def _with_ties(spectrum: Spectrum, between: Array, k: int, *, tie: float) -> Array:
    values, V = spectrum.values, spectrum.V
    if k == 0:
        return np.zeros((len(V), 0))
    is_above = values > values[k - 1] + tie
    is_tied = ~is_above & (values >= values[k - 1] - tie)
    if is_tied.sum() == 1:
        return V[:, :k]
    tied = V[:, is_tied]
    S_b = (between @ tied).T @ (between @ tied)
    chosen = tied @ leading_of_dense(S_b, k - int(is_above.sum())).T
    return np.hstack([V[:, is_above], chosen])


def n_inside(pencil: Pencil, n_preferred: int) -> int:
    """Return the number of directions inside the span.

    ``n_preferred`` directions are preferred to fillers; more are used if fillers are too few.
    """
    return int(numbers_inside(pencil, np.array(n_preferred)))


def numbers_inside(pencil: Pencil, n_preferred: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return :func:`n_inside` for several numbers of preferred directions."""
    at_least = np.maximum(n_preferred, pencil.k - pencil.n_fillers)
    return np.minimum(min(pencil.k, pencil.rank), at_least)
