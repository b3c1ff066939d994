"""Compiled sweeps of dual coordinate ascent, task by task.

They update three arrays in place: the dual variables κ, the products of κ with the kernel matrix or
the features, and g, the Gram matrix of the outputs.

During the sweeps over a task r, the contributions of the other tasks to its examples are fixed, so
that a step costs O(n_r + T), or O(d + T) for a linear kernel. After the sweeps, the products of the
task with all rows are updated for the rows that changed. Examples that do not change in a sweep are
skipped by the next sweeps over the same task. If all tasks share their rows, a sweep over a block
of rows visits every task in turn.
"""

# ruff: noqa: PLR0917, FBT001  numba takes positional arguments only

import numpy as np

from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.kernels.compiled import kernel
from algorithms.numerics.kernels.fmtl_step import (
    best_kappa,
    cubic_step,
    cubic_terms,
    is_optimal,
)
from algorithms.numerics.theta_rules import FIXED, POWER, Rule

#: Up to this share of changed rows, updates row by row are faster than a full matrix product.
MAX_SPARSE_SHARE = 0.5
#: Sweeps over a task end once a sweep changes κ by less than this, relative to the largest change.
MIN_CHANGE_RATIO = 0.15


@kernel
def pass_dense(
    K: Array,
    first: Indices,
    offsets: Indices,
    keys: Array,
    n_sweeps: int,
    is_refresh: bool,
    pieces: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    kappa: Array,
    products: Array,
    g: Array,
) -> None:
    """Update κ (n,), products (T, N) and g (T, T) by sweeps over each task.

    Parameters
    ----------
    K : (N, N)
        The rows of task r begin at ``first[r]``.
    offsets : (T + 1,)
        The examples of task r are ``offsets[r]`` to ``offsets[r + 1]``.
    keys : (n,)
        Random numbers in [0, 1) for the order of the examples.
    is_refresh
        Compute the products from scratch, because updates accumulate rounding errors.
    """
    for r in range(first.size):
        start, n_r = offsets[r], offsets[r + 1] - offsets[r]
        part = slice(start, start + n_r)
        rows = slice(first[r], first[r] + n_r)
        own, B_r = kappa[part].copy(), products[:, rows].T.copy()
        task_dense(
            K[rows, rows].copy(), shuffled(keys[part]), n_sweeps, r, pieces[part], eps,
            is_logistic, rule, Theta, own, B_r, g,
        )  # fmt: skip
        if is_refresh:
            products[r] = 0.0
        change = own if is_refresh else own - kappa[part]
        add_rows(K[rows], change, products[r])
        kappa[part] = own


@kernel
def pass_linear(
    X: Array,
    first: Indices,
    offsets: Indices,
    keys: Array,
    n_sweeps: int,
    pieces: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    kappa: Array,
    products: Array,
    g: Array,
) -> None:
    """Update κ (n,), products (T, d) and g (T, T) by sweeps over each task.

    Parameters
    ----------
    X : (N, d)
        The rows of task r begin at ``first[r]``.
    offsets : (T + 1,)
        The examples of task r are ``offsets[r]`` to ``offsets[r + 1]``.
    keys : (n,)
        Random numbers in [0, 1) for the order of the examples.
    """
    for r in range(first.size):
        start, n_r = offsets[r], offsets[r + 1] - offsets[r]
        part = slice(start, start + n_r)
        X_r = X[first[r] : first[r] + n_r]
        task_linear(
            X_r, shuffled(keys[part]), n_sweeps, r, pieces[part], eps, is_logistic, rule, Theta,
            kappa[part], np.dot(X_r, products.T), products[r], g,
        )  # fmt: skip
        products[r] = np.dot(kappa[part], X_r)


@kernel
def block(
    K_II: Array,
    n_sweeps: int,
    pieces: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    kappa: Array,
    B_I: Array,
    g: Array,
) -> None:
    """Update κ (T, m), B (m, T) and g by sweeps over all tasks of m shared rows.

    Parameters
    ----------
    K_II : (m, m)
    pieces : (T, m, 5)
    """
    order = np.arange(K_II.shape[0])
    for _ in range(n_sweeps):
        for r in range(kappa.shape[0]):
            task_dense(
                K_II, order, 1, r, pieces[r], eps, is_logistic, rule, Theta, kappa[r], B_I, g
            )


@kernel
def shuffled(keys: Array) -> Indices:
    """Return a random permutation (Fisher-Yates) from random keys in [0, 1)."""
    order = np.arange(keys.size)
    for i in range(keys.size - 1, 0, -1):
        j = int(keys[i] * (i + 1))
        order[i], order[j] = order[j], order[i]
    return order


