"""Compiled kernels of latent projection: f of one row, and its local minimisation by BFGS.

The reference implementation of f in numpy is in :mod:`algorithms.numerics.latent_projection`, which
explains the symbols.
"""

# ruff: noqa: PLR0917, FBT001  numba takes positional arguments only

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.compiled import kernel
from algorithms.numerics.gp_terms import MIN_VARIANCE

Array = NDArray[np.float64]

SUFFICIENT_DECREASE = 1e-4
#: Maximum step length, in widths of an RBF.
MAX_STEP = 2.0
#: Length of the first step, along the gradient, relative to the maximum.
FIRST_STEP = 0.05
#: Steps with less curvature than this, relative to the change of the gradient, do not update H.
MIN_CURVATURE = 1e-12
MAX_TRIALS = 30
#: A row has converged once the relative decrease of f is below this.
NOISE = 1e-13


@kernel
def covariances_of(
    x: Array,
    active_T: Array,
    numbers: Array,
    is_rbf: bool,
    k: Array,
) -> float:
    """Return k(x, x), and write k(x, active) into ``k`` (r,)."""
    L, r = active_T.shape
    a, g = numbers[0], numbers[1]
    k[:] = 0.0
    if is_rbf:
        for d in range(L):
            at = x[d]
            for i in range(r):
                k[i] += (at - active_T[d, i]) ** 2
        for i in range(r):
            k[i] = a * np.exp(-0.5 * g * k[i])
        return float(a)
    own = 0.0
    for d in range(L):
        at = x[d]
        own += a * at * at
        for i in range(r):
            k[i] += a * at * active_T[d, i]
    return own


@kernel
def evaluate(
    x: Array,
    active_T: Array,
    products: Array,
    b: Array,
    numbers: Array,
    kind: tuple[bool, bool],
    work: Array,
    gradient: Array,
) -> float:
    """Return f(x) of one row, and write its gradient into ``gradient`` (L,).

    Parameters
    ----------
    active_T : (L, r)
        Active latents, one row per dimension, so that inner loops access memory in order.
    products : (2, r, r)
        P = K⁻¹ and C = P YYᵀ P.
    b : (r,)
        P Y y for the row y.
    numbers : (5,)
        Scale a and inverse squared width g of the covariance, noise variance, ‖y‖², and number D
        of features.
    kind
        Whether the covariance is RBF, and whether f is the robust form.
    work : (3, r)
        Buffer.
    """
    L, r = active_T.shape
    a, g, size, D = numbers[0], numbers[1], numbers[3], numbers[4]
    is_rbf, is_robust = kind
    k, Pk, Ck = work[0], work[1], work[2]
    own = covariances_of(x, active_T, numbers, is_rbf, k)
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
    is_clipped = s < MIN_VARIANCE
    s = max(s, MIN_VARIANCE)
    e = max(e, 0.0)
    v = max(s, e / D) if is_robust else s
    by_e = 0.5 / v
    by_s = 0.0 if (v > s or is_clipped) else 0.5 * (D - e / s) / s
    by_k, total = Pk, 0.0
    for i in range(r):
        by_k[i] = 2.0 * (by_e * (Ck[i] - b[i]) - by_s * Pk[i]) * (k[i] * g if is_rbf else a)
        total += by_k[i]
    for d in range(L):
        cross = 0.0
        for i in range(r):
            cross += by_k[i] * active_T[d, i]
        gradient[d] = cross + x[d] * (-total if is_rbf else 2.0 * a * by_s)
    return float(0.5 * (D * np.log(v) + e / v))


