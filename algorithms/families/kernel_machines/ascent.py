"""Dual coordinate ascent over the examples of all tasks.

One iteration is one pass over all examples, by :mod:`algorithms.families.kernel_machines.passes`.
Its objective is the dual value, its residual the relative duality gap.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from algorithms.families.kernel_machines.problem import Problem
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array

AscentMethod = Literal["sdca", "tasks", "blocks"]

#: Number of passes between computations of the products from scratch; updates accumulate errors.
RECOMPUTE_EVERY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AscentState(LoopState):
    """A dual point.

    Parameters
    ----------
    kappa : (n,)
    products : (T, N) or (T, d)
        κ_sᵀK or X_sᵀκ_s, updated in each step and recomputed at intervals.
    g : (T, T)
        κᵀKκ, task by task.
    epoch
        Number of passes; seeds the order of the next pass.
    """

    kappa: Array
    products: Array
    g: Array
    epoch: int

    def final(self) -> Self:
        """Return the state without the products, which follow from κ."""
        return replace(self, products=self.products[:0])


def coordinate_ascent(
    problem: Problem,
    method: AscentMethod,
    *,
    start: Array | None = None,
    products: Array | None = None,
    seed: int,
    max_iter: int,
    tolerance: float,
    trace: Trace,
    loop: str = "ascent",
) -> AscentState:
    """Maximise the dual until the relative gap is below the tolerance; return the last state.

    Parameters
    ----------
    start : (n,) or None
        Initial κ.
    products
        Its products, if they are known.
    """
    from algorithms.families.kernel_machines.passes import block_pass, sdca_pass, task_pass

    sweep = {"sdca": sdca_pass, "tasks": task_pass, "blocks": block_pass}[method]
    kappa = problem.initial_kappa() if start is None else start
    pieces = problem.loss.pieces(problem.examples.y, problem.examples.w)
    scale = problem.kernel.C

    def state(kappa: Array, products: Array, *, epoch: int) -> AscentState:
        g = problem.gram(kappa, products)
        certificate = problem.certificate(kappa, products, g)
        return AscentState(
            objective=scale * certificate.dual, residual=certificate.relative_gap, kappa=kappa,
            products=products, g=g, epoch=epoch,
        )  # fmt: skip

    def step(before: AscentState) -> AscentState:
        rng = np.random.default_rng([seed, before.epoch])
        kappa, products, g = before.kappa.copy(), before.products.copy(), before.g.copy()
        recompute = before.epoch % RECOMPUTE_EVERY == RECOMPUTE_EVERY - 1
        sweep(problem, pieces, kappa, products, g, rng=rng, recompute=recompute)
        return state(kappa, products, epoch=before.epoch + 1)

    first = state(kappa, problem.products(kappa) if products is None else products, epoch=0)
    return trace.run(loop, step, first, max_iter=max_iter, tolerance=tolerance)