@kernel
def task_dense(
    K_rr: Array,
    order: Indices,
    n_sweeps: int,
    r: int,
    pieces: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    kappa: Array,
    B_r: Array,
    g: Array,
) -> None:
    """Update κ_r (n_r,), B_r (n_r, T) and g by sweeps over a task.

    Parameters
    ----------
    K_rr : (n_r, n_r)
    B_r
        Only column r changes: the products with the task's own examples.
    """
    n_left, left, own, largest = order.size, order.copy(), B_r[:, r].copy(), 0.0
    is_linear = not is_logistic and (rule[0] == FIXED or (rule[0] == POWER and rule[1] == 1))
    is_cubic = is_linear and rule[0] == POWER and eps == 0.0
    line, scale = (Theta[r], 1.0) if rule[0] == FIXED else (g[r], rule[2])
    for _ in range(n_sweeps):
        n_moved, moved = 0, 0.0
        for place in range(n_left):
            i = left[place]
            B_r[i, r] = own[i]
            k_ii, b_r, q = K_rr[i, i], own[i], pieces[i, 1]
            if is_linear:  # inlined for speed; most examples are optimal already
                F, square = sums(line, B_r, i)
                R, lo, hi = pieces[i, 0] - q * kappa[i] - scale * F, pieces[i, 2], pieces[i, 3]
                if is_optimal(kappa[i], R, lo, hi, eps):
                    continue
            if is_cubic:
                c_1, c_2, c_3 = cubic_terms(scale, square, b_r, k_ii, line[r])
                far = hi - kappa[i] if R > 0.0 else lo - kappa[i]
                new = min(max(kappa[i] + cubic_step(R, far, q + c_1, c_2, c_3), lo), hi)
            else:
                b = B_r[i]
                new = best_kappa(kappa[i], pieces[i], eps, is_logistic, rule, Theta, k_ii, b, g, r)
            delta = new - kappa[i]
            if delta != 0.0:
                for s in range(line.size):
                    g[r, s] += B_r[i, s] * delta
                g[r, r] += (b_r + k_ii * delta) * delta
                for j in range(own.size):
                    own[j] += delta * K_rr[i, j]
                kappa[i] = new
                left[n_moved] = i
                n_moved += 1
                moved += abs(delta)
        if moved <= MIN_CHANGE_RATIO * largest:
            break
        n_left, largest = n_moved, max(largest, moved)
    B_r[:, r] = own
    g[:, r] = g[r]


@kernel
def sums(line: Array, B_r: Array, i: int) -> tuple[float, float]:
    """Return Σ_s line_s b_s and Σ_s b_s² of row b = B_i."""
    F, square = 0.0, 0.0
    for s in range(line.size):
        F += line[s] * B_r[i, s]
        square += B_r[i, s] * B_r[i, s]
    return F, square


@kernel
def task_linear(
    X_r: Array,
    order: Indices,
    n_sweeps: int,
    r: int,
    pieces: Array,
    eps: float,
    is_logistic: bool,
    rule: Rule,
    Theta: Array,
    kappa: Array,
    B_r: Array,
    u: Array,
    g: Array,
) -> None:
    """Update κ_r (n_r,), u = X_rᵀκ_r (d,) and g by sweeps over a task."""
    n_left, left, largest = order.size, order.copy(), 0.0
    for _ in range(n_sweeps):
        n_moved, moved = 0, 0.0
        for place in range(n_left):
            i = left[place]
            b = B_r[i]
            k_ii, own = 0.0, 0.0
            for f in range(u.size):
                k_ii += X_r[i, f] * X_r[i, f]
                own += u[f] * X_r[i, f]
            b[r] = own
            new = best_kappa(kappa[i], pieces[i], eps, is_logistic, rule, Theta, k_ii, b, g, r)
            delta = new - kappa[i]
            if delta != 0.0:
                update_row_of_g(g, b, k_ii, r, delta)
                for f in range(u.size):
                    u[f] += delta * X_r[i, f]
                kappa[i] = new
                left[n_moved] = i
                n_moved += 1
                moved += abs(delta)
        if moved <= MIN_CHANGE_RATIO * largest:
            break
        n_left, largest = n_moved, max(largest, moved)
    g[:, r] = g[r]


@kernel
def update_row_of_g(g: Array, b: Array, k_ii: float, r: int, delta: float) -> None:
    """Update row r of g for a step δ; column r is updated at the end of the sweeps."""
    for s in range(b.size):
        g[r, s] += b[s] * delta
    g[r, r] += (b[r] + k_ii * delta) * delta


@kernel
def add_rows(K_r: Array, change: Array, out: Array) -> None:
    """Add Σ_i change_i K_r[i] to ``out`` (N,), skipping rows without change."""
    chosen = np.flatnonzero(change)
    if chosen.size > MAX_SPARSE_SHARE * change.size:
        out += np.dot(change, K_r)
        return
    n_fours = chosen.size - chosen.size % 4
    for start in range(0, n_fours, 4):  # four rows per pass over out
        h, i, j, k = chosen[start], chosen[start + 1], chosen[start + 2], chosen[start + 3]
        c_h, c_i, c_j, c_k = change[h], change[i], change[j], change[k]
        for x in range(out.size):
            out[x] += c_h * K_r[h, x] + c_i * K_r[i, x] + c_j * K_r[j, x] + c_k * K_r[k, x]
    for place in range(n_fours, chosen.size):
        i = chosen[place]
        out += change[i] * K_r[i]
