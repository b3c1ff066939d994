"""The restricted likelihood of a linear mixed model, its gradient, and the effects.

With Ψ = Σ/σ², G_t = Z_tᵀZ_t and W_t = (I + Z_tΨZ_tᵀ)⁻¹, Z_tᵀW_t = (I + G_tΨ)⁻¹Z_tᵀ has the size of
the effects of one task. With p independent columns and M = Σ X_tᵀW_tX_t,

    b = M⁻¹ Σ X_tᵀW_ty_t,   r_t = y_t − X_tb,   u_t = ΨZ_tᵀW_tr_t,   (n − p) σ² = Σ r_tᵀW_tr_t
    −log L = ½ [(n − p) log σ² + Σ log|I + G_tΨ| + log|M|] + constant
    ∂(−log L)/∂Ψ = ½ Σ_t [Z_tᵀW_tZ_t − g_tg_tᵀ/σ² − Z_tᵀW_tX_tM⁻¹X_tᵀW_tZ_t],   g_t = Z_tᵀW_tr_t

If tasks have fewer rows than effects, W_t itself is smaller, and |I + G_tΨ| = 1/|W_t|.

Reference: Laird, Ware, *Random-effects models for longitudinal data*, Biometrics 1982,
doi:10.2307/2529876; Harville, *Maximum likelihood approaches to variance component estimation*,
JASA 1977, doi:10.1080/01621459.1977.10480998 (REML).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.baselines.mixed_model.covariance import Structure
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.centering import times_roots

#: Smallest σ² relative to the variance of the targets; without a bound, targets without noise have
#: an infinite likelihood.
MIN_NOISE = 1e-10
#: Singular values of the columns below this, relative to the largest, count as 0.
RANK_RTOL = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The estimated effects, given Ψ.

    Parameters
    ----------
    b : (d + 1,)
        Fixed intercept and coefficients; of least norm if columns are dependent.
    U : (T, q)
        Random effects of each task.
    noise
        σ².
    value
        −log L up to a constant.
    gradient : (q, q)
        Derivative of ``value`` by Ψ.
    g : (T, q)
        U = gΨ.
    """

    b: Array
    U: Array
    noise: float
    value: float
    gradient: Array
    g: Array


