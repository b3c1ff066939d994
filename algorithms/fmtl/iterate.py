"""The outer iteration over θ for p = 2: update, floor and certificate.

In reduced variables (θ = CΘ, g = κᵀKκ) the optimum is θ = s g, s = C³/(2λ). The published
alternation (OKL, ConvexOKL) is Θ ← (B/(2λ))^{1/3}, B = ΘGΘ, here θ ← (s θgθ)^{1/3}. It belongs to a
family with the same fixed point,

    θ ← (θ^c s g θ^c)^a,   a = 1/(2c + 1),

of which a = 1/3 is monotone, but the slowest. If θ is scaled by a factor, log g changes with a
slope m between -2 and 0, and the error is multiplied by 1 - a + a m, so a = 1/(1 - m) is best. But
if the eigenvalues of θ differ much, directions between them can diverge for any a > 1/3 (for fixed
weights and a = 1/2, from a ratio of 4). So a is 1/3 after a step that increases the gap.

All these updates stay in the range of θ. With fewer features than tasks θ loses rank in the first
step, in directions that may differ from the optimum's, and converges slowly where it is
small. Therefore θ gets a floor ε such that its contribution ε²T/(4s) to the gap is a small part.

For any θ >= 0, the primal value at the machines of θ and the dual value at κ differ by exactly

    Σ_i [L - gain + κF] + ‖θ - s g‖²/(4s).
"""

from typing import Protocol

import numpy as np

from algorithms.families.kernel_machines.building import Solution
from algorithms.families.kernel_machines.certificate import Certificate
from algorithms.families.kernel_machines.problem import Problem
from algorithms.interface.trace import StopReason
from algorithms.numerics.arrays import Array

#: The monotone exponent, and the largest one that did not diverge with hundreds of tasks.
EXPONENTS = (1.0 / 3.0, 2.0 / 3.0)
#: Bound on the floor: its contribution relative to the gap, and its size relative to the mean
#: eigenvalue.
FLOOR = 0.1


def psd_power(A: Array, exponent: float) -> Array:
    """Return A^exponent of a positive semidefinite A (T, T); negative eigenvalues count as 0."""
    values, V = np.linalg.eigh((A + A.T) / 2)
    return np.asarray((V * np.maximum(values, 0.0) ** exponent) @ V.T)


def update_theta(
    values: Array, V: Array, g: Array, *, s: float, exponent: float
) -> tuple[Array, Array]:
    """Return (θ^c s g θ^c)^a for the exponent a, as eigenvalues (T,) and eigenvectors (T, T).

    Parameters
    ----------
    values, V
        Eigenvalues and eigenvectors of θ.
    g : (T, T)
        VᵀgV, so that an outer step needs only one eigendecomposition (T, T).
    """
    side = values ** ((1.0 / exponent - 1.0) / 2.0)
    rotated = s * (side[:, np.newaxis] * g * side)
    eigenvalues, U = np.linalg.eigh((rotated + rotated.T) / 2)
    return np.maximum(eigenvalues, 0.0) ** exponent, V @ U


def eigenvalue_floor(values: Array, gap: float, *, s: float, rank: int) -> float:
    """Return a floor ε to add to the eigenvalues of θ (T,), small compared with the last gap.

    Parameters
    ----------
    gap
        Duality gap of the last step, divided by C.
    rank
        Rank of the input kernel; no floor is needed if it is at least T.
    """
    T = len(values)
    if rank >= T:
        return 0.0
    return float(min(np.sqrt(4.0 * s * FLOOR * gap / T), FLOOR * values.mean()))


def best_exponent(slope: float) -> float:
    """Return a = 1/(1 - m), clipped to ``EXPONENTS``, for the slope m of log g."""
    return float(np.clip(1.0 / (1.0 - slope), *EXPONENTS))


def next_exponent(before: "OuterState", after: "OuterState") -> float:
    """Return the exponent for the next step: 1/3 after a step that increased the gap."""
    if before.exponent == EXPONENTS[0] or after.residual > before.residual:
        return EXPONENTS[0]
    return after.exponent


class OuterState(Protocol):
    """A state of an outer loop."""

    @property
    def residual(self) -> float:
        """Relative gap."""

    @property
    def exponent(self) -> float:
        """Exponent a of the next step."""


def penalty_gap(theta: Array, g: Array, *, s: float) -> float:
    """Return ‖θ - s g‖²/(4s)."""
    return float(np.sum((theta - s * g) ** 2)) / (4.0 * s)


def solution_at(
    problem: Problem,
    kappa: Array,
    theta: Array,
    *,
    reason: StopReason | None,
    W: Array | None = None,
) -> Solution:
    """Return the solution for the last θ and its machines κ (n,).

    Parameters
    ----------
    W : (q, T) or None
        Weights of features, from a primal solver. The primal value is then at W instead of θκ, and
        the gap has the additional term ½‖Wθ^{-1/2} - Uθ^{1/2}‖².
    """
    e, s = problem.examples, problem.kernel.rule[2]
    products = problem.products(kappa)
    g = problem.gram(kappa, products)
    if W is None:
        F = problem.predictions(products, theta)
    else:
        F = np.concatenate([e.X[e.rows[r]] @ W[:, r] for r in range(e.n_outputs)])
    gains = problem.loss.gains(e.y, kappa, e.w)
    terms = problem.loss.values(e.y, F, e.w) - gains + kappa * F
    extra = penalty_gap(theta, g, s=s)
    if W is not None:
        half = psd_power(theta, 0.5)
        A = W @ np.linalg.pinv(half, rcond=1e-10, hermitian=True)
        extra += 0.5 * float(np.sum((A - products.T @ half) ** 2))
    dual = float(gains.sum()) - float(problem.kernel.bound(g).sum())
    gap = float(terms.sum()) + extra
    return Solution(kappa, theta, g, F, Certificate(dual + gap, dual, terms, extra), reason, W)
