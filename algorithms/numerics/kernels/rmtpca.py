"""The compiled Newton step of RMT-PCA, for dense covariance matrices.

C is (T, d, d), points and tangents (T, k, d), so that each coupling of tasks is one BLAS call on
the rows of all tasks. ``np.dot`` inside numba is scipy's BLAS; it uses as many threads as the
process allows. The reference implementation in numpy, with the formulas, is
:class:`algorithms.numerics.coupled_traces.BlasCoupledTraces`.
"""

# ruff: noqa: PLR0917  numba takes positional arguments only

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.coupled_traces import CURVATURE_FLOOR
from algorithms.numerics.kernels.compiled import kernel

#: Smallest size of a basis for which a BLAS call is faster than a loop.
_MIN_BLAS_SIZE = 150


@kernel
def times_covariances(C: Array, E: Array, out: Array) -> None:
    """Write each E_t C_t into ``out``: C (T, d, d), E and out (T, k, d)."""
    for t in range(E.shape[0]):
        np.dot(E[t], C[t], out[t])


@kernel
def sum_of_products(A: Array, B: Array) -> Array:
    """Return Σ_t A_tᵀB_t, (d, d), of A and B (T, k, d)."""
    T, k, d = A.shape
    out: Array = np.dot(A.reshape(T * k, d).T, B.reshape(T * k, d))
    return out


@kernel
def add_shared(G: Array, E: Array, factor: float, out: Array) -> None:
    """Add factor · E_t G for each t to out: G (d, d), E and out (T, k, d)."""
    T, k, d = E.shape
    product = np.dot(E.reshape(T * k, d), G).ravel()
    flat = out.reshape(out.size)
    for m in range(flat.size):
        flat[m] += factor * product[m]


@kernel
def inner_products(A: Array, B: Array) -> Array:
    """Return each A_t B_tᵀ, (T, k, k), of A and B (T, k, d)."""
    T, k, d = A.shape
    out = np.empty((T, k, k))
    if k * d >= _MIN_BLAS_SIZE:
        for t in range(T):
            np.dot(A[t], B[t].T, out[t])
        return out
    for t in range(T):
        for a in range(k):
            x = A[t, a]
            for b in range(k):
                y = B[t, b]
                s = 0.0
                for i in range(d):
                    s += x[i] * y[i]
                out[t, a, b] = s
    return out


@kernel
def add_combined(M: Array, E: Array, factor: float, out: Array) -> None:
    """Add factor · M_t E_t for each t to out: M (T, k, k), E and out (T, k, d)."""
    T, k, d = E.shape
    if k * d >= _MIN_BLAS_SIZE:
        product = np.empty((k, d))
        for t in range(T):
            np.dot(M[t], E[t], product)
            out[t] += factor * product
        return
    for t in range(T):
        for a in range(k):
            o = out[t, a]
            for b in range(k):
                m, e = factor * M[t, a, b], E[t, b]
                for i in range(d):
                    o[i] += m * e[i]


@kernel
def gradient(U: Array, F: Array) -> Array:
    """Return the Riemannian gradient F_t - (F_t U_tᵀ) U_t, (T, k, d)."""
    out = F.copy()
    add_combined(inner_products(F, U), U, -1.0, out)
    return out


@kernel
def with_coupling(C: Array, G: Array, lam: float) -> Array:
    """Return each C_t + λG, (T, d, d)."""
    out = np.empty_like(C)
    for t in range(C.shape[0]):
        out[t] = C[t] + lam * G
    return out


@kernel
def hessian(A: Array, M: Array, lam: float, U: Array, E: Array, out: Array) -> None:
    """Write the Hessian of -J applied to a tangent E; A_t = C_t + λG, M_t = F_t U_tᵀ (T, k, k)."""
    # out_t = E_t A_t + λ U_t D, then M_t E_t - out_t Π_t
    times_covariances(A, E, out)
    B = sum_of_products(E, U)
    add_shared(B + B.T, U, lam, out)
    if U.shape[1] * U.shape[2] >= _MIN_BLAS_SIZE:
        finish_hessian(M, U, E, out)
    else:
        finish_hessian_by_loops(M, U, E, out)


