"""Weights of rows for Student's noise, by expectation and maximisation.

    w_i = (ν + 1)/(ν + E[r_i²]/σ²),   E[r_i²] = (ỹ_i − m_i)² + v_i

with the posterior mean m_i and variance v_i of the function at the row: the noise of row i has the
variance σ²/w_i (Lange, Little, Taylor 1989, doi:10.2307/2290063).
"""

from typing import Final

import numpy as np
from scipy.linalg.lapack import dtrtri

from algorithms.gp.data import Data
from algorithms.gp.posterior import Layout, solve
from algorithms.numerics.arrays import Array

#: ν, the degrees of freedom.
FREEDOM: Final = 4.0
#: Rows so many median absolute deviations from the median of their task start with a small weight.
FAR: Final = 5.0
FAR_WEIGHT: Final = 0.01


def first_weights(data: Data) -> Array:
    """Return a small weight for rows whose target is far from the others of the task, (n,)."""
    weights = np.ones(len(data.X))
    for t in range(data.n_tasks):
        members = data.task == t
        y = data.targets[members, 0]
        distances = np.abs(y - np.median(y))
        weights[members] = np.where(distances > FAR * np.median(distances), FAR_WEIGHT, 1.0)
    return weights


def student_weights(data: Data, layout: Layout, log_scales: Array) -> Array:
    """Return the weight of each row, given the hyperparameters of a layout, (n,)."""
    sigma2 = layout.theta.noise
    noise = sigma2 / data.weights
    scale = np.exp(log_scales)[data.task] if len(log_scales) else np.ones(len(data.X))
    solution = solve(layout, data.targets / scale[:, np.newaxis], noise)
    inverse = np.empty(len(data.X))  # the diagonal of Λ⁻¹
    for members, factor in zip(layout.blocks, solution.factors, strict=True):
        root, _ = dtrtri(factor, lower=1)
        inverse[members] = (np.tril(root) ** 2).sum(axis=0)
    residual = noise * solution.alpha[:, 0]
    variance = np.maximum(noise - noise**2 * inverse, 0.0)
    return np.asarray((FREEDOM + 1) / (FREEDOM + (residual**2 + variance) / sigma2))
