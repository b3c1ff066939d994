"""Ridge regression of the rows of all tasks, with intercepts of the tasks drawn to their mean.

    min_{w, b} Σ_i s_i(y_i − ⟨w, x_i⟩ − b_t(i))² + γ‖w‖² + κ Σ_t (b_t − b)²,   s_i: weights

κ → 0 are separate intercepts (fixed effects), κ → ∞ one intercept. Between them κ is the number of
rows that the mean b counts for: the ratio of the variances of noise and intercepts in a model with
random intercepts. For given w and b, b_t − b is the mean residual times n_t/(n_t + κ), n_t = Σ s_i.
Without b_t the loss is that of rows, targets and a constant column less θ_t times their task means,
θ_t = 1 − (1 + n_t/κ)^−½: generalised least squares.

Reference: Swamy, Arora, *The exact finite sample properties of the estimators of coefficients in
the error components regression models*, Econometrica 1972, doi:10.2307/1909405
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.leave_one_out import left_out_errors, outer_products


@dataclass(frozen=True, slots=True, eq=False)
class TaskIntercepts:
    """Intercepts of tasks whose rows follow each other.

    Parameters
    ----------
    sizes : (T,)
        Number of rows of each task.
    roots : (n,)
        Roots of the weights of the rows.
    kappa
        κ, above 0.
    """

    sizes: Indices
    roots: Array
    kappa: float

    @classmethod
    def of(cls, sizes: Sequence[int], weights: Array | None, kappa: float) -> "TaskIntercepts":
        """Return intercepts for numbers of rows and weights (n,), or equal ones."""
        roots = np.ones(sum(sizes)) if weights is None else np.sqrt(weights)
        return cls(np.array(sizes, dtype=np.intp), roots, kappa)

    @property
    def task(self) -> Indices:
        """Position of the task of each row, (n,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def masses(self) -> Array:
        """Sum of the weights of each task, (T,)."""
        return self._sums(self.roots**2)

    def reduce(self, Z: Array) -> Array:
        """Return weighted rows (n, k) less θ_t times their task means."""
        theta = 1.0 - 1.0 / np.sqrt(1.0 + self.masses / self.kappa)
        means = self._sums(self._times_roots(Z)) / self.masses[:, np.newaxis]
        return Z - self._times_roots((theta[:, np.newaxis] * means)[self.task])

    def means(self, residuals: Array, b: Array) -> Array:
        """Return the b_t (T, m), given residuals y − ⟨w, x⟩ (n, m) and b (m,)."""
        sums = self._sums(self.roots[:, np.newaxis] ** 2 * residuals)
        masses = self.masses[:, np.newaxis]
        return np.asarray((sums + self.kappa * b) / (masses + self.kappa))

    def centred(self, A: Array, Y: Array) -> tuple[Array, Array, Array, Array]:
        """Return reduced rows (n, q) and targets (n, m) without b, and the b (q,), (m,) of each."""
        constant = self.reduce(self.roots[:, np.newaxis])
        reduced = [self.reduce(self._times_roots(Z)) for Z in (A, Y)]
        size = float(np.vdot(constant, constant))
        means = [(constant.T @ Z)[0] / size for Z in reduced]
        A, Y = (Z - constant * mean for Z, mean in zip(reduced, means, strict=True))
        return A, Y, means[0], means[1]

    def _sums(self, Z: Array) -> Array:
        starts = np.cumsum([0, *self.sizes[:-1]])
        return np.asarray(np.add.reduceat(Z, starts, axis=0))

    def _times_roots(self, Z: Array) -> Array:
        return np.asarray(self.roots[:, np.newaxis] * Z)


def ridge_with_intercepts(
    A: Array, Y: Array, intercepts: TaskIntercepts, *, ridge: float
) -> tuple[Array, Array, Array]:
    """Return w (q, m), the b_t (T, m) and b (m,) for rows (n, q) and targets (n, m)."""
    reduced, targets, mean, mean_Y = intercepts.centred(A, Y)
    q = A.shape[1]
    w = np.linalg.solve(reduced.T @ reduced + ridge * np.eye(q), reduced.T @ targets)
    b = mean_Y - mean @ w
    return np.asarray(w), intercepts.means(Y - A @ w, b), b


@dataclass(frozen=True, slots=True, eq=False)
class InterceptPath:
    """Leave-one-out errors for many γ and one κ, from one eigendecomposition.

    With R for the reduction, and the reduced rows without b in the basis P of eigenvectors, I − H
    is RᵀR − ccᵀ − RP(Λ + γI)⁻¹PᵀR; c is what b adds. If there are at least as many columns as rows,
    it is RPγ(Λ + γI)⁻¹PᵀR, with orthonormal P.

    Parameters
    ----------
    P : (n, r)
        RP.
    values : (r,)
        Eigenvalues Λ.
    images : (r, m)
        PᵀRy.
    residuals : (n, m)
        (RᵀR − ccᵀ)y.
    added : (n,)
        c.
    is_dual
        Whether there are as many columns as rows.
    """

    intercepts: TaskIntercepts
    P: Array
    values: Array
    images: Array
    residuals: Array
    added: Array
    is_dual: bool

    @classmethod
    def of(cls, A: Array, Y: Array, intercepts: TaskIntercepts) -> "InterceptPath":
        """Return the path for rows (n, q) and targets (n, m)."""
        A, Y, _, _ = intercepts.centred(A, Y)
        n, q = A.shape
        constant = intercepts.reduce(intercepts.roots[:, np.newaxis])
        constant /= np.linalg.norm(constant)
        if is_dual := q >= n - 1:
            K = A @ A.T
            # the constant is an eigenvector of the value 0, which a larger one separates
            values, V = np.linalg.eigh(K + (2 * np.trace(K) or 1.0) * (constant @ constant.T))
            values, P = np.maximum(values[:-1], 0.0), V[:, :-1]
        else:
            values, V = np.linalg.eigh(A.T @ A)
            values, P = np.maximum(values, 0.0), A @ V
        return cls(
            intercepts,
            P=intercepts.reduce(P),
            values=values,
            images=P.T @ Y,
            residuals=intercepts.reduce(Y),
            added=intercepts.reduce(constant)[:, 0],
            is_dual=is_dual,
        )

    def errors(self, ridge: float, *, units: Sequence[Indices] = ()) -> Array:
        """Return the errors (n, m) of :func:`algorithms.numerics.leave_one_out.left_out_errors`.

        Parameters
        ----------
        units
            The rows of units of several rows.
        """
        shrunk = self.P * ((ridge if self.is_dual else 1.0) / (self.values + ridge))
        inner, diagonal = shrunk @ self.images, np.sum(shrunk * self.P, axis=1)
        residuals = inner
        masses, roots, task = self.intercepts.masses, self.intercepts.roots, self.intercepts.task
        shares = 1.0 / (masses + self.intercepts.kappa)
        if not self.is_dual:
            residuals = self.residuals - inner
            diagonal = 1.0 - shares[task] * roots**2 - self.added**2 - diagonal

        def blocks_of(rows: Indices) -> Array:
            inner = shrunk[rows] @ np.swapaxes(self.P[rows], 1, 2)
            if self.is_dual:
                return np.asarray(inner)
            tasks = task[rows]
            is_same = tasks[:, :, np.newaxis] == tasks[:, np.newaxis]
            own = is_same * shares[tasks][:, np.newaxis] * outer_products(roots[rows])
            return np.asarray(
                np.eye(rows.shape[1]) - own - outer_products(self.added[rows]) - inner
            )

        return left_out_errors(residuals, diagonal, blocks_of, units=units)
