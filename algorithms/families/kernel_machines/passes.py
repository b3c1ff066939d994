"""Passes of dual coordinate ascent: by SDCA, by task, or by blocks of rows that all tasks share.

*SDCA* (Algorithm 1 of Jawanpuria et al. 2015): single examples in random order, O(n + T) per step.
*Tasks*: each task in turn, with the contributions of the others fixed: sweeps at O(n_r + T) per
step until they change little, then one matrix-vector product. For tasks with different rows. The
penalty exp relates all tasks, so each pass begins with a pass of SDCA; sweeps alone need 3 to 30
times as many passes.
*Blocks*: 64 shared rows with all tasks: two sweeps on their kernel matrix, then one matrix product.
Blocks are random in every pass; fixed blocks need ten times as many passes.
"""

import numpy as np

from algorithms.families.kernel_machines.problem import Problem
from algorithms.numerics.arrays import Array
from algorithms.numerics.kernels import fmtl as kernels
from algorithms.numerics.kernels import fmtl_tasks as task_kernels

#: Maximum number of sweeps over one task per pass.
TASK_SWEEPS = 20
#: Number of rows of a block, and of sweeps over it.
BLOCK_ROWS = 64
BLOCK_SWEEPS = 2


def sdca_pass(
    problem: Problem,
    pieces: Array,
    kappa: Array,
    products: Array,
    g: Array,
    *,
    rng: np.random.Generator,
    recompute: bool,
) -> None:
    """Update κ and the products by a step for every example, in random order.

    Parameters
    ----------
    pieces : (n, 5)
        ``Loss.pieces`` of the examples.
    kappa, products, g
        κ (n,), ``Problem.products`` and ``Problem.gram`` of it; updated in place.
    recompute
        Whether the products are computed from κ at the end, which removes rounding errors.
    """
    e, loss, kernel = problem.examples, problem.loss, problem.kernel
    row, output = e.row_and_output
    source = e.X if problem.K is None else problem.K
    run = kernels.sdca_linear if problem.K is None else kernels.sdca_dense
    run(
        source, rng.permutation(len(kappa)), output, row, pieces, loss.epsilon, loss.is_logistic,
        kernel.rule, kernel.Theta, kappa, products, g,
    )  # fmt: skip
    if recompute:
        products[:] = problem.products(kappa)


def task_pass(
    problem: Problem,
    pieces: Array,
    kappa: Array,
    products: Array,
    g: Array,
    *,
    rng: np.random.Generator,
    recompute: bool,
) -> None:
    """Update κ, products and g by sweeps over each output, with the other outputs fixed.

    Parameters
    ----------
    pieces, kappa, products, g, recompute
        As in :func:`sdca_pass`.
    """
    e, loss, kernel, K = problem.examples, problem.loss, problem.kernel, problem.K
    if kernel.has_dense_theta:
        sdca_pass(problem, pieces, kappa, products, g, rng=rng, recompute=False)
    keys = rng.random(len(kappa))
    steps = (pieces, loss.epsilon, loss.is_logistic, kernel.rule, kernel.Theta)
    if K is None:  # pass_linear recomputes the products in every pass
        task_kernels.pass_linear(
            e.X, e.first, e.offsets, keys, TASK_SWEEPS, *steps, kappa, products, g
        )
    else:
        task_kernels.pass_dense(
            K, e.first, e.offsets, keys, TASK_SWEEPS, recompute, *steps, kappa, products, g
        )


def block_pass(
    problem: Problem,
    pieces: Array,
    kappa: Array,
    products: Array,
    g: Array,
    *,
    rng: np.random.Generator,
    recompute: bool,
) -> None:
    """Update κ and the products by sweeps over blocks of shared rows with all outputs.

    Parameters
    ----------
    pieces, kappa, products, g, recompute
        As in :func:`sdca_pass`.
    """
    e, loss, kernel, K = problem.examples, problem.loss, problem.kernel, problem.K
    T, N = e.n_outputs, len(e.X)
    kappas, by_output = kappa.reshape(T, N), pieces.reshape(T, N, 5)
    source = e.X if K is None else K
    order = rng.permutation(N)
    for start in range(0, N, BLOCK_ROWS):
        rows = order[start : start + BLOCK_ROWS]
        if K is None:
            K_II, B_I = e.X[rows] @ e.X[rows].T, e.X[rows] @ products.T
        else:
            K_II, B_I = K[np.ix_(rows, rows)], np.ascontiguousarray(products[:, rows].T)
        updated = kappas[:, rows]
        task_kernels.block(
            K_II, BLOCK_SWEEPS, by_output[:, rows], loss.epsilon,
            loss.is_logistic, kernel.rule, kernel.Theta, updated, B_I, g,
        )  # fmt: skip
        change = updated - kappas[:, rows]
        moved = np.flatnonzero(change.any(axis=0))
        kappas[:, rows] = updated
        products += change[:, moved] @ source[rows[moved]]
    if recompute:
        products[:] = problem.products(kappa)
