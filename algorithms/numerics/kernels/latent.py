"""Compiled kernels of latent projection: f of one row, and its local minimisation by BFGS.

The reference implementation of f in numpy is in :mod:`algorithms.numerics.latent_projection`, which
explains the symbols.
"""

# ruff: noqa: PLR0917, FBT001  numba takes positional arguments only

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.gp_terms import MIN_VARIANCE
from algorithms.numerics.kernels.compiled import kernel
from algorithms.numerics.kernels.exp import exponentials

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
    work: Array,
) -> float:
    """Return k(x, x), and write k(x, active) into ``k`` (r,); ``work`` (r,) is a buffer."""
    L, r = active_T.shape
    a, g = numbers[0], numbers[1]
    k[:] = 0.0
    if is_rbf:
        even = L - L % 2  # two dimensions in each pass over k
        for d in range(0, even, 2):
            u, v = x[d], x[d + 1]
            for i in range(r):
                k[i] += (u - active_T[d, i]) ** 2 + (v - active_T[d + 1, i]) ** 2
        if even < L:
            for i in range(r):
                k[i] += (x[even] - active_T[even, i]) ** 2
        for i in range(r):
            work[i] = -0.5 * g * k[i]
        exponentials(work, k)
        for i in range(r):
            k[i] *= a
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
    own = covariances_of(x, active_T, numbers, is_rbf, k, Pk)
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
def dot(x: Array, y: Array) -> float:
    """Return Σ x y. Sums over slices would allocate arrays, which takes longer than the sum."""
    s = 0.0
    for d in range(len(x)):
        s += x[d] * y[d]
    return s


@kernel
def times(H: Array, x: Array, factor: float, out: Array) -> None:
    """Write factor · H x into ``out``, without slices of H, which numba counts as references."""
    L = len(x)
    for d in range(L):
        s = 0.0
        for j in range(L):
            s += H[d, j] * x[j]
        out[d] = factor * s


@kernel
def set_scaled_identity(H: Array, scale: float) -> None:
    """Write scale · I into H."""
    H[:] = 0.0
    for d in range(len(H)):
        H[d, d] = scale


@kernel
def update_inverse_hessian(
    H: Array, step: Array, change: Array, is_initial: bool, Hc: Array
) -> bool:
    """Update H by BFGS for a step and a change of the gradient; return whether it is still initial.

    H is not changed if the curvature along the step is not positive.

    Parameters
    ----------
    Hc : (L,)
        Buffer.
    """
    L = len(step)
    sy, yy = dot(step, change), dot(change, change)
    if sy <= MIN_CURVATURE * yy:
        return is_initial
    if is_initial:
        set_scaled_identity(H, sy / yy)
    times(H, change, 1.0, Hc)
    stretch = (sy + dot(change, Hc)) / (sy * sy)
    for d in range(L):
        along, across = stretch * step[d] - Hc[d] / sy, step[d] / sy
        for j in range(L):
            H[d, j] += along * step[j] - across * Hc[j]
    return False


@kernel
def descent_step(
    H: Array, gradient: Array, max_length: float, is_initial: bool, step: Array
) -> float:
    """Write -H·gradient into ``step``, and return its factor in the first try of a line search."""
    times(H, gradient, -1.0, step)
    length = np.sqrt(dot(step, step))
    return float(min(1.0, (FIRST_STEP if is_initial else 1.0) * max_length / length))


@kernel
def largest(gradient: Array) -> float:
    """Return max |gradient|."""
    m = 0.0
    for d in range(len(gradient)):
        m = max(m, abs(gradient[d]))
    return m


@kernel
def project_row(
    x: Array,
    row: tuple[Array, Array, Array, Array],
    kind: tuple[bool, bool],
    max_iter: int,
    tolerance: float,
    work: Array,
    H: Array,
    vectors: Array,
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
    work, H, vectors : (3, r), (L, L), (6, L)
        Buffers.
    """
    active_T, products, b, numbers = row
    L = len(x)
    gradient, new_gradient, trial, step, change, Hc = vectors
    set_scaled_identity(H, 1.0)
    is_initial = True
    f = evaluate(x, active_T, products, b, numbers, kind, work, gradient)
    max_length = MAX_STEP / np.sqrt(numbers[1]) if kind[0] else MAX_STEP
    for _ in range(max_iter):
        if largest(gradient) <= tolerance * numbers[4]:
            break
        t = descent_step(H, gradient, max_length, is_initial, step)
        slope = dot(step, gradient)
        f_new = line_search(x, f, step, slope, t, row, kind, work, trial, new_gradient)
        if not f_new < f:
            if is_initial:
                break
            # H is a bad approximation here: restart along the gradient
            set_scaled_identity(H, 1.0)
            is_initial = True
            continue
        for d in range(L):
            step[d], change[d] = trial[d] - x[d], new_gradient[d] - gradient[d]
            x[d], gradient[d] = trial[d], new_gradient[d]
        is_initial = update_inverse_hessian(H, step, change, is_initial, Hc)
        is_done = f - f_new <= NOISE * abs(f_new)
        f = f_new
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
    n, L = X.shape
    values = np.empty(n)
    own = numbers.copy()
    work, H, vectors = np.empty((3, active_T.shape[1])), np.empty((L, L)), np.empty((6, L))
    for i in range(n):
        own[3] = sizes[i]
        row = (active_T, products, B[i], own)
        values[i] = project_row(X[i], row, kind, max_iter, tolerance, work, H, vectors)
    return values
