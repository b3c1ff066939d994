"""Predictions from the training rows: exact, or with the tasks as blocks (PIC).

    Λ_b = K_bb − Φ_bΦ_bᵀ + σ²W_b⁻¹,   B = I + Σ_b Φ_bᵀΛ_b⁻¹Φ_b,   w = B⁻¹ Σ_b Φ_bᵀΛ_b⁻¹ỹ_b
    m* = φ*ᵀw + (k*_b − φ*ᵀΦ_bᵀ) Λ_b⁻¹(ỹ_b − Φ_b w)

Rows of different blocks are related by the features Φ alone, which approximate the common part; of
one block, exactly (Snelson and Ghahramani 2007; the partially independent conditional of
Quiñonero-Candela and Rasmussen, JMLR 2005). One block without features is the exact answer
(Rasmussen and Williams 2006, eq. 2.25 and 2.26). Cost: Σ n_b³/3 + n m².
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from algorithms.gp.covariance import (
    COMMON_CONSTANT,
    Hyperparameters,
    Rows,
    covariances,
    scaled_squares,
    variances,
)
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.gp_terms import MIN_VARIANCE

#: Added to the diagonal against rounding errors.
JITTER: Final = 1e-8
#: Largest number of rows of a block.
MAX_BLOCK: Final = 2_000
#: Largest number of inducing rows, the rows among which they are chosen, and the largest variance
#: of the common curve that may remain unexplained.
MAX_INDUCING: Final = 200
MAX_CANDIDATES: Final = 5_000
PIVOT_TOLERANCE: Final = 1e-3


@dataclass(frozen=True, eq=False)
class Layout:
    """Training rows in blocks, and the features that relate the blocks.

    Parameters
    ----------
    inducing : (m, d)
        Inducing rows of the common curve; None if one block has all rows.
    blocks
        Positions of the rows of each block.
    blocks_of
        Blocks of each task; one, unless it has very many rows.
    """

    rows: Rows
    theta: Hyperparameters
    inducing: Array | None
    blocks: Sequence[Indices]
    blocks_of: Sequence[Sequence[int]]

    @classmethod
    def of(
        cls,
        rows: Rows,
        theta: Hyperparameters,
        *,
        max_exact: int,
        inducing: Array | None = None,
    ) -> "Layout":
        """Return one block for up to ``max_exact`` rows, else blocks of the rows of one task.

        Parameters
        ----------
        inducing : (m, d)
            Inducing rows; chosen if None.
        """
        n, T = len(rows.X), int(rows.task[-1]) + 1
        if n <= max_exact:
            return cls(rows, theta, None, [np.arange(n)], [[0]] * T)
        blocks: list[Indices] = []
        blocks_of: list[list[int]] = []
        for t in range(T):
            members = np.flatnonzero(rows.task == t)
            n_blocks = -(-len(members) // MAX_BLOCK)
            blocks_of.append(list(range(len(blocks), len(blocks) + n_blocks)))
            blocks += [members[i::n_blocks] for i in range(n_blocks)]
        chosen = _choose_inducing(rows, theta) if inducing is None else inducing
        return cls(rows, theta, chosen, blocks, blocks_of)

    @cached_property
    def inducing_root(self) -> Array:
        """The lower Cholesky factor of ρ of the inducing rows."""
        assert self.inducing is not None
        curve = np.exp(-0.5 * scaled_squares(self.inducing, self.inducing, self.rows, self.theta))
        return np.asarray(cholesky(curve + JITTER * np.eye(len(curve)), lower=True))

    def features(self, Z: Array) -> Array:
        """Return the features Φ of rows (n, p), whose products are their common covariance."""
        if self.inducing is None:
            return np.zeros((len(Z), 0))
        theta = self.theta
        curve = np.exp(-0.5 * scaled_squares(self.inducing, Z, self.rows, theta))
        bent = solve_triangular(self.inducing_root, curve, lower=True).T
        constant = np.full((len(Z), 1), math.sqrt(COMMON_CONSTANT))
        slopes = math.sqrt(theta.common_slopes / self.rows.size) * Z
        return np.hstack([constant, slopes, math.sqrt(theta.common_curve) * bent])

    def rest(self, Z: Array, task: Indices | int, block: int) -> Array:
        """Return the covariance of rows Z with the rows of a block that the features leave."""
        members = self.blocks[block]
        X = self.rows.X[members]
        common, own = covariances(Z, X, self.rows, self.theta)
        is_same = np.asarray(task).reshape(-1, 1) == self.rows.task[members]
        return common + np.where(is_same, own, 0.0) - self.features(Z) @ self.features(X).T


@dataclass(frozen=True, eq=False)
class Solution:
    """What the targets say.

    Parameters
    ----------
    factors
        Lower Cholesky factor of Λ of each block.
    root : (p, p)
        Lower Cholesky factor of B.
    alpha : (n, C)
        Λ⁻¹(ỹ − Φw) of each block.
    feature_weights : (p, C)
        w.
    """

    factors: Sequence[Array]
    root: Array
    alpha: Array
    feature_weights: Array


def solve(layout: Layout, Y: Array, noise: Array) -> Solution:
    """Return the solution for scaled targets Y (n, C), and the variances of their noise (n,)."""
    rows = layout.rows
    Phi = layout.features(rows.X)
    factors = []
    B, right = np.eye(Phi.shape[1]), np.zeros((Phi.shape[1], Y.shape[1]))
    for b, members in enumerate(layout.blocks):
        Lambda = layout.rest(rows.X[members], rows.task[members], b)
        Lambda.reshape(-1)[:: len(members) + 1] += noise[members] + JITTER
        factors.append(np.asarray(cholesky(Lambda, lower=True, overwrite_a=True)))
        whitened = cho_solve((factors[-1], True), Phi[members])
        B += Phi[members].T @ whitened
        right += whitened.T @ Y[members]
    root = np.asarray(cholesky(B, lower=True)) if len(B) else B
    feature_weights = cho_solve((root, True), right) if len(B) else right
    alpha = np.empty_like(Y)
    for members, factor in zip(layout.blocks, factors, strict=True):
        alpha[members] = cho_solve((factor, True), Y[members] - Phi[members] @ feature_weights)
    return Solution(factors, root, alpha, feature_weights)


def mean(layout: Layout, alpha: Array, feature_weights: Array, Z: Array, task: int) -> Array:
    """Return the posterior mean (n, C) at rows of a task; -1: of a task without training rows."""
    means = layout.features(Z) @ feature_weights
    blocks = _blocks(layout, task)
    for b in blocks:
        means = means + layout.rest(Z, task, b) @ alpha[layout.blocks[b]] / len(blocks)
    return means


def variance(layout: Layout, solution: Solution, Z: Array, task: int) -> Array:
    """Return the posterior variance (n,) of the function of a task at rows, without noise."""
    prior = variances(Z, layout.rows, layout.theta)
    phi = layout.features(Z)
    Phi = layout.features(layout.rows.X)
    blocks = _blocks(layout, task)
    prior -= np.einsum("np,np->n", phi, phi)
    if not blocks:
        return prior + _squares(solution.root, phi)
    total = np.zeros(len(Z))
    for b in blocks:
        factor = solution.factors[b]
        q = solve_triangular(factor, layout.rest(Z, task, b).T, lower=True)
        own = solve_triangular(factor, Phi[layout.blocks[b]], lower=True)
        total += prior - (q**2).sum(axis=0) + _squares(solution.root, phi - q.T @ own)
    return np.maximum(total / len(blocks), MIN_VARIANCE)


def _squares(root: Array, r: Array) -> Array:
    """Return rB⁻¹rᵀ of each row of r (n, p)."""
    if not len(root):
        return np.zeros(len(r))
    return np.asarray((solve_triangular(root, r.T, lower=True) ** 2).sum(axis=0))


def _blocks(layout: Layout, task: int) -> Sequence[int]:
    if task >= 0:
        return layout.blocks_of[task]
    return [0] if layout.inducing is None else []


def _choose_inducing(rows: Rows, theta: Hyperparameters) -> Array:
    """Return rows that explain the common curve of the others, by pivoted Cholesky."""
    X = rows.X[:: -(-len(rows.X) // MAX_CANDIDATES)]
    remainder = np.ones(len(X))
    factor = np.zeros((0, len(X)))
    chosen: list[int] = []
    while len(chosen) < min(MAX_INDUCING, len(X)):
        pivot = int(remainder.argmax())
        if remainder[pivot] <= PIVOT_TOLERANCE:
            break
        curve = np.exp(-0.5 * scaled_squares(X[[pivot]], X, rows, theta))[0]
        row = (curve - factor[:, pivot] @ factor) / math.sqrt(remainder[pivot])
        factor = np.vstack([factor, row])
        remainder = np.maximum(remainder - row**2, 0.0)
        chosen.append(pivot)
    return X[chosen]