@kernel
def finish_hessian(M: Array, U: Array, E: Array, out: Array) -> None:
    """Replace each out_t by M_t E_t - out_t Π_t, which is tangent as E_t is."""
    T, k, d = U.shape
    N, inside, own = np.empty((k, k)), np.empty((k, d)), np.empty((k, d))
    for t in range(T):
        np.dot(out[t], U[t].T, N)
        np.dot(N, U[t], inside)
        np.dot(M[t], E[t], own)
        o = out[t]
        for a in range(k):
            for i in range(d):
                o[a, i] = inside[a, i] + own[a, i] - o[a, i]


@kernel
def finish_hessian_by_loops(M: Array, U: Array, E: Array, out: Array) -> None:
    """Do the same as :func:`finish_hessian` for small bases, each row in one pass."""
    T, k, d = U.shape
    N = np.empty(k)
    for t in range(T):
        for a in range(k):
            o = out[t, a]
            for b in range(k):
                y = U[t, b]
                s = 0.0
                for i in range(d):
                    s += o[i] * y[i]
                N[b] = s
            for i in range(d):
                o[i] = -o[i]
            for b in range(k):
                n, m, y, e = N[b], M[t, a, b], U[t, b], E[t, b]
                for i in range(d):
                    o[i] += n * y[i] + m * e[i]


@kernel
def curvatures(M: Array, traces: Array, lam: float, d: int) -> Array:
    """Return the diagonal of the preconditioner, M_jj - φ_t, (T, k, d)."""
    n_tasks, k = M.shape[:2]
    W = np.empty((n_tasks, k, d))
    largest = 0.0
    for t in range(n_tasks):
        outside = traces[t] + lam * k * n_tasks
        for a in range(k):
            outside -= M[t, a, a]
        for a in range(k):
            W[t, a, :] = M[t, a, a] - outside / max(d - k, 1)
            largest = max(largest, abs(W[t, a, 0]))
    floor = CURVATURE_FLOOR * largest if largest > 0 else 1.0
    return np.maximum(W, floor)


@kernel
def evaluate(C: Array, scales: Array, lam: float, U: Array) -> tuple[float, float, Array]:
    """Return J, the largest gradient norm divided by ``scales`` (T,), and F (T, k, d)."""
    n_tasks, k, _ = U.shape
    F = np.empty_like(U)
    times_covariances(C, U, F)
    retained = np.sum(F * U)
    G = sum_of_products(U, U)
    add_shared(G, U, lam, F)
    J = 0.5 * retained + 0.25 * lam * (np.sum(G * G) - n_tasks * k)
    g = gradient(U, F)
    residual = 0.0
    for t in range(n_tasks):
        residual = max(residual, np.sqrt(np.sum(g[t] ** 2)) / scales[t])
    return J, residual, F


@kernel
def retract(U: Array, E: Array) -> Array:
    """Return orthonormal bases of the row spaces of U_t + E_t by modified Gram-Schmidt."""
    T, k, d = U.shape
    Q = U + E
    for t in range(T):
        for a in range(k):
            x = Q[t, a]
            for b in range(a):
                y = Q[t, b]
                s = 0.0
                for i in range(d):
                    s += x[i] * y[i]
                for i in range(d):
                    x[i] -= s * y[i]
            s = 0.0
            for i in range(d):
                s += x[i] * x[i]
            x /= np.sqrt(s)
    return Q


@kernel
def ascend(C: Array, lam: float, U: Array, n_steps: int) -> Array:
    """Return the point after steps that replace each basis by one of U_t (C_t + λG)."""
    zero = np.zeros_like(U)
    for _ in range(n_steps):
        F = np.empty_like(U)
        times_covariances(C, U, F)
        add_shared(sum_of_products(U, U), U, lam, F)
        U = retract(F, zero)
    # F may be ill-conditioned, and Gram-Schmidt is exact to rounding only the second time
    return retract(U, zero)


