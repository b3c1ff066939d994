"""Elimination of the tasks' own parts from mean-regularised learning, for many regularisations.

The symbols are the same as in ``mean_regularised.py``. One eigendecomposition of each task serves
every γ, and one of S every μ. No matrix is larger than the rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.leave_one_out import left_out_rows, left_out_units


@dataclass(frozen=True, slots=True, eq=False)
class TaskSpectrum:
    """Rows of a task, factorised so that X = PM and PᵀH = diag(γ/(λ + γ)) Pᵀ for every γ.

    With at least as many rows as columns, M has the eigenvectors of XᵀX; with fewer, P has the
    eigenvectors of XXᵀ.

    Parameters
    ----------
    P : (n_t, r)
    M : (r, q)
    values : (r,)
        Eigenvalues λ.
    y : (n_t,)
        Targets. Like the rows, they are centred if there are intercepts, and multiplied by the
        roots of the weights if there are any.
    z : (r,)
        Pᵀy.
    is_dual
        Whether there are fewer rows than columns; then PᵀP = I, otherwise diag(λ).
    """

    P: Array
    M: Array
    values: Array
    y: Array
    z: Array
    is_dual: bool

    @classmethod
    def of(cls, X: Array, y: Array) -> "TaskSpectrum":
        """Return the spectrum of the rows (n_t, q) and targets (n_t,) of a task."""
        is_dual = X.shape[0] < X.shape[1]
        values, V = np.linalg.eigh(X @ X.T if is_dual else X.T @ X)
        P, M = (V, V.T @ X) if is_dual else (X @ V, V.T)
        return cls(P, M, np.maximum(values, 0.0), y, P.T @ y, is_dual)

    @property
    def squares(self) -> Array:
        """Diagonal of PᵀP, (r,)."""
        return np.ones_like(self.values) if self.is_dual else self.values

    def kept(self, gamma: float) -> Array:
        """Return γ/(λ + γ), (r,)."""
        return np.asarray(gamma / (self.values + gamma))

    def shrinkage(self, gamma: float) -> tuple[float, Array]:
        """Return the a and b (r,) of H = aI + P diag(b) Pᵀ."""
        if self.is_dual:
            return 0.0, self.kept(gamma)
        return 1.0, np.asarray(-1.0 / (self.values + gamma))


@dataclass(frozen=True, slots=True, eq=False)
class Eliminated:
    """Linear system of the common part w_0 after elimination of all v_t: (S + μI) w_0 = c.

    Parameters
    ----------
    spectra
        The tasks.
    values, Q : (q,), (q, q)
        Eigenvalues and eigenvectors of S = Σ_t X_tᵀH_tX_t.
    c : (q,)
        Σ_t X_tᵀH_ty_t.
    """

    gamma: float
    spectra: Sequence[TaskSpectrum]
    values: Array
    Q: Array
    c: Array

    @classmethod
    def of(cls, spectra: Sequence[TaskSpectrum], gamma: float) -> "Eliminated":
        """Return the system for a γ."""
        q = spectra[0].M.shape[1]
        S, c = np.zeros((q, q)), np.zeros(q)
        for spectrum in spectra:
            kept = spectrum.kept(gamma)
            S += spectrum.M.T @ ((spectrum.squares * kept)[:, np.newaxis] * spectrum.M)
            c += spectrum.M.T @ (kept * spectrum.z)
        values, Q = np.linalg.eigh(S)
        return cls(gamma, spectra, np.maximum(values, 0.0), Q, c)

    def common(self, mus: Sequence[float]) -> Array:
        """Return w_0 for each μ, (q, k)."""
        values = self.values[:, np.newaxis] + np.array(mus)
        return np.asarray(self.Q @ ((self.Q.T @ self.c)[:, np.newaxis] / values))

    def own(self, w_0: Array) -> Array:
        """Return the v_t, (T, q)."""
        return np.stack(
            [
                spectrum.M.T
                @ (
                    (spectrum.z - spectrum.squares * (spectrum.M @ w_0))
                    / (spectrum.values + self.gamma)
                )
                for spectrum in self.spectra
            ]
        )

    def residuals(self, W_0: Array) -> list[Array]:
        """Return H_t(y_t − X_tw_0) of each task, (n_t, k), for the columns of W_0 (q, k)."""
        residuals = []
        for spectrum in self.spectra:
            a, b = spectrum.shrinkage(self.gamma)
            kept = spectrum.kept(self.gamma)[:, np.newaxis]
            inner = (b * spectrum.z)[:, np.newaxis] - kept * (spectrum.M @ W_0)
            residuals.append(a * spectrum.y[:, np.newaxis] + spectrum.P @ inner)
        return residuals

    def lifted(self) -> Array:
        """Return H_tX_tQ of all tasks, (n, q)."""
        return np.concatenate(
            [
                spectrum.P @ (spectrum.kept(self.gamma)[:, np.newaxis] * (spectrum.M @ self.Q))
                for spectrum in self.spectra
            ]
        )


@dataclass(frozen=True, eq=False)
class TaskBlocks:
    """The block-diagonal matrix of H_t − r_tr_tᵀ over all tasks, where r_tr_tᵀ is 1/n_t.

    Parameters
    ----------
    task : (n,)
        Task of each row.
    roots : (n,)
        r_t, the roots of 1/n_t (with weights, of s_i/Σs) with intercepts, 0 without.
    diagonal : (n,)
        Diagonal of the matrix.
    """

    parts: Eliminated
    task: Indices
    roots: Array
    diagonal: Array

    @classmethod
    def of(cls, parts: Eliminated, roots: Array) -> "TaskBlocks":
        """Return the matrix of all tasks."""
        sizes = [len(spectrum.y) for spectrum in parts.spectra]
        diagonals = []
        for spectrum in parts.spectra:
            a, b = spectrum.shrinkage(parts.gamma)
            diagonals.append(a + spectrum.P**2 @ b)
        task = np.repeat(np.arange(len(sizes)), sizes)
        return cls(parts, task, roots, np.concatenate(diagonals) - roots**2)

    def at(self, rows: Indices) -> Array:
        """Return the blocks (n_units, k, k) between the rows (n_units, k) of each unit."""
        task = self.task[rows]
        P, a, b = self._padded
        blocks = (P[rows] * b[task]) @ np.swapaxes(P[rows], 1, 2)
        blocks += a[task][:, :, np.newaxis] * np.eye(rows.shape[1])
        blocks -= self.roots[rows][:, :, np.newaxis] * self.roots[rows][:, np.newaxis]
        is_same = task[:, :, np.newaxis] == task[:, np.newaxis]
        return np.asarray(np.where(is_same, blocks, 0.0))

    @cached_property
    def _padded(self) -> tuple[Array, Array, Array]:
        """Return P (n, r), and a (T,) and b (T, r) of all tasks, with zeros up to the longest."""
        spectra = self.parts.spectra
        r = max(len(spectrum.values) for spectrum in spectra)
        P, a, b = np.zeros((len(self.task), r)), np.zeros(len(spectra)), np.zeros((len(spectra), r))
        starts = np.cumsum([0, *(len(spectrum.y) for spectrum in spectra)])
        for t, (start, spectrum) in enumerate(zip(starts, spectra, strict=False)):
            rank = len(spectrum.values)
            P[start : start + len(spectrum.y), :rank] = spectrum.P
            a[t], b[t, :rank] = spectrum.shrinkage(self.parts.gamma)
        return P, a, b


def left_out_squares(
    parts: Eliminated, roots: Array, units: Sequence[Indices], mus: Sequence[float]
) -> Array:
    """Return the squared leave-one-out errors of the rows of all tasks for each μ, (k, n).

    For a unit with rows G, the errors are (Q⁻¹)_GG⁻¹ r_G, where r are the residuals of the fit with
    all rows. With intercepts, 1/n_t is subtracted from the entries of Q⁻¹ between rows of task t.
    With weights s, rows and targets are multiplied by √s, and 1/n_t is √(s_is_j)/Σs.

    Parameters
    ----------
    roots : (n,)
        Roots of 1/n_t with intercepts, 0 without.
    units
        The rows of units of several rows, which are left out together, from ``units_by_size``.
    """
    lifted, task_blocks = parts.lifted(), TaskBlocks.of(parts, roots)
    all_shares = 1.0 / (parts.values + np.array(mus)[:, np.newaxis])
    residuals = np.concatenate(parts.residuals(parts.common(mus)))
    diagonals = task_blocks.diagonal[:, np.newaxis] - lifted**2 @ all_shares.T
    errors = left_out_rows(residuals, diagonals)
    for rows in units:
        of_tasks, common = task_blocks.at(rows), lifted[rows]
        for k, shares in enumerate(all_shares):
            blocks = of_tasks - (common * shares) @ np.swapaxes(common, 1, 2)
            errors[rows, k] = left_out_units(residuals[rows, k : k + 1], blocks)[:, :, 0]
    return np.ascontiguousarray(errors.T) ** 2
