"""The coordinate step of the dual of output-kernel learning, eq. 13 of Jawanpuria et al. (2015).

Variables are reduced: κ = α/C. With g_rs = κ_rᵀ K_rs κ_s and b_s = Σ_{j in s} k_ij κ_j, a change δ
of κ_i in task r changes g_rr to g_rr + 2 b_r δ + k_ii δ² and g_rs to g_rs + b_s δ. The prediction
for the example, which is also the derivative of the penalty term, is then

    F(δ) = Σ_{s≠r} θ(g_rs + b_s δ) b_s + θ(g_rr + 2 b_r δ + k_ii δ²) (b_r + k_ii δ).

It increases with δ. The step solves gain'(κ_i + δ) = F(δ). A loss is described by its *piece*
(y, q, lo, hi, w): gain(κ) = yκ - ½qκ² - ε|κ| on [lo, hi], or w times the entropy of yκ/w for the
logistic loss.
"""

# ruff: noqa: PLR0917, FBT001  numba takes positional arguments only

import math

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.kernels.compiled import kernel
from algorithms.numerics.theta_rules import EXP, FIXED, MAX_ARGUMENT, POWER, Rule

#: Maximum number of steps of a bracketed search. A step that does not reduce the residual by a
#: factor of ten is followed by a bisection, because Newton's method converges slowly if F is an
#: exponential or a power.
MAX_SEARCH = 100
#: Maximum number of Newton steps for a cubic; each costs a fifth of the closed form.
MAX_NEWTON = 6


@kernel
def theta(rule: Rule, g: float) -> float:
    """Return θ(g) = C φ'(ν g)."""
    z = rule[2] * g
    if rule[0] == POWER:
        value = 1.0
        for _ in range(rule[1]):
            value *= z
        return value
    z = min(z, MAX_ARGUMENT)
    return rule[3] * (math.exp(z) if rule[0] == EXP else math.sinh(max(z, -MAX_ARGUMENT)))


@kernel
def theta_slope(rule: Rule, g: float) -> float:
    """Return θ'(g)."""
    z = rule[2] * g
    if rule[0] == POWER:
        value = rule[1] * rule[2]
        for _ in range(rule[1] - 1):
            value *= z
        return value
    z = min(z, MAX_ARGUMENT)
    return rule[3] * rule[2] * (math.exp(z) if rule[0] == EXP else math.cosh(max(z, -MAX_ARGUMENT)))


@kernel
def prediction(rule: Rule, Theta: Array, b: Array, g: Array, r: int) -> float:
    """Return F(0), the present prediction for the example."""
    F = 0.0
    if rule[0] == FIXED:
        for s in range(b.size):
            F += Theta[r, s] * b[s]
        return F
    if rule[0] == POWER and rule[1] == 1:
        for s in range(b.size):
            F += g[r, s] * b[s]
        return rule[2] * F
    for s in range(b.size):
        F += theta(rule, g[r, s] if s != r else max(g[r, r], 0.0)) * b[s]
    return F


@kernel
def cubic_coefficients(
    F: float, rule: Rule, Theta: Array, k_ii: float, b: Array, g: Array, r: int
) -> tuple[float, float, float, float]:
    """Return the coefficients of F(δ) if it is a cubic (power 1) or linear (fixed Θ)."""
    if rule[0] == FIXED:
        return F, Theta[r, r] * k_ii, 0.0, 0.0
    square = 0.0
    for s in range(b.size):
        square += b[s] * b[s]
    c_1, c_2, c_3 = cubic_terms(rule[2], square, b[r], k_ii, g[r, r])
    return F, c_1, c_2, c_3


@kernel
def cubic_terms(
    scale: float, square: float, b_r: float, k_ii: float, g_rr: float
) -> tuple[float, float, float]:
    """Return c_1, c_2, c_3 of F(δ) for power 1; ``square`` is Σ_s b_s²."""
    c_1 = scale * (square + b_r * b_r + g_rr * k_ii)
    return c_1, 3.0 * scale * b_r * k_ii, scale * k_ii * k_ii