@kernel
def preconditioned_size(r: Array, weights: Array) -> float:
    """Return Σ r² weights of flat arrays."""
    s = 0.0
    for m in range(r.size):
        s += r[m] * r[m] * weights[m]
    return s


@kernel
def move_inplace(alpha: float, p: Array, Hp: Array, weights: Array, e: Array, r: Array) -> float:
    """Add α p to e, subtract α Hp from r, and return Σ r² weights; all arrays are flat."""
    s = 0.0
    for m in range(r.size):
        e[m] += alpha * p[m]
        r[m] -= alpha * Hp[m]
        s += r[m] * r[m] * weights[m]
    return s


@kernel
def dot(x: Array, y: Array) -> float:
    """Return Σ x y of flat arrays."""
    s = 0.0
    for m in range(x.size):
        s += x[m] * y[m]
    return s


@kernel
def solve(
    C: Array,
    traces: Array,
    lam: float,
    U: Array,
    F: Array,
    radius: float,
    forcing: float,
) -> tuple[Array, float, float, bool]:
    """Return Steihaug's truncated conjugate-gradient step.

    Returns
    -------
    E : shape of U
    predicted
        Predicted increase of J.
    length
        Length in the norm of the preconditioner.
    is_clipped
        The step ended at the boundary of the trust region.
    """
    A, M = with_coupling(C, sum_of_products(U, U), lam), inner_products(F, U)
    curvature_of = curvatures(M, traces, lam, U.shape[2])
    g, E = gradient(U, F), np.zeros_like(U)
    p, Hp = np.empty_like(U), np.empty_like(U)
    r, e, fp, fh = g.ravel().copy(), E.ravel(), p.ravel(), Hp.ravel()
    # the squared radius in the norm of the preconditioner
    bound = radius**2 * curvature_of[:, :, 0].sum()
    weights = (1.0 / curvature_of).ravel()
    rz = preconditioned_size(r, weights)
    fp[:] = r * weights
    target = rz * forcing**2
    EWE, EWp, pWp = 0.0, 0.0, rz
    clipped = False
    for _ in range(U.size):
        if rz <= target:
            break
        hessian(A, M, lam, U, p, Hp)
        curvature = dot(fp, fh)
        alpha = rz / curvature if curvature > 0 else np.inf
        if curvature <= 0 or EWE + alpha * (2 * EWp + alpha * pWp) >= bound:
            alpha = (bound - EWE) / (EWp + np.sqrt(EWp**2 + pWp * (bound - EWE)))
            clipped = True
        previous = rz
        rz = move_inplace(alpha, fp, fh, weights, e, r)
        EWE += alpha * (2 * EWp + alpha * pWp)
        if clipped:
            break
        beta = rz / previous
        EWp, pWp = beta * (EWp + alpha * pWp), rz + beta**2 * pWp
        for m in range(e.size):
            fp[m] = weights[m] * r[m] + beta * fp[m]
    predicted = 0.5 * (dot(g.ravel(), e) + dot(r, e))
    length = radius * np.sqrt(EWE / bound) if bound > 0 else 0.0
    return E, predicted, length, clipped


@kernel
def trial_step(
    C: Array,
    traces: Array,
    scales: Array,
    lam: float,
    U: Array,
    F: Array,
    radius: float,
    forcing: float,
) -> tuple[Array, float, float, Array, float, float, bool]:
    """Return the next point Q with its J, residual and F, and the results of :func:`solve`."""
    E, predicted, length, clipped = solve(C, traces, lam, U, F, radius, forcing)
    Q = retract(U, E)
    J, residual, F_next = evaluate(C, scales, lam, Q)
    return Q, J, residual, F_next, predicted, length, clipped
