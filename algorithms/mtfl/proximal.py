"""Solver of MTFL by accelerated proximal gradient, with the prox of the squared norm.

It is fast if the rows of all tasks are well conditioned: a step costs one product per task and one
thin SVD of W, and the number of steps grows with the root of the ratio of curvatures.
"""

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import Trace
from algorithms.mtfl.square import (
    SquareProblem,
    lower_bound,
    objective,
    relative_gap,
    residuals_of,
)
from algorithms.solvers.proximal_gradient import ProximalState, ProximalTrial, proximal_gradient

Array = NDArray[np.float64]


def descend_proximal(
    problem: SquareProblem,
    W: Array,
    *,
    L: float,
    trace: Trace,
    loop: str,
    max_iter: int,
    tolerance: float,
) -> ProximalState:
    """Iterate from W until the relative duality gap is below the tolerance; L bounds curvatures."""
    known = W, problem.norm.norm(W)

    def evaluate(W: Array) -> ProximalTrial:
        residuals = residuals_of(problem, W)
        Z = problem.stacks.adjoint(residuals)
        norm = known[1] if known[0] is W else problem.norm.norm(W)
        value = objective(problem, residuals, norm)
        return ProximalTrial(-2 * Z, value, relative_gap(value, lower_bound(problem, residuals, Z)))

    def prox(W: Array, step: float) -> Array:
        nonlocal known
        known = problem.norm.shrink_with_norm(W, step * problem.gamma, power=2)
        return known[0]

    return proximal_gradient(
        evaluate, prox, W, L=L, trace=trace, loop=loop, max_iter=max_iter, tolerance=tolerance
    )