@kernel
def line_search(
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
    """Return f at x + t·step after backtracking from t to a sufficient decrease.

    The point and its gradient are written into ``trial`` and ``gradient``.

    Parameters
    ----------
    row
        ``active_T``, ``products``, ``b`` and ``numbers`` of :func:`evaluate`.
    """
    active_T, products, b, numbers = row
    value = np.inf
    for _ in range(MAX_TRIALS):
        for d in range(len(x)):
            trial[d] = x[d] + t * step[d]
        value = evaluate(trial, active_T, products, b, numbers, kind, work, gradient)
        if value <= f + SUFFICIENT_DECREASE * t * slope:
            break
        curvature = value - f - t * slope
        shrink = -0.5 * t * slope / curvature if curvature > 0.0 else 0.5
        t *= min(max(shrink, 0.1), 0.5)
    return value


@kernel
def update_inverse_hessian(H: Array, step: Array, change: Array, is_initial: bool) -> bool:
    """Update H by BFGS for a step and a change of the gradient; return whether it is still initial.

    H is not changed if the curvature along the step is not positive.
    """
    L = len(step)
    sy, yy = (step * change).sum(), (change * change).sum()
    if sy <= MIN_CURVATURE * yy:
        return is_initial
    if is_initial:
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
def descent_step(
    H: Array, gradient: Array, max_length: float, is_initial: bool, step: Array
) -> float:
    """Write -H·gradient into ``step``, and return its factor in the first try of a line search."""
    for d in range(len(step)):
        step[d] = 0.0
        for j in range(len(step)):
            step[d] -= H[d, j] * gradient[j]
    length = np.sqrt((step * step).sum())
    return float(min(1.0, (FIRST_STEP if is_initial else 1.0) * max_length / length))


@kernel
def project_row(
    x: Array,
    row: tuple[Array, Array, Array, Array],
    kind: tuple[bool, bool],
    max_iter: int,
    tolerance: float,
) -> float:
    """Minimise f of one row by BFGS with backtracking, and return the minimum.

    Parameters
    ----------
    x : (L,)
        The start; replaced by the minimiser.
    row
        ``active_T``, ``products``, ``b`` and ``numbers`` of :func:`evaluate`.
    tolerance
        Bound on the largest entry of the gradient, divided by D.
    """
    active_T, products, b, numbers = row
    L, r = active_T.shape
    work, H, is_initial = np.empty((3, r)), np.eye(L), True
    gradient, new_gradient, trial, step = np.empty(L), np.empty(L), np.empty(L), np.empty(L)
    f = evaluate(x, active_T, products, b, numbers, kind, work, gradient)
    max_length = MAX_STEP / np.sqrt(numbers[1]) if kind[0] else MAX_STEP
    for _ in range(max_iter):
        if np.abs(gradient).max() <= tolerance * numbers[4]:
            break
        t = descent_step(H, gradient, max_length, is_initial, step)
        slope = (step * gradient).sum()
        f_new = line_search(x, f, step, slope, t, row, kind, work, trial, new_gradient)
        if not f_new < f:
            if is_initial:
                break
            # H is a bad approximation here: restart along the gradient
            H[:] = np.eye(L)
            is_initial = True
            continue
        is_initial = update_inverse_hessian(H, trial - x, new_gradient - gradient, is_initial)
        is_done = f - f_new <= NOISE * abs(f_new)
        x[:], gradient[:], f = trial, new_gradient, f_new
        if is_done:
            break
    return f


@kernel
def project_rows(
    X: Array,
    active_T: Array,
    products: Array,
    B: Array,
    sizes: Array,
    numbers: Array,
    kind: tuple[bool, bool],
    max_iter: int,
    tolerance: float,
) -> Array:
    """Minimise f of every row, and return the minima (n,).

    Parameters
    ----------
    X : (n, L)
        The starts; replaced by the minimisers.
    B : (n, r)
        ``b`` of each row.
    sizes : (n,)
        ‖y‖² of each row.
    """
    values = np.empty(X.shape[0])
    own = numbers.copy()
    for i in range(X.shape[0]):
        own[3] = sizes[i]
        values[i] = project_row(X[i], (active_T, products, B[i], own), kind, max_iter, tolerance)
    return values
