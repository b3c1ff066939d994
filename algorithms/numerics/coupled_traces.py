"""The objective of RMT-PCA on a product of Grassmannians: value, gradient and Newton model.

J(U_1..U_T) = ½ Σ_t tr(U_t C_t U_tᵀ) + λ/4 Σ_{s≠t} tr(P_s P_t),   P_t = U_tᵀU_t,

with bases as rows, U (T, k, d). With G = Σ_t P_t and F_t = U_t (C_t + λG):

    M_t = F_t U_tᵀ = S_t + λI,    grad_t = F_t - M_t U_t,
    (H E)_t = Π_t[ M_t E_t - E_t (C_t + λG) - λ U_t D ],    D = Σ_s (E_sᵀU_s + U_sᵀE_s),

where H is the Hessian of -J. Couplings are products with all bases stacked as (Tk, d): with
G (d, d) if Tk > d, with the Gram matrix (Tk, Tk) otherwise. One product with H costs O(T k d²), or
O(T k (m d + T k d)) with thin factors of m rows.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.covariances import Covariances
from algorithms.numerics.grassmann import project, retract, transpose

#: Lower bound of the curvatures of the preconditioner, relative to the largest.
CURVATURE_FLOOR = 1e-3


class Evaluation(NamedTuple):
    """The objective at a point.

    Parameters
    ----------
    J
        Value.
    residual
        max_t ‖grad_t‖ / (tr C_t + λ(T-1)k), relative to each task's own scale, so that a task with
        large variance does not dominate.
    F : shape of the point
        U_t (C_t + λG), from which gradient and curvature follow.
    """

    J: float
    residual: float
    F: Array


class TrialStep(NamedTuple):
    """A step of the quadratic model, and the point after it.

    Parameters
    ----------
    point
        The point after the step.
    value
        The objective at this point.
    predicted
        Increase of J that the model predicts.
    length
        Length in the norm of the preconditioner.
    is_clipped
        The step ended at the boundary of the trust region.
    """

    point: Array
    value: Evaluation
    predicted: float
    length: float
    is_clipped: bool


class CoupledTraces(Protocol):
    """The objective as the Newton iteration sees it; points are bases (T, k, d)."""

    @property
    def lam(self) -> float:
        """Weight λ of the coupling."""

    @property
    def noise(self) -> float:
        """Rounding error of a change of J."""

    def with_weight(self, C: Covariances, lam: float) -> Self:
        """Return the objective for the same matrices and another λ."""

    def evaluate(self, point: Array) -> Evaluation:
        """Return value, residual and F."""

    def ascend(self, point: Array, *, n_steps: int) -> Array:
        """Return the point after parallel ascent steps, which never lower J; λ > 0.

        A step replaces each basis by a basis of the rows of F_t = U_t (C_t + λG), where G includes
        the projector of task t itself. So J is convex in the bases, and the new basis maximises its
        linear lower bound at U_t.
        """

    def trial_step(self, point: Array, F: Array, *, radius: float, forcing: float) -> TrialStep:
        """Return the step to an approximate maximiser of the quadratic model.

        Parameters
        ----------
        F
            F of the :class:`Evaluation` at the point.
        radius
            Radius of the trust region, in units of one radian per basis vector.
        forcing
            The residual of the conjugate gradients is reduced by this factor.
        """


def denominators(C: Covariances, *, lam: float, k: int) -> Array:
    """Return tr C_t + λ(T-1)k, the scale of each task's gradient; 1 if that is zero."""
    scale = C.traces + lam * (C.n_tasks - 1) * k
    return np.where(scale > 0, scale, 1.0)


