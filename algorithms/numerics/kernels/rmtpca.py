"""The compiled Newton step of RMT-PCA, for both array layouts.

If ``lanes`` is true, tasks are the last axis, padded to whole SIMD vectors (few features);
otherwise they are the first axis. The reference implementation in numpy is
:class:`algorithms.numerics.coupled_traces.BlasCoupledTraces`.
"""

# ruff: noqa: PLR0917, FBT001  numba takes positional arguments only

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.kernels import rmtpca_blas as blas
from algorithms.numerics.kernels import rmtpca_lanes as tasks_last
from algorithms.numerics.kernels.compiled import kernel

Array = NDArray[np.float64]


@kernel
def evaluate(
    lanes: bool, C: Array, scales: Array, lam: float, n_tasks: int, U: Array
) -> tuple[float, float, Array]:
    """Return J, the largest relative gradient norm, and F in the shape of U."""
    if lanes:
        return tasks_last.evaluate(C, scales, lam, n_tasks, U)
    return blas.evaluate(C, scales, lam, n_tasks, U)


@kernel
def gradient(lanes: bool, U: Array, F: Array) -> Array:
    """Return the Riemannian gradient of J."""
    if lanes:
        return tasks_last.gradient(U, F)
    return blas.gradient(U, F)


@kernel
def hessian(lanes: bool, A: Array, M: Array, lam: float, U: Array, E: Array, out: Array) -> None:
    """Write the Hessian of -J applied to a tangent E into ``out``; A_t = C_t + λG."""
    if lanes:
        tasks_last.hessian(A, M, lam, U, E, out)
    else:
        blas.hessian(A, M, lam, U, E, out)


@kernel
def ascend(lanes: bool, C: Array, lam: float, U: Array, n_steps: int) -> Array:
    """Return the point after steps that replace each basis by one of U_t (C_t + λG)."""
    zero = np.zeros_like(U)
    for _ in range(n_steps):
        F = np.empty_like(U)
        if lanes:
            tasks_last.times_covariances(C, U, F)
            tasks_last.add_shared(tasks_last.sum_of_products(U, U), U, lam, F)
            U = tasks_last.retract(F, zero)
        else:
            blas.times_covariances(C, U, F)
            blas.add_shared(blas.sum_of_products(U, U), U, lam, F)
            U = blas.retract(F, zero)
    # F may be ill-conditioned, and Gram-Schmidt is exact to rounding only the second time
    return tasks_last.retract(U, zero) if lanes else blas.retract(U, zero)


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
    lanes: bool,
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
    n_tasks = traces.size
    if lanes:
        A = tasks_last.with_coupling(C, tasks_last.sum_of_products(U, U), lam)
        M = tasks_last.inner_products(F, U)
        curvatures = tasks_last.curvatures(M, traces, lam, n_tasks, U.shape[0])
    else:
        A, M = blas.with_coupling(C, blas.sum_of_products(U, U), lam), blas.inner_products(F, U)
        curvatures = blas.curvatures(M, traces, lam, n_tasks, U.shape[2])
    g, E = gradient(lanes, U, F), np.zeros_like(U)
    p, Hp = np.empty_like(U), np.empty_like(U)
    r, e, fp, fh = g.ravel().copy(), E.ravel(), p.ravel(), Hp.ravel()
    # the squared radius in the norm of the preconditioner, without padding
    unpadded = curvatures[0, :, :n_tasks] if lanes else curvatures[:, :, 0]
    bound = radius**2 * unpadded.sum()
    weights = (1.0 / curvatures).ravel()
    rz = preconditioned_size(r, weights)
    fp[:] = r * weights
    target = rz * forcing**2
    EWE, EWp, pWp = 0.0, 0.0, rz
    clipped = False
    for _ in range(U.size):
        if rz <= target:
            break
        hessian(lanes, A, M, lam, U, p, Hp)
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
    lanes: bool,
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
    E, predicted, length, clipped = solve(lanes, C, traces, lam, U, F, radius, forcing)
    Q = tasks_last.retract(U, E) if lanes else blas.retract(U, E)
    J, residual, F_next = evaluate(lanes, C, scales, lam, traces.size, Q)
    return Q, J, residual, F_next, predicted, length, clipped
