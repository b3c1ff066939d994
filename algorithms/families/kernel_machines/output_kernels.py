"""The penalty of the output kernel in reduced variables, and the Θ that follows from it.

With κ = α/C, g = κᵀKκ task by task and the reduced output kernel θ = CΘ, predictions are
F = Σ_s θ_ts b_s, b_s = Σ_{j in s} k_j κ_j, and

    dual / C   = Σ gain(κ) - Σ_rs h(g_rs),                        h' = θ(g)/2
    primal / C = Σ loss    + ½⟨θ, g⟩ + Σ_rs (½ θ_rs g_rs - h(g_rs))

at Θ = φ'(ρ), ρ = G/(2λ), where V*(ρ) is the sum of φ over all entries (eq. 10 and Theorem 5 of
Jawanpuria et al. 2015). For C and λ between 1e-6 and 1e6 nothing overflows, because both enter
through s or ν only, computed from logarithms.

The paper prints the scale of V in three ways, which differ by a factor of λ even for k = 1:

    half   ½ Σ|Θ|^p      Theorem 3, (9) to (11), (13)      Θ = (cρ)^(2k-1),  c = (2k-1)/k
    table  (1/p) Σ|Θ|^p  Table 1, first row                Θ = ρ^(2k-1)
    full   Σ|Θ|^p        the text before section 3         Θ = (cρ/2)^(2k-1)

"full" with λ equals "half" with 2λ; "table" with λ equals "half" with λ(2k-1)/k. Table 1 prints
arcsinh for the maximiser of cosh; the maximiser is φ' = sinh. The constant -λT² of exp is omitted.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.theta_rules import COSH, EXP, FIXED, POWER, Rule, thetas

PenaltyName = Literal["power", "exp", "cosh"]
VScale = Literal["half", "table", "full"]


@dataclass(frozen=True, slots=True, eq=False)
class OutputKernel:
    """A penalty V with Θ = φ'(ρ), or a fixed Θ.

    Parameters
    ----------
    rule
        Kind, power 2k-1, scale s or ν, factor: θ(g) = (s g)^(2k-1), C e^(νg) or C sinh(νg).
    Theta : (T, T)
        θ = CΘ of a fixed output kernel; a placeholder (1, 1) otherwise.
    C
        Factor in Θ = θ/C.
    """

    rule: Rule
    Theta: Array
    C: float

    @property
    def is_fixed(self) -> bool:
        """Whether Θ is fixed instead of learned."""
        return self.rule[0] == FIXED

    @property
    def has_dense_theta(self) -> bool:
        """Whether no entry of Θ can be close to 0."""
        return self.rule[0] == EXP

    def theta(self, g: Array) -> Array:
        """Return θ(g) (T, T), which is positive semidefinite if g is."""
        return self.Theta if self.is_fixed else thetas(self.rule, g)

    def slope(self, g: Array) -> Array:
        """Return θ'(g) entry by entry."""
        kind, power, scale, factor = self.rule
        if kind == FIXED:
            return np.zeros_like(g)
        z = scale * g
        if kind == POWER:
            return np.asarray(power * scale * z ** (power - 1))
        return np.asarray(factor * scale * (np.exp(z) if kind == EXP else np.cosh(z)))

    def shrinkage(self, g: Array) -> float:
        """Return the largest c <= 1 such that the argument z of θ(c²g) satisfies |z| <= 1.

        From such a start nothing overflows, because later a dual value >= 0 bounds z.
        """
        if self.is_fixed:
            return 1.0
        return 1.0 / math.sqrt(max(self.rule[2] * float(np.abs(g).max()), 1.0))

    def bound(self, g: Array) -> Array:
        """Return h(g_rs) for every entry of g; infinity on overflow.

        Their sum is λV*(ρ)/C, with the conjugate V* of the penalty V.
        """
        kind, power, scale, factor = self.rule
        if kind == FIXED:
            return 0.5 * self.Theta * g
        z = scale * g
        with np.errstate(over="ignore"):
            if kind == POWER:
                return np.asarray(g * z**power / (2.0 * (power + 1)))
            primitive = np.expm1(z) if kind == EXP else 2.0 * np.sinh(z / 2.0) ** 2
            return np.asarray(0.5 * factor / scale * primitive)


def fixed_kernel(Theta: Array, *, C: float) -> OutputKernel:
    """Return a fixed output kernel Θ (T, T)."""
    return OutputKernel((FIXED, 1, 0.0, 0.0), np.ascontiguousarray(C * Theta), C)


def learned_kernel(
    penalty: PenaltyName, *, k: int, C: float, lam: float, v_scale: VScale = "half"
) -> OutputKernel:
    """Return the output kernel for the penalty λV.

    V is Σ|Θ|^p with p = 2k/(2k-1), or the V of exp or cosh, which ignore ``k`` and ``v_scale``.
    """
    if penalty != "power":
        kind = EXP if penalty == "exp" else COSH
        return OutputKernel((kind, 1, C * C / (2.0 * lam), C), np.zeros((1, 1)), C)
    lam = lam * {"half": 1.0, "full": 2.0, "table": (2 * k - 1) / k}[v_scale]
    log_s = math.log((2 * k - 1) / (2 * k)) + (4 * k - 1) / (2 * k - 1) * math.log(C)
    return OutputKernel(
        (POWER, 2 * k - 1, math.exp(log_s - math.log(lam)), 1.0), np.zeros((1, 1)), C
    )


def relative_lam(penalty: PenaltyName, *, k: int, C: float, n_rows: float) -> float:
    """Return the λ (scale "half") for which C means about the same as for a single task.

    A single task with a kernel of mean diagonal 1 and θ ~ C has θ g = Σ κF ~ n_rows. So θ(g) = C
    needs s = C^p / n_rows, or ν = C / n_rows.
    """
    if penalty != "power":
        return C * n_rows / 2.0
    log_s = 2 * k / (2 * k - 1) * math.log(C) - math.log(n_rows)
    log_rest = math.log((2 * k - 1) / (2 * k)) + (4 * k - 1) / (2 * k - 1) * math.log(C)
    return math.exp(log_rest - log_s)