@kernel
def prediction_after(
    delta: float,
    rule: Rule,
    c: tuple[float, float, float, float],
    k_ii: float,
    b: Array,
    g: Array,
    r: int,
) -> tuple[float, float]:
    """Return F(δ) and F'(δ)."""
    if rule[0] == FIXED or (rule[0] == POWER and rule[1] == 1):
        F = c[0] + delta * (c[1] + delta * (c[2] + delta * c[3]))
        return F, c[1] + delta * (2.0 * c[2] + delta * 3.0 * c[3])
    F, slope = 0.0, 0.0
    for s in range(b.size):
        if s != r:
            g_rs = g[r, s] + b[s] * delta
            F += theta(rule, g_rs) * b[s]
            slope += theta_slope(rule, g_rs) * b[s] * b[s]
    own = b[r] + k_ii * delta
    g_rr = max(g[r, r] + (b[r] + own) * delta, 0.0)
    F += theta(rule, g_rr) * own
    slope += theta_slope(rule, g_rr) * 2.0 * own * own + theta(rule, g_rr) * k_ii
    return F, slope


@kernel
def cubic_root(R: float, a_1: float, a_2: float, a_3: float) -> float:
    """Return the root of a_1 δ + a_2 δ² + a_3 δ³ = R for an increasing cubic.

    Newton's method from 0 converges in about two steps near the optimum. Otherwise the closed form
    is used: Cardano's x = A - B, without cancellation by A³ - B³ = (A - B)(A² + AB + B²), AB = p/3.
    """
    if a_1 > 0.0:
        x = R / a_1
        for _ in range(MAX_NEWTON):
            rest = R - x * (a_1 + x * (a_2 + x * a_3))
            x += rest / (a_1 + x * (2.0 * a_2 + x * 3.0 * a_3))
            if abs(rest) <= 1e-9 * abs(R):  # the step above has squared this error
                return x
    if a_3 <= 1e-280:
        return R / a_1 if a_1 > 0.0 else math.copysign(math.inf, R) if R != 0.0 else 0.0
    shift = a_2 / (3.0 * a_3)
    p = max(a_1 / a_3 - 3.0 * shift * shift, 0.0)
    rest = R / a_3 + shift * (a_1 / a_3 - 2.0 * shift * shift)
    third = p / 3.0
    half = 0.5 * abs(rest)
    size = max(math.sqrt(third), np.cbrt(half))
    if size == 0.0:
        return -shift
    third, half = third / (size * size), half / (size * size * size)
    A = np.cbrt(half + math.sqrt(half * half + third * third * third))
    B = third / A
    delta: float = size * math.copysign(2.0 * half / (A * A + third + B * B), rest) - shift
    slope = a_1 + delta * (2.0 * a_2 + delta * 3.0 * a_3)  # one Newton step removes rounding
    if slope > 0.0:
        delta += (R - delta * (a_1 + delta * (a_2 + delta * a_3))) / slope
    return delta


@kernel
def cubic_step(R: float, far: float, a_1: float, a_2: float, a_3: float) -> float:
    """Return the root of the cubic, limited to ``far``, which has the sign of R."""
    if abs(far) < math.inf and abs(far * (a_1 + far * (a_2 + far * a_3))) <= abs(R):
        return far
    delta: float = cubic_root(R, a_1, a_2, a_3)
    return delta


@kernel
def find_step(
    target: float,
    kappa: float,
    q: float,
    far: float,
    sign: float,
    rule: Rule,
    c: tuple[float, float, float, float],
    k_ii: float,
    b: Array,
    g: Array,
    r: int,
) -> float:
    """Return the x in [0, far] with S(x) = sign (target - q (κ + sign x) - F(sign x)) = 0.

    Newton's method in a bracket. If it converges slowly (F grows like x^(4k-1)), the bracket is
    bisected on a logarithmic scale.
    """
    F, _ = prediction_after(sign * far, rule, c, k_ii, b, g, r)
    if sign * (target - q * kappa - F) - q * far >= 0.0:
        return far
    F, slope = prediction_after(0.0, rule, c, k_ii, b, g, r)
    S = sign * (target - q * kappa - F)
    near, size = 0.0, abs(target) + q * abs(kappa)
    x = min(S / (q + slope), far) if q + slope > 0.0 else far
    last = math.inf
    for _ in range(MAX_SEARCH):
        if not near < x < far:
            is_wide = far > 4.0 * near
            middle = math.sqrt(near * far) if near > 0.0 else 0.01 * far
            x = middle if is_wide else (near + far) / 2
        F, slope = prediction_after(sign * x, rule, c, k_ii, b, g, r)
        S = sign * (target - q * kappa - F) - q * x
        if S > 0.0:
            near = x
        else:
            far = x
        if abs(S) <= 1e-13 * (size + abs(F)) or far - near <= 1e-15 * far:
            break
        newton = x + S / (q + slope)
        # far out, F grows like a power and Newton steps converge slowly: bisect
        x = newton if abs(S) <= 0.1 * last else math.nan
        last = abs(S)
    return x


