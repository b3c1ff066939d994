"""Compiled passes of SDCA for output-kernel learning, as published.

A pass visits single examples and updates the products of every example with every task: O(n) per
step for a kernel, O(Td) for a linear one. κ, the products and g are updated in place.
:mod:`algorithms.numerics.kernels.fmtl_tasks` is faster.
"""

# ruff: noqa: PLR0917, FBT001  numba takes positional arguments only

import numpy as np

from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.kernels.compiled import kernel
from algorithms.numerics.kernels.fmtl_step import best_kappa
from algorithms.numerics.theta_rules import Rule


@kernel
def update_g(g: Array, b: Array, k_ii: float, r: int, delta: float) -> None:
    """Update g (T, T) in place for a step δ of an example of task r with products b (T,)."""
    for s in range(b.size):
        change = b[s] * delta
        if s == r:
            g[r, r] += 2.0 * change + k_ii * delta * delta
        else:
            g[r, s] += change
            g[s, r] += change


@kernel
def sdca_dense(
    K: Array,
    order: Indices,
    task: Indices,
    row: Indices,
    pieces: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    kappa: Array,
    B: Array,
    g: Array,
) -> None:
    """Update κ (n,), B (T, N) and g (T, T) by one step of SDCA for each example in ``order``."""
    b = np.empty(g.shape[0])
    for i in order:
        r, j = task[i], row[i]
        for s in range(b.size):
            b[s] = B[s, j]
        new = best_kappa(kappa[i], pieces[i], eps, is_logistic, rule, Theta, K[j, j], b, g, r)
        delta = new - kappa[i]
        if delta != 0.0:
            update_g(g, b, K[j, j], r, delta)
            B[r] += delta * K[j]
            kappa[i] = new


@kernel
def sdca_linear(
    X: Array,
    order: Indices,
    task: Indices,
    row: Indices,
    pieces: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    kappa: Array,
    U: Array,
    g: Array,
) -> None:
    """Update κ (n,), U (T, d) and g (T, T) by one step of SDCA for each example in ``order``."""
    b = np.empty(g.shape[0])
    for i in order:
        r, x = task[i], X[row[i]]
        k_ii = 0.0
        for f in range(x.size):
            k_ii += x[f] * x[f]
        for s in range(b.size):
            total = 0.0
            for f in range(x.size):
                total += U[s, f] * x[f]
            b[s] = total
        new = best_kappa(kappa[i], pieces[i], eps, is_logistic, rule, Theta, k_ii, b, g, r)
        delta = new - kappa[i]
        if delta != 0.0:
            update_g(g, b, k_ii, r, delta)
            U[r] += delta * x
            kappa[i] = new