@dataclass(frozen=True, slots=True, eq=False)
class MixedModelProblem:
    """Rows and targets of all tasks, and the products that every evaluation needs.

    Parameters
    ----------
    A : (n, d + 1)
        Rows with a leading column of ones, times the roots of the weights.
    y : (n,)
        Targets.
    task : (n,)
        Position of the task of each row.
    B : (d + 1, p)
        Basis of the independent combinations of columns.
    C, h : (T, q, d + 1), (T, q)
        Z_tᵀA_t and Z_tᵀy_t; Z_t has the first q columns of A_t.
    floor
        Bound on the noise, in units of (n − p) σ².
    blocks : (T, N, d + 2) or None
        [A_t y_t] with rows of zeros, if there are fewer rows N than effects; Z_t is then A_t.
    noise
        σ², if it is known.
    precision : (d + 1,) or None
        Inverse variances of the fixed effects; None: any are as likely.
    """

    A: Array
    y: Array
    task: Indices
    B: Array
    C: Array
    h: Array
    floor: float
    blocks: Array | None = None
    noise: float | None = None
    precision: Array | None = None

    @classmethod
    def of(
        cls,
        rows: Sequence[Array],
        targets: Sequence[Array],
        *,
        has_slopes: bool,
        weights: Sequence[Array | None],
        noise: float | None = None,
        precision: Array | None = None,
    ) -> "MixedModelProblem":
        """Return the problem for the rows (n_t, d) and targets (n_t,) of each task.

        Parameters
        ----------
        weights
            Weights (n_t,) of the rows of each task; None: equal ones. The noise of a row of weight
            s has the variance σ²/s, so rows and targets are multiplied by √s.
        """
        blocks = [
            times_roots(np.column_stack([np.ones(len(X)), X]), s)
            for X, s in zip(rows, weights, strict=True)
        ]
        targets = [
            times_roots(y[:, np.newaxis], s)[:, 0] for y, s in zip(targets, weights, strict=True)
        ]
        A, y = np.concatenate(blocks), np.concatenate(targets)
        q = A.shape[1] if has_slopes else 1
        B = np.eye(A.shape[1]) if precision is not None else _independent(A)
        C = np.stack([X[:, :q].T @ X for X in blocks])
        return cls(
            A=A,
            y=y,
            task=np.repeat(np.arange(len(rows)), [len(X) for X in rows]),
            B=B,
            C=C,
            h=np.stack([X[:, :q].T @ z for X, z in zip(blocks, targets, strict=True)]),
            floor=MIN_NOISE * max(float(np.sum((y - y.mean()) ** 2)), np.finfo(float).tiny),
            blocks=_padded(blocks, targets) if max(map(len, blocks)) < q else None,
            noise=noise,
            precision=precision,
        )

    @property
    def n_effects(self) -> int:
        """Number of random effects of a task, q."""
        return int(self.C.shape[1])

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the noise, n − p."""
        return len(self.y) - int(self.B.shape[1])

    def effects(self, Psi: Array) -> Effects:
        """Return the effects, the restricted likelihood and its gradient, given Ψ (q, q)."""
        if self.blocks is not None:
            return self._effects_by_rows(self.blocks, Psi)
        q = self.n_effects
        K = np.eye(q) + self.C[:, :, :q] @ Psi
        right_sides = np.concatenate([self.C, self.h[:, :, np.newaxis]], axis=2)
        solved: Array = np.linalg.solve(K, right_sides)
        V, w = solved[:, :, :-1], solved[:, :, -1]  # Z'WA and Z'Wy
        M, c = self._fixed_system(Psi, V, w)
        P = self.B @ np.linalg.solve(M, self.B.T)  # the inverse in terms of all columns
        b = P @ c
        g = w - V @ b
        U, noise, value = self._value(Psi, K, M, b, g)
        D = V[:, :, :q].sum(axis=0) - g.T @ g / noise
        D -= np.tensordot(V @ P, V, axes=([0, 2], [0, 2]))
        return Effects(b, U, noise, value, 0.25 * (D + D.T), g)

    def _effects_by_rows(self, blocks: Array, Psi: Array) -> Effects:
        """Return the same as :meth:`effects`, by matrices of the size of the rows of a task."""
        A = blocks[:, :, :-1]
        K = np.eye(A.shape[1]) + A @ Psi @ np.swapaxes(A, 1, 2)
        W = np.linalg.inv(K)
        solved = W @ blocks
        WA, Wy = solved[:, :, :-1], solved[:, :, -1]
        M = self._projected(np.tensordot(A, WA, axes=([0, 1], [0, 1])))
        P = self.B @ np.linalg.solve(M, self.B.T)
        b = P @ np.tensordot(A, Wy, axes=([0, 1], [0, 1]))
        g = np.einsum("tnq,tn->tq", A, Wy - WA @ b)
        U, noise, value = self._value(Psi, K, M, b, g)
        H = W - WA @ P @ np.swapaxes(WA, 1, 2)
        D = np.tensordot(A, H @ A, axes=([0, 1], [0, 1])) - g.T @ g / noise
        return Effects(b, U, noise, value, 0.25 * (D + D.T), g)

    def _value(
        self, Psi: Array, K: Array, M: Array, b: Array, g: Array
    ) -> tuple[Array, float, float]:
        """Return the random effects, σ² and −log L."""
        U, q = g @ Psi, self.n_effects
        residuals = self.y - self.A @ b
        residuals = residuals - np.einsum("nq,nq->n", self.A[:, :q], U[self.task])
        # r'Wr as a sum of positive terms, without cancellation
        squares = float(residuals @ residuals) + float(np.vdot(g, U)) + self.floor
        if self.precision is not None:
            squares += float(self.precision @ b**2)
        noise = squares / self.freedom if self.noise is None else self.noise
        fit = self.freedom * np.log(noise) if self.noise is None else squares / noise
        value = 0.5 * (
            fit
            + float(np.linalg.slogdet(K).logabsdet.sum())
            + float(np.linalg.slogdet(M).logabsdet)
        )
        return U, noise, value

    def _fixed_system(self, Psi: Array, V: Array, w: Array) -> tuple[Array, Array]:
        """Return M (p, p) and Σ A_tᵀW_ty_t (d + 1,)."""
        if self.n_effects == self.A.shape[1]:  # Z = A, so that nothing cancels
            return self._fixed_matrix(Psi, V), w.sum(axis=0)
        c = self.A.T @ self.y - np.einsum("tqi,qr,tr->i", self.C, Psi, w, optimize=True)
        return self._fixed_matrix(Psi, V), c

    def _fixed_matrix(self, Psi: Array, V: Array) -> Array:
        """Return M (p, p), given Z_tᵀW_tA_t (T, q, d + 1)."""
        if self.n_effects == self.A.shape[1]:
            return self._projected(V.sum(axis=0))
        M = self.A.T @ self.A - np.einsum("tqi,qr,trj->ij", self.C, Psi, V, optimize=True)
        return self._projected(M)

    def leverages(self, Psi: Array) -> Array:
        """Return the diagonal (n,) of the matrix that turns y into the fitted A_tb + Z_tu_t."""
        q = self.n_effects
        inverses = np.linalg.inv(np.eye(q) + self.C[:, :, :q] @ Psi)
        V = inverses @ self.C
        P = self.B @ np.linalg.solve(self._fixed_matrix(Psi, V), self.B.T)
        found = []
        for t, A in enumerate(np.split(self.A, np.flatnonzero(np.diff(self.task)) + 1)):
            ZPsi = A[:, :q] @ Psi
            R = A - ZPsi @ V[t]
            found.append(((ZPsi @ inverses[t]) * A[:, :q]).sum(axis=1) + ((R @ P) * R).sum(axis=1))
        return np.concatenate(found)

    def _projected(self, M: Array) -> Array:
        """Return a matrix (d + 1, d + 1) of the fixed effects in the basis B, (p, p)."""
        M = self.B.T @ (M + M.T) @ self.B / 2
        return M if self.precision is None else M + np.diag(self.precision)

    def objective(self, z: Array, structure: Structure) -> tuple[float, Array]:
        """Return −log L and its gradient by the parameters z of Ψ; infinity on overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            Psi = structure.matrix(z)
            if not np.isfinite(Psi).all():
                return np.inf, np.zeros_like(z)
            effects = self.effects(Psi)
            gradient = structure.pull_back(z, effects.gradient)
        is_finite = np.isfinite(effects.value) and np.isfinite(gradient).all()
        return (effects.value, gradient) if is_finite else (np.inf, np.zeros_like(z))


def _independent(A: Array) -> Array:
    """Return a basis (d + 1, p) of the independent combinations of columns."""
    _, s, right = np.linalg.svd(A, full_matrices=False)
    return np.asarray(right[s > RANK_RTOL * s[0]].T)


def _padded(blocks: Sequence[Array], targets: Sequence[Array]) -> Array:
    """Return [A_t y_t] (T, N, d + 2) with rows of zeros, which change no sum."""
    padded = np.zeros((len(blocks), max(map(len, blocks)), blocks[0].shape[1] + 1))
    for t, (A, y) in enumerate(zip(blocks, targets, strict=True)):
        padded[t, : len(A)] = np.column_stack([A, y])
    return padded


def posterior_mean(A: Array, y: Array, *, b: Array, Psi: Array) -> Array:
    """Return E[u] (q,) of a new task, given its rows (n, d + 1) and targets (n,)."""
    Z = A[:, : len(Psi)]
    K = np.eye(len(Psi)) + Z.T @ Z @ Psi
    return np.asarray(Psi @ np.linalg.solve(K, Z.T @ (y - A @ b)))
