"""Compiled kernels of latent projection: f of one row, and a BFGS descent to its local minimum.

The twin in plain numpy is in :mod:`algorithms.numerics.latent_projection`.
"""

# ruff: noqa: PLR0917, FBT001  a compiled function takes its arguments by place

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.compiled import kernel

Array = NDArray[np.float64]

#: Least predictive variance; below, rounding has eaten it.
LEAST_VARIANCE = 1e-12
SUFFICIENT_DECREASE = 1e-4
#: Longest step, in widths of an RBF; the first, along the gradient, is a part of it.
LONGEST_STEP, FIRST_PART = 2.0, 0.05
#: Least curvature along a step, relative to the gradient's change, that H learns from.
LEAST_CURVATURE = 1e-12
MOST_TRIALS = 30
#: Relative decrease of f below which a row has arrived.
NOISE = 1e-13


@kernel
def covariances_of(
    x: Array,
    turned: Array,
    numbers: Array,
    is_rbf: bool,
    k: Array,
) -> float:
    """Return k(x, x), and k(x, active) into k (r,)."""
    L, r = turned.shape
    a, g = numbers[0], numbers[1]
    k[:] = 0.0
    if is_rbf:
        for d in range(L):
            at = x[d]
            for i in range(r):
                k[i] += (at - turned[d, i]) ** 2
        for i in range(r):
            k[i] = a * np.exp(-0.5 * g * k[i])
        return float(a)
    own = 0.0
    for d in range(L):
        at = x[d]
        own += a * at * at
        for i in range(r):
            k[i] += a * at * turned[d, i]
    return own


@kernel
def evaluate(
    x: Array,
    turned: Array,
    products: Array,
    b: Array,
    numbers: Array,
    kind: tuple[bool, bool],
    work: Array,
    gradient: Array,
) -> float:
    """Return f(x) of one row, and its gradient into ``gradient`` (L,).

    Parameters
    ----------
    turned : (L, r)
        Active latents, a row for each dimension: every inner loop runs along memory.
    products : (2, r, r)
        P = K⁻¹ and C = P YYᵀ P.
    b : (r,)
        P Y y for the row y.
    numbers : (5,)
        a, g, noise variance, ‖y‖², D.
    kind
        Whether the covariance is RBF, and whether the fit is robust.
    work : (3, r)
        Room.
    """
    L, r = turned.shape
    a, g, size, D = numbers[0], numbers[1], numbers[3], numbers[4]
    is_rbf, is_robust = kind
    k, Pk, Ck = work[0], work[1], work[2]
    own = covariances_of(x, turned, numbers, is_rbf, k)
    kPk, e = 0.0, size
    for i in range(r):
        p, c = 0.0, 0.0
        for j in range(r):
            p += products[0, i, j] * k[j]
            c += products[1, i, j] * k[j]
        Pk[i], Ck[i] = p, c
        kPk += k[i] * p
        e += k[i] * (c - 2.0 * b[i])
    s = own + numbers[2] - kPk
    is_clipped = s < LEAST_VARIANCE
    s = max(s, LEAST_VARIANCE)
    e = max(e, 0.0)
    v = max(s, e / D) if is_robust else s
    by_e = 0.5 / v
    by_s = 0.0 if (v > s or is_clipped) else 0.5 * (D - e / s) / s
    by_k, total = Pk, 0.0
    for i in range(r):
        by_k[i] = 2.0 * (by_e * (Ck[i] - b[i]) - by_s * Pk[i]) * (k[i] * g if is_rbf else a)
        total += by_k[i]
    for d in range(L):
        drawn = 0.0
        for i in range(r):
            drawn += by_k[i] * turned[d, i]
        gradient[d] = drawn + x[d] * (-total if is_rbf else 2.0 * a * by_s)
    return float(0.5 * (D * np.log(v) + e / v))


