"""The compiled objective of RMT-PCA for few features, by loops over tasks.

Tasks are the last axis: C (d, d, T), points and tangents (d, k, T), so that inner loops run over
contiguous tasks. T is padded with tasks of zeros to whole SIMD vectors. Up to about twelve features
this is several times as fast as a small matrix product per task.
:mod:`algorithms.numerics.coupled_traces` has the formulas and the reference implementation in
numpy.
"""

# ruff: noqa: PLR0917  numba takes positional arguments only

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.coupled_traces import CURVATURE_FLOOR
from algorithms.numerics.kernels.compiled import kernel

Array = NDArray[np.float64]

#: The number of tasks is padded to a multiple of this.
LANES = 8


@kernel
def times_covariances(C: Array, E: Array, out: Array) -> None:
    """Write each C_t E_t into ``out``: C (d, d, T), E and out (d, k, T)."""
    d, k, T = E.shape
    for i in range(d):
        for a in range(k):
            o = out[i, a]
            o[:] = 0.0
            even = d - d % 2
            for j in range(0, even, 2):
                c0, c1, e0, e1 = C[i, j], C[i, j + 1], E[j, a], E[j + 1, a]
                for t in range(T):
                    o[t] += c0[t] * e0[t] + c1[t] * e1[t]
            if even < d:
                c0, e0 = C[i, even], E[even, a]
                for t in range(T):
                    o[t] += c0[t] * e0[t]


@kernel
def sum_of_products(A: Array, B: Array) -> Array:
    """Return Σ_t A_t B_tᵀ, (d, d), of A and B (d, k, T)."""
    d, k, T = A.shape
    x, y = A.reshape(d, k * T), B.reshape(d, k * T)
    out = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            s = 0.0
            for m in range(k * T):
                s += x[i, m] * y[j, m]
            out[i, j] = s
    return out


@kernel
def add_shared(G: Array, E: Array, factor: float, out: Array) -> None:
    """Add factor · G E_t for each t to out: G (d, d), E and out (d, k, T)."""
    d, k, T = E.shape
    e, o = E.reshape(d, k * T), out.reshape(d, k * T)
    even = d - d % 2
    for i in range(d):
        for j in range(0, even, 2):
            g, h = factor * G[i, j], factor * G[i, j + 1]
            for m in range(k * T):
                o[i, m] += g * e[j, m] + h * e[j + 1, m]
        if even < d:
            g = factor * G[i, even]
            for m in range(k * T):
                o[i, m] += g * e[even, m]


@kernel
def with_coupling(C: Array, G: Array, lam: float) -> Array:
    """Return each C_t + λG, (d, d, T), for padding too, where it has no effect."""
    out = np.empty_like(C)
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            shared = lam * G[i, j]
            for t in range(C.shape[2]):
                out[i, j, t] = C[i, j, t] + shared
    return out


@kernel
def inner_products(A: Array, B: Array) -> Array:
    """Return each A_tᵀ B_t, (k, k, T), of A and B (d, k, T)."""
    d, k, T = A.shape
    out = np.zeros((k, k, T))
    for a in range(k):
        for b in range(k):
            o = out[a, b]
            for i in range(d):
                x, y = A[i, a], B[i, b]
                for t in range(T):
                    o[t] += x[t] * y[t]
    return out


@kernel
def add_combined(M: Array, E: Array, factor: float, out: Array) -> None:
    """Add factor · E_t M_tᵀ for each t to out: M (k, k, T), E and out (d, k, T)."""
    d, k, T = E.shape
    for i in range(d):
        for a in range(k):
            o = out[i, a]
            for b in range(k):
                m, e = M[a, b], E[i, b]
                for t in range(T):
                    o[t] += factor * m[t] * e[t]


@kernel
def dot(A: Array, B: Array) -> float:
    """Return Σ A B over all entries."""
    a, b = A.reshape(A.size), B.reshape(B.size)
    s = 0.0
    for m in range(a.size):
        s += a[m] * b[m]
    return s