@kernel
def logistic_kappa(
    kappa: float,
    piece: Array,
    rule: Rule,
    c: tuple[float, float, float, float],
    k_ii: float,
    b: Array,
    g: Array,
    r: int,
) -> float:
    """Return the best κ for the logistic loss.

    It is κ = y u with u = w/(1 + e^-v), where v solves v = -y F, and F is the prediction for the
    example at this κ.
    """
    y, w = piece[0], piece[4]
    top = min(-y * prediction_after(-kappa, rule, c, k_ii, b, g, r)[0], 700.0)
    low = max(-y * prediction_after(y * w - kappa, rule, c, k_ii, b, g, r)[0], -700.0)
    low, top = min(low, top), max(low, top)
    u = min(max(y * kappa, 1e-16 * w), w * (1.0 - 1e-16))
    v = math.log(u / (w - u)) if u < w else 36.0
    last = math.inf
    for _ in range(MAX_SEARCH):
        if not low <= v <= top:
            v = 0.5 * (low + top)
        u = w / (1.0 + math.exp(-v))
        F, slope = prediction_after(y * u - kappa, rule, c, k_ii, b, g, r)
        S = -v - y * F
        if S > 0.0:
            low = v
        else:
            top = v
        if abs(S) <= 1e-12 * (1.0 + abs(v)) or top - low <= 1e-14 * (1.0 + abs(v)):
            break
        newton = v + S / (1.0 + u * (1.0 - u / w) * slope)
        v = newton if abs(S) <= 0.1 * last else math.nan
        last = abs(S)
    return float(y * u)


@kernel
def is_optimal(kappa: float, R: float, lo: float, hi: float, eps: float) -> bool:
    """Return whether κ is optimal already; R is the derivative of the dual without the ε term.

    Most variables are optimal at a bound or at 0.
    """
    up = R - (eps if kappa >= 0.0 else -eps)
    down = R - (eps if kappa > 0.0 else -eps)
    return (up <= 0.0 or kappa >= hi) and (down >= 0.0 or kappa <= lo)


@kernel
def best_kappa(
    kappa: float,
    piece: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    k_ii: float,
    b: Array,
    g: Array,
    r: int,
) -> float:
    """Return the κ_i that maximises the dual with all others fixed.

    Parameters
    ----------
    piece : (5,)
        y, q, lo, hi, w.
    b : (T,)
    g, Theta : (T, T)
        ``Theta`` is read for a fixed output kernel only.
    """
    y, q, lo, hi = piece[0], piece[1], piece[2], piece[3]
    is_cubic = rule[0] == FIXED or (rule[0] == POWER and rule[1] == 1)
    F = prediction(rule, Theta, b, g, r)
    c = (0.0, 0.0, 0.0, 0.0)
    if is_logistic:
        if is_cubic:
            c = cubic_coefficients(F, rule, Theta, k_ii, b, g, r)
        return logistic_kappa(kappa, piece, rule, c, k_ii, b, g, r)
    R = y - q * kappa - F
    if is_optimal(kappa, R, lo, hi, eps):
        return kappa
    if is_cubic:
        c = cubic_coefficients(F, rule, Theta, k_ii, b, g, r)
    if eps > 0.0:  # the gain has a kink at 0
        at_zero = y - prediction_after(-kappa, rule, c, k_ii, b, g, r)[0]
        if abs(at_zero) <= eps:
            return 0.0
        shift = math.copysign(eps, at_zero)
        y, R = y - shift, R - shift
    far = hi - kappa if R > 0.0 else lo - kappa
    if is_cubic:
        step = cubic_step(R, far, q + c[1], c[2], c[3])
    else:
        sign, far = math.copysign(1.0, R), abs(far)
        far = min(far, abs(R) / q) if q > 0.0 else far
        step = 0.0
        if far > 0.0:
            step = sign * find_step(y, kappa, q, far, sign, rule, c, k_ii, b, g, r)
    return float(min(max(kappa + step, lo), hi))