@kernel
def search(
    x: Array,
    f: float,
    step: Array,
    slope: float,
    t: float,
    row: tuple[Array, Array, Array, Array],
    kind: tuple[bool, bool],
    work: Array,
    trial: Array,
    gradient: Array,
) -> float:
    """Return f at x + t·step for the first t that goes down enough, from t downwards.

    The point and its gradient are written into ``trial`` and ``gradient``.

    Parameters
    ----------
    row
        ``turned``, ``products``, ``b`` and ``numbers`` of :func:`evaluate`.
    """
    turned, products, b, numbers = row
    value = np.inf
    for _ in range(MOST_TRIALS):
        for d in range(len(x)):
            trial[d] = x[d] + t * step[d]
        value = evaluate(trial, turned, products, b, numbers, kind, work, gradient)
        if value <= f + SUFFICIENT_DECREASE * t * slope:
            break
        curvature = value - f - t * slope
        shrink = -0.5 * t * slope / curvature if curvature > 0.0 else 0.5
        t *= min(max(shrink, 0.1), 0.5)
    return value


@kernel
def learn(H: Array, step: Array, change: Array, is_fresh: bool) -> bool:
    """Return whether H is still fresh after the BFGS update by a step and a change of gradient."""
    L = len(step)
    sy, yy = (step * change).sum(), (change * change).sum()
    if sy <= LEAST_CURVATURE * yy:
        return is_fresh
    if is_fresh:
        H[:] = np.eye(L) * (sy / yy)
    Hc = np.zeros(L)
    for d in range(L):
        for j in range(L):
            Hc[d] += H[d, j] * change[j]
    stretch = (sy + (change * Hc).sum()) / (sy * sy)
    for d in range(L):
        for j in range(L):
            H[d, j] += stretch * step[d] * step[j] - (Hc[d] * step[j] + step[d] * Hc[j]) / sy
    return False


@kernel
def descent_step(H: Array, gradient: Array, longest: float, is_fresh: bool, step: Array) -> float:
    """Return how much of -H·gradient to try first, and write that into ``step``."""
    for d in range(len(step)):
        step[d] = 0.0
        for j in range(len(step)):
            step[d] -= H[d, j] * gradient[j]
    length = np.sqrt((step * step).sum())
    return float(min(1.0, (FIRST_PART if is_fresh else 1.0) * longest / length))


@kernel
def project_row(
    x: Array,
    row: tuple[Array, Array, Array, Array],
    kind: tuple[bool, bool],
    max_iter: int,
    tolerance: float,
) -> float:
    """Return f at its local minimum from x, which moves there: BFGS with backtracking.

    Parameters
    ----------
    x : (L,)
        Start; the minimum when the call returns.
    row
        ``turned``, ``products``, ``b`` and ``numbers`` of :func:`evaluate`.
    tolerance
        Of the largest entry of the gradient, divided by D.
    """
    turned, products, b, numbers = row
    L, r = turned.shape
    work, H, is_fresh = np.empty((3, r)), np.eye(L), True
    gradient, new_gradient, trial, step = np.empty(L), np.empty(L), np.empty(L), np.empty(L)
    f = evaluate(x, turned, products, b, numbers, kind, work, gradient)
    longest = LONGEST_STEP / np.sqrt(numbers[1]) if kind[0] else LONGEST_STEP
    for _ in range(max_iter):
        if np.abs(gradient).max() <= tolerance * numbers[4]:
            break
        t = descent_step(H, gradient, longest, is_fresh, step)
        slope = (step * gradient).sum()
        f_new = search(x, f, step, slope, t, row, kind, work, trial, new_gradient)
        if not f_new < f:
            if is_fresh:
                break
            # what H has learned misleads: begin again from the gradient
            H[:] = np.eye(L)
            is_fresh = True
            continue
        is_fresh = learn(H, trial - x, new_gradient - gradient, is_fresh)
        is_done = f - f_new <= NOISE * abs(f_new)
        x[:], gradient[:], f = trial, new_gradient, f_new
        if is_done:
            break
    return f


@kernel
def project_rows(
    X: Array,
    turned: Array,
    products: Array,
    B: Array,
    sizes: Array,
    numbers: Array,
    kind: tuple[bool, bool],
    max_iter: int,
    tolerance: float,
) -> Array:
    """Return f (n,) at the local minima from the rows of X (n, L), which move there.

    Parameters
    ----------
    B : (n, r)
    sizes : (n,)
        ‖y‖² of each row.
    """
    values = np.empty(X.shape[0])
    own = numbers.copy()
    for i in range(X.shape[0]):
        own[3] = sizes[i]
        values[i] = project_row(X[i], (turned, products, B[i], own), kind, max_iter, tolerance)
    return values