@dataclass(frozen=True, slots=True)
class BlasCoupledTraces:
    """The objective by matrix products in numpy, for large matrices and thin factors.

    Parameters
    ----------
    C
        Covariance matrices.
    lam
        λ >= 0.
    k
        Dimension of the subspaces.
    """

    C: Covariances
    lam: float
    k: int

    @property
    def noise(self) -> float:
        """Rounding error of a change of J, without the part that is proportional to J."""
        return 1e-15 * self.lam * self.C.n_tasks * self.k

    def with_weight(self, C: Covariances, lam: float) -> Self:
        """Return the objective for the same matrices and another λ."""
        return replace(self, C=C, lam=lam)

    def evaluate(self, point: Array) -> Evaluation:
        """Return value, residual and F at U (T, k, d)."""
        U, lam = point, self.lam
        CU = self.C.times(U)
        gram = self.gram(U)
        F = CU + lam * _coupling(U, gram)
        # both forms of the Gram matrix have the norm of G
        J = 0.5 * np.vdot(CU, U) + 0.25 * lam * (np.vdot(gram, gram) - U.shape[0] * self.k)
        sizes = np.linalg.norm(self.gradient(U, F), axis=(1, 2))
        residual = (sizes / denominators(self.C, lam=lam, k=self.k)).max()
        return Evaluation(float(J), float(residual), F)

    def gradient(self, U: Array, F: Array) -> Array:
        """Return the Riemannian gradient of J, eq. 5 projected: F_t - M_t U_t."""
        return project(U, F)

    def hessian(self, U: Array, F: Array, E: Array, *, gram: Array | None = None) -> Array:
        """Return the Hessian of -J applied to a tangent E; ``gram`` is :meth:`gram` of U."""
        gram = self.gram(U) if gram is None else gram
        M = F @ transpose(U)
        HE = M @ E - self.C.times(E) - self.lam * _coupling_change(U, E, gram)
        return project(U, HE)

    def gram(self, U: Array) -> Array:
        """Return the smaller of G = Σ_t U_tᵀU_t (d, d) and BBᵀ (Tk, Tk), where B stacks all U_t."""
        rows = U.reshape(-1, U.shape[-1])
        return rows @ rows.T if rows.shape[0] < rows.shape[1] else rows.T @ rows

    def curvatures(self, U: Array, F: Array) -> Array:
        """Return the diagonal of the preconditioner, M_jj - φ_t, (T, k, 1).

        φ_t is the mean eigenvalue of C_t + λG outside U_t.
        """
        M = np.einsum("tki,tki->tk", F, U)
        T, k, d = U.shape
        outside = self.C.traces + self.lam * k * T - M.sum(axis=1)
        gaps = M - (outside / max(d - k, 1))[:, np.newaxis]
        largest = float(np.abs(gaps).max())
        floor = CURVATURE_FLOOR * largest if largest > 0 else 1.0
        return np.asarray(np.maximum(gaps, floor)[..., np.newaxis])

    def ascend(self, point: Array, *, n_steps: int) -> Array:
        """Return the point after steps to orthonormal bases of the rows of F."""
        U = point
        for _ in range(n_steps):
            F = self.C.times(U) + self.lam * _coupling(U, self.gram(U))
            U = np.ascontiguousarray(transpose(np.linalg.qr(transpose(F))[0]))
        return U

    def trial_step(self, point: Array, F: Array, *, radius: float, forcing: float) -> TrialStep:
        """Return the step of :meth:`solve`, and the point after its retraction."""
        E, predicted, length, is_clipped = self.solve(point, F, radius=radius, forcing=forcing)
        end = retract(point, E)
        return TrialStep(end, self.evaluate(end), predicted, length, is_clipped)

    def solve(
        self, point: Array, F: Array, *, radius: float, forcing: float
    ) -> tuple[Array, float, float, bool]:
        """Return the step of Steihaug's truncated, preconditioned conjugate gradients.

        See Absil, Mahony, Sepulchre (2008), algorithm 11. ``radius`` is in the norm of the
        preconditioner, in units of a rotation of every basis vector by one radian.

        Returns
        -------
        E : (T, k, d)
        predicted, length, is_clipped
            As in :class:`TrialStep`.
        """
        W, gram = self.curvatures(point, F), self.gram(point)
        bound = radius * np.sqrt(W.sum())
        r = self.gradient(point, F)
        g, E = r, np.zeros_like(r)
        z = r / W
        p, rz = z, float(np.vdot(r, z))
        target = rz * forcing**2
        EWE, EWp, pWp = 0.0, 0.0, rz
        is_clipped = False
        for _ in range(point[0].size * point.shape[0]):
            if rz <= target:
                break
            Hp = self.hessian(point, F, p, gram=gram)
            curvature = float(np.vdot(p, Hp))
            alpha = rz / curvature if curvature > 0 else np.inf
            if curvature <= 0 or EWE + alpha * (2 * EWp + alpha * pWp) >= bound**2:
                root = np.sqrt(EWp**2 + pWp * (bound**2 - EWE))
                tau = (bound**2 - EWE) / (EWp + root)
                E, r, is_clipped = E + tau * p, r - tau * Hp, True
                EWE = bound**2
                break
            E, r = E + alpha * p, r - alpha * Hp
            EWE += alpha * (2 * EWp + alpha * pWp)
            z = r / W
            rz, previous = float(np.vdot(r, z)), rz
            beta = rz / previous
            EWp, pWp = beta * (EWp + alpha * pWp), rz + beta**2 * pWp
            p = z + beta * p
        predicted = 0.5 * float(np.vdot(g, E) + np.vdot(r, E))
        return E, predicted, float(np.sqrt(EWE / W.sum())), is_clipped


def _coupling(U: Array, gram: Array) -> Array:
    """Return each U_t G."""
    rows = U.reshape(-1, U.shape[-1])
    product = gram @ rows if rows.shape[0] < rows.shape[1] else rows @ gram
    return product.reshape(U.shape)


def _coupling_change(U: Array, E: Array, gram: Array) -> Array:
    """Return each E_t G + U_t D."""
    rows, tangents = U.reshape(-1, U.shape[-1]), E.reshape(-1, U.shape[-1])
    if rows.shape[0] < rows.shape[1]:
        L = tangents @ rows.T
        return ((L + L.T) @ rows + gram @ tangents).reshape(U.shape)
    B = tangents.T @ rows
    return (tangents @ gram + rows @ (B + B.T)).reshape(U.shape)
