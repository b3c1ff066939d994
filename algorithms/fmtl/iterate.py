"""The outer step for p = 2 with exact machines inside: θ, its update, and its certificate.

In reduced variables (θ = CΘ, g = κᵀKκ) the optimum is θ = s g, s = C³/(2λ). The published
alternation (OKL, ConvexOKL) takes Θ ← (B/(2λ))^{1/3}, B = ΘGΘ, in these letters θ ← (s θgθ)^{1/3}.
It belongs to a family with the same fixed point,

    θ ← (θ^c s g θ^c)^a,   a = 1/(2c + 1),

of which 1/3 is the monotone member and the slowest. If all of θ is scaled, log g answers with a
slope m between -2 and 0, and the error is multiplied by 1 - a + a m: a = 1/(1 - m) is best. But
where the eigenvalues of θ differ much, directions between them can diverge for any a > 1/3 (for
fixed weights and a = 1/2 from a ratio of 4 on): after a step that widens the gap, a is 1/3.

None of them ever leaves the range of θ, and with fewer features than tasks θ loses rank in the
first step, in directions that need not be those of the optimum; where θ is small it turns slowly.
So there θ gets a floor ε, such that ε²T/(4s), what it may add to the gap, is a part of the gap.

For any θ >= 0 the primal value at its own machine and the dual value at κ differ by exactly

    Σ_i [L - gain + κF] + ‖θ - s g‖²/(4s).
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import StopReason
from algorithms.kernel_machines.ascent import Problem
from algorithms.kernel_machines.building import Solution
from algorithms.kernel_machines.certificate import Certificate

Array = NDArray[np.float64]

#: The monotone exponent, and the largest that did not diverge with hundreds of tasks.
EXPONENTS = (1.0 / 3.0, 2.0 / 3.0)
#: Part of the gap that the floor may cost, and part of the mean eigenvalue that it may be.
FLOOR = 0.1


def psd_power(A: Array, exponent: float) -> Array:
    """Return A^exponent of a positive semidefinite A (T, T); rounding below 0 counts as 0."""
    values, V = np.linalg.eigh((A + A.T) / 2)
    return np.asarray((V * np.maximum(values, 0.0) ** exponent) @ V.T)


def update_theta(
    values: Array, V: Array, g: Array, *, s: float, exponent: float
) -> tuple[Array, Array]:
    """Return (θ^c s g θ^c)^a for the exponent a, as eigenvalues (T,) and eigenvectors (T, T).

    Parameters
    ----------
    values, V
        The same of θ.
    g : (T, T)
        VᵀgV: one eigendecomposition (T, T) is all that an outer step needs.
    """
    side = values ** ((1.0 / exponent - 1.0) / 2.0)
    rotated = s * (side[:, np.newaxis] * g * side)
    found, U = np.linalg.eigh((rotated + rotated.T) / 2)
    return np.maximum(found, 0.0) ** exponent, V @ U


def eigenvalue_floor(values: Array, gap: float, *, s: float, rank: int) -> float:
    """Return what added to the eigenvalues of θ (T,) adds no more than a part of the gap before.

    Parameters
    ----------
    gap
        Over C.
    rank
        Of the input kernel; from T on no floor is needed.
    """
    T = len(values)
    if rank >= T:
        return 0.0
    return float(min(np.sqrt(4.0 * s * FLOOR * gap / T), FLOOR * values.mean()))


def best_exponent(slope: float) -> float:
    """Return a = 1/(1 - m) within its bounds, for the slope m of log g."""
    return float(np.clip(1.0 / (1.0 - slope), *EXPONENTS))


def next_exponent(before: "OuterState", after: "OuterState") -> float:
    """Return the exponent for the next step: the monotone one after a step that widened the gap."""
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
        """Exponent a of the step from here."""


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
    """Return the solution with Θ as iterated, and machines κ (n,), or weights W (q, T) of features.

    The primal value is at the machine θ κ; where W is given it is at W, which has half the
    squared distance of Wθ^{-1/2} and Uθ^{1/2} in the gap in place of the terms of the examples.
    """
    e, s = problem.examples, problem.kernel.rule[2]
    products = problem.products(kappa)
    g = problem.gram(kappa, products)
    if W is None:
        F = problem.predictions(products, theta)
    else:
        F = np.concatenate([e.X[e.rows(r)] @ W[:, r] for r in range(e.n_outputs)])
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
