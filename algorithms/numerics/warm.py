"""Compilation of every kernel into the cache on disk.

Installation and the container image run it once, by ``python -m service.operations.warm``.
Compilation takes tens of seconds, loading from the cache takes milliseconds.
"""

from typing import Final

import numpy as np

from algorithms.numerics.compiled_traces import compile_for
from algorithms.numerics.covariances import from_dense
from algorithms.numerics.kernels import fmtl as kernels_fmtl
from algorithms.numerics.kernels import fmtl_tasks as kernels_fmtl_tasks
from algorithms.numerics.latent_projection import initial_latents, predictor, refine_latents


def warm_rmtpca() -> None:
    """Compile the kernels of RMT-PCA."""
    C = from_dense(np.stack([np.diag([3.0, 2.0, 1.0]), np.diag([2.0, 3.0, 1.0])]))
    objective = compile_for(C, lam=1.0, k=1)
    point = np.ascontiguousarray(C.leading(1))
    value = objective.evaluate(point)
    objective.ascend(point, n_steps=1)
    objective.trial_step(point, value.F, radius=0.5, forcing=0.1)


def warm_latent() -> None:
    """Compile the kernels of latent projection."""
    Y = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    process = predictor("rbf", np.zeros(3), Y[:, :1].copy(), Y, floor=0.1)
    refine_latents(process, Y, initial_latents(process, Y)[0], is_robust=True)


def warm_fmtl() -> None:
    """Compile the kernels of output-kernel learning."""
    K, X, order = np.eye(2), np.eye(2), np.arange(2)
    pieces = np.tile([1.0, 0.0, 0.0, 1.0, 1.0], (2, 1))
    rule, Theta = (1, 1, 1.0, 1.0), np.ones((1, 1))
    shape = (0.0, False, rule, Theta)
    kernels_fmtl.sdca_dense(
        K, order, order, order, pieces, *shape, np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
    )
    kernels_fmtl.sdca_linear(
        X, order, order, order, pieces, *shape, np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
    )
    g, start, ends = np.zeros((1, 1)), np.zeros(1, dtype=np.intp), np.array([0, 2])
    kernels_fmtl_tasks.task_dense(K, order, 1, 0, pieces, *shape, np.zeros(2), np.zeros((2, 1)), g)
    rows = (start, ends, np.zeros(2), 1, False)
    kernels_fmtl_tasks.pass_dense(K, *rows, pieces, *shape, np.zeros(2), np.zeros((1, 2)), g)
    kernels_fmtl_tasks.pass_linear(X, *rows[:4], pieces, *shape, np.zeros(2), np.zeros((1, 2)), g)
    kernels_fmtl_tasks.block(
        K, 1, pieces[np.newaxis], *shape, np.zeros((1, 2)), np.zeros((2, 1)), g
    )


#: Independent of each other, the slowest first.
STEPS: Final = (warm_fmtl, warm_latent, warm_rmtpca)


def main() -> None:
    """Compile all kernels."""
    for step in STEPS:
        step()