@kernel
def gradient(U: Array, F: Array) -> Array:
    """Return the Riemannian gradient F_t - U_t (U_tᵀF_t), (d, k, T)."""
    out = F.copy()
    add_combined(inner_products(F, U), U, -1.0, out)
    return out


@kernel
def hessian(A: Array, M: Array, lam: float, U: Array, E: Array, out: Array) -> None:
    """Write the Hessian of -J applied to a tangent E; A_t = C_t + λG, M_t = F_tᵀU_t (k, k, T)."""
    times_covariances(A, E, out)
    B = sum_of_products(E, U)
    add_shared(B + B.T, U, lam, out)
    add_combined(M, E, -1.0, out)
    # the result is -(out - U N); the sign is applied after the projection
    N = inner_products(out, U)
    add_combined(N, U, -1.0, out)
    flat = out.reshape(out.size)
    for m in range(flat.size):
        flat[m] = -flat[m]


@kernel
def evaluate(
    C: Array, scales: Array, lam: float, n_tasks: int, U: Array
) -> tuple[float, float, Array]:
    """Return J, the largest gradient norm divided by ``scales`` (T,), and F (d, k, T)."""
    d, k, _ = U.shape
    F = np.empty_like(U)
    times_covariances(C, U, F)
    retained = dot(F, U)
    G = sum_of_products(U, U)
    add_shared(G, U, lam, F)
    J = 0.5 * retained + 0.25 * lam * (dot(G, G) - n_tasks * k)
    g = gradient(U, F)
    residual = 0.0
    for t in range(n_tasks):
        s = 0.0
        for i in range(d):
            for a in range(k):
                s += g[i, a, t] ** 2
        residual = max(residual, np.sqrt(s) / scales[t])
    return J, residual, F


@kernel
def curvatures(M: Array, traces: Array, lam: float, n_tasks: int, d: int) -> Array:
    """Return the diagonal of the preconditioner, M_jj - φ_t, (d, k, T); 1 for padding."""
    k, T = M.shape[1], M.shape[2]
    W = np.ones((d, k, T))
    largest = 0.0
    for t in range(n_tasks):
        outside = traces[t] + lam * k * n_tasks
        for a in range(k):
            outside -= M[a, a, t]
        for a in range(k):
            W[0, a, t] = M[a, a, t] - outside / max(d - k, 1)
            largest = max(largest, abs(W[0, a, t]))
    floor = CURVATURE_FLOOR * largest if largest > 0 else 1.0
    for a in range(k):
        for t in range(n_tasks):
            W[0, a, t] = max(W[0, a, t], floor)
    for i in range(1, d):
        W[i] = W[0]
    return W


@kernel
def products_of_columns(Q: Array, a: int, b: int, out: Array) -> None:
    """Write the inner product of columns a and b of each Q_t into ``out`` (T,)."""
    out[:] = 0.0
    for i in range(Q.shape[0]):
        x, y = Q[i, a], Q[i, b]
        for t in range(out.size):
            out[t] += x[t] * y[t]


@kernel
def retract(U: Array, E: Array) -> Array:
    """Return orthonormal bases of the column spaces of U_t + E_t by modified Gram-Schmidt."""
    d, k, T = U.shape
    Q = U + E
    s = np.empty(T)
    for a in range(k):
        for b in range(a):
            products_of_columns(Q, a, b, s)
            for i in range(d):
                x, y = Q[i, a], Q[i, b]
                for t in range(T):
                    x[t] -= s[t] * y[t]
        products_of_columns(Q, a, a, s)
        for t in range(T):
            s[t] = 1.0 / np.sqrt(s[t]) if s[t] > 0 else 0.0  # padding stays zero
        for i in range(d):
            x = Q[i, a]
            for t in range(T):
                x[t] *= s[t]
    return Q
