"""The problem with a loss of margins (logistic or hinge), and its dual lower bound.

    min_{W,b} Σ_t Σ_i s_ti φ(y_ti (⟨w_t, x_ti⟩ + b_t)) + γ‖W‖²,  y = ±1

with weights s of the rows, 1 by default. Dual: max −Σ s φ*(−p) − ‖Z‖²/(4γ) over p in [0, 1],
z_t = Σ_i s_ti y_ti p_ti x_ti, in the dual norm. With intercepts, Σ_i s_ti y_ti p_ti = 0 is required
in each task; multipliers are made feasible by decreasing p of the class with the larger sum. The
rows are then centred per task: this changes only b, and without it columns with large means make
the problem ill conditioned.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_means
from algorithms.numerics.feature_norms import FeatureNorm
from algorithms.numerics.losses import MarginLoss
from algorithms.numerics.stacks import Block, Stacks, merge_equal_rows, stack_blocks


@dataclass(frozen=True, slots=True, eq=False)
class MarginProblem:
    """Rows and labels ±1 of all tasks, with norm, γ and loss.

    Parameters
    ----------
    means : (T, d)
        Vectors subtracted from the rows of each task: their mean, or 0 without intercepts.
    """

    stacks: Stacks
    means: Array
    norm: FeatureNorm
    gamma: float
    loss: MarginLoss
    has_intercept: bool


def margin_problem(
    blocks: list[Block], *, norm: FeatureNorm, gamma: float, loss: MarginLoss, has_intercept: bool
) -> MarginProblem:
    """Return the problem for blocks of rows and labels.

    Parameters
    ----------
    has_intercept
        Whether each task has an intercept; its rows are then centred.
    """
    blocks = merge_equal_rows(blocks)
    means = np.zeros((sum(len(block.columns) for block in blocks), blocks[0].X.shape[1]))
    if has_intercept:
        for block in blocks:
            means[block.columns] = column_means(block.X, block.weights)
        blocks = [replace(block, X=block.X - means[block.columns[0]]) for block in blocks]
    return MarginProblem(stack_blocks(blocks), means, norm, gamma, loss, has_intercept)


def mean_scores(problem: MarginProblem, W: Array) -> Array:
    """Return ⟨w_t, mean of the rows of task t⟩, (T,): how much centring changes the intercepts."""
    return np.asarray(np.sum(problem.means * W, axis=1))


def margins(problem: MarginProblem, W: Array, b: Array) -> list[Array]:
    """Return y (X w + b), (g, n, m) per stack, for W (T, d) and b (T,)."""
    return [
        part.Y * (F + b[part.columns][:, np.newaxis])
        for part, F in zip(problem.stacks.parts, problem.stacks.forward(W), strict=True)
    ]


def objective(problem: MarginProblem, M: Sequence[Array], W: Array) -> float:
    """Return Σ φ + γ‖W‖² for the margins of W."""
    loss = total(problem, [problem.loss.value(m) for m in M])
    return loss + problem.gamma * problem.norm.norm(W) ** 2


def total(problem: MarginProblem, values: Sequence[Array]) -> float:
    """Return the weighted sum over rows, without padding."""
    parts = problem.stacks.parts
    return sum(float(np.sum(v * part.weight)) for v, part in zip(values, parts, strict=True))


def lower_bound(problem: MarginProblem, P: Sequence[Array]) -> float:
    """Return the dual value for multipliers in [0, 1], (g, n, m) per stack."""
    if problem.has_intercept:
        P = _balanced(problem, P)
    Z = correlation(problem, P)
    cost = problem.norm.dual_norm(Z) ** 2 / (4 * problem.gamma)
    return -total(problem, [problem.loss.conjugate(p) for p in P]) - cost


def correlation(problem: MarginProblem, P: Sequence[Array]) -> Array:
    """Return Z (T, d) with rows Σ_i s_ti y_ti p_ti x_ti."""
    return problem.stacks.adjoint(slopes(problem, P))


def slopes(problem: MarginProblem, P: Sequence[Array]) -> list[Array]:
    """Return s y p, (g, n, m) per stack: minus the derivatives of the losses by the scores."""
    parts = problem.stacks.parts
    return [part.weight * part.Y * p for part, p in zip(parts, P, strict=True)]


def _balanced(problem: MarginProblem, P: Sequence[Array]) -> list[Array]:
    """Return feasible multipliers, with Σ s y p = 0 in each task."""
    balanced = []
    for part, p in zip(problem.stacks.parts, P, strict=True):
        is_up = part.Y > 0
        weighted = part.weight * p
        up = np.sum(weighted * is_up, axis=1, keepdims=True)
        down = np.sum(weighted * (part.Y < 0), axis=1, keepdims=True)
        smaller = np.minimum(up, down)
        factor = smaller / np.maximum(np.where(is_up, up, down), 1e-300)
        balanced.append(p * np.minimum(factor, 1.0))
    return balanced
