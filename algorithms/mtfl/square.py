"""The problem with the square loss: fits in a given metric, and its dual lower bound.

    min_W Σ_t ‖y_t − X_t w_t‖² + γ‖W‖²

with the trace norm or the 2,1-norm. Dual: max_α Σ α y − ‖α‖²/4 − ‖Z‖²/(4γ), z_t = X_tᵀα_t, in the
dual norm. α = s·(residuals of any W), with the best s, is a lower bound on the optimum.
"""

from dataclasses import dataclass

import numpy as np

from algorithms.numerics import gaps
from algorithms.numerics.arrays import Array
from algorithms.numerics.feature_norms import FeatureNorm
from algorithms.numerics.stacks import Stacks


@dataclass(frozen=True, slots=True, eq=False)
class SquareProblem:
    """Rows of all tasks, centred if there are intercepts, and compressed to at most d rows each.

    Parameters
    ----------
    remainder
        Constant part of the loss, as in :class:`algorithms.numerics.least_squares.LeastSquares`.
    """

    stacks: Stacks
    remainder: float
    norm: FeatureNorm
    gamma: float


def fit_in_metric(problem: SquareProblem, U: Array) -> Array:
    """Return W = V Uᵀ (T, d), where V minimises Σ_t ‖y_t − X_tUv_t‖² + γ‖U‖²‖V‖².

    The linear system of each task has the size of its rows or of the columns of U, whichever is
    smaller.
    """
    stacks, norm = problem.stacks, problem.norm
    ridge = problem.gamma * float(np.sum(U**2))
    V = np.zeros((stacks.n_columns, U.shape[-1]))
    for part in stacks.parts:
        A = norm.project(part.X, U)
        At = np.swapaxes(A, 1, 2)
        if A.shape[2] <= A.shape[1]:
            v = np.linalg.solve(_add_ridge_inplace(At @ A, ridge), At @ part.Y)
        else:
            v = At @ np.linalg.solve(_add_ridge_inplace(A @ At, ridge), part.Y)
        V[part.columns] = np.swapaxes(v, 1, 2)
    return norm.lift(V, U)


def lower_bound(problem: SquareProblem, residuals: list[Array], Z: Array) -> float:
    """Return the dual value at the best multiple of the residuals (g, n, m) per stack.

    Parameters
    ----------
    Z : (T, d)
        The rows X_tᵀ(residuals).
    """
    parts = problem.stacks.parts
    gain = sum(float(np.vdot(part.Y, R)) for part, R in zip(parts, residuals, strict=True))
    size = sum(float(np.sum(R**2)) for R in residuals)
    cost = size + problem.norm.dual_norm(Z) ** 2 / problem.gamma
    return problem.remainder + (gain**2 / cost if cost > 0 and gain > 0 else 0.0)


def objective(problem: SquareProblem, residuals: list[Array], norm: float) -> float:
    """Return Σ loss + γ‖W‖² for the residuals and the norm of W."""
    loss = sum(float(np.sum(R**2)) for R in residuals)
    return problem.remainder + loss + problem.gamma * norm**2


def residuals_of(problem: SquareProblem, W: Array) -> list[Array]:
    """Return y_t − X_t w_t, (g, n, m) per stack."""
    parts = problem.stacks.parts
    return [part.Y - F for part, F in zip(parts, problem.stacks.forward(W), strict=True)]


def relative_gap(value: float, bound: float) -> float:
    """Return (value − bound) / value; infinity if the two certify nothing."""
    return gaps.relative_gap(value, value - bound)


def _add_ridge_inplace(M: Array, ridge: float) -> Array:
    i = np.arange(M.shape[-1])
    M[..., i, i] += ridge
    return M
