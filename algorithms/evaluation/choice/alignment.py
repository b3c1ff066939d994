"""Whether the functions of tasks point the same way: the evidence that they are related.

Let α_t = K_t⁻¹(y_t − m_t) be the weights of the rows of task t in a Gaussian process of its own,
and k a covariance that tasks may share. What the tasks have in common is

    G_tu = α_tᵀ k(X_t, X_u) α_u,   S = Σ_{t≠u} G_tu,

twice the derivative of the log evidence with respect to the variance of a function with covariance
k that all tasks share, at 0: the score test of such a function.

Functions of unrelated tasks are as likely with the opposite sign. So the p value is the share of
random signs s_t = ±1 with Σ_{t≠u} s_t s_u G_tu >= S, without folds or a second look. Few tasks
have few signs; for them, the whitened targets L_t⁻¹(y_t − m_t) of each task, K_t = L_tL_tᵀ, turn to
random directions instead. That is exact if no direction of theirs is likelier than another, which
hyperparameters learned from few rows make true about: p < .01 in up to 4 % of unrelated sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from scipy.linalg import solve_triangular

from algorithms.numerics.arrays import Array

#: Rows, balanced over tasks, that are used at most.
MAX_ROWS: Final = 1_000
#: With very many tasks, some of them are used, with at least so many rows.
MIN_ROWS_OF_TASK: Final = 6
#: Random signs, or rotations, that are drawn.
N_DRAWS: Final = 4_000
#: Fewest tasks whose signs decide.
MIN_SIGNED_TASKS: Final = 7
#: Fewest tasks of which all signs are too many to be counted.
MIN_DRAWN_TASKS: Final = 13
#: Largest number of weights that are in memory at once.
MAX_DRAWN_NUMBERS: Final = 4_000_000
#: Statistics this close, relative to the sum of |G_tu|, are equal.
ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Alignment:
    """The test whether functions of tasks point the same way.

    Parameters
    ----------
    p_value
        One-sided p value of the hypothesis that they do not.
    null
        What was drawn: 'signs' of tasks, or 'rotations' of their targets.
    n_tasks, n_rows
        Tasks and rows that were used; tasks whose targets do not differ are not.
    """

    p_value: float
    null: Literal["signs", "rotations"]
    n_tasks: int
    n_rows: int


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """The weights of the rows of a task in a Gaussian process of its own.

    Parameters
    ----------
    weights : (n, C)
        α, for each column of targets.
    root : (n, n)
        Lower Cholesky factor of the covariance K_t of the targets.
    """

    weights: Array
    root: Array


def align(tasks: Sequence[WeightedRows], k: Array, rng: np.random.Generator) -> Alignment | None:
    """Return the test of the alignment of tasks; None with fewer than two that have weights.

    Parameters
    ----------
    k : (n, n)
        Covariance of a function that the tasks may share, at the rows of all.
    """
    has_weights = [bool(task.weights.any()) for task in tasks]
    is_used = np.repeat(has_weights, [len(task.weights) for task in tasks])
    k = k[np.ix_(is_used, is_used)]
    tasks = [task for task, has in zip(tasks, has_weights, strict=True) if has]
    if len(tasks) < 2:
        return None
    weights = np.concatenate([task.weights for task in tasks])
    is_signed = len(tasks) >= MIN_SIGNED_TASKS
    if is_signed:
        sizes = [len(task.weights) for task in tasks]
        p_value = sign_p_value(products_between(k, weights, sizes), rng)
    else:
        p_value = _rotation_p_value(k, weights, [task.root for task in tasks], rng)
    return Alignment(p_value, "signs" if is_signed else "rotations", len(tasks), len(k))


def products_between(k: Array, weights: Array, sizes: Sequence[int]) -> Array:
    """Return G, (n_tasks, n_tasks).

    Parameters
    ----------
    k : (n, n)
    weights : (n, C)
    sizes
        Rows of each task.
    """
    starts = np.cumsum([0, *sizes[:-1]])
    by_row = k * (weights @ weights.T)
    return np.asarray(np.add.reduceat(np.add.reduceat(by_row, starts, axis=0), starts, axis=1))


def sign_p_value(G: Array, rng: np.random.Generator) -> float:
    """Return the share of signs of tasks with a statistic at least as large as with equal signs.

    With few tasks all signs are counted; opposite ones of all tasks give the same statistic.
    """
    T = len(G)
    off = G - np.diag(np.diag(G))
    if T < MIN_DRAWN_TASKS:
        bits = np.arange(2 ** (T - 1))[:, np.newaxis] >> np.arange(T) & 1
        signs = 1.0 - 2.0 * bits
    else:
        signs = np.vstack([np.ones(T), rng.choice([-1.0, 1.0], size=(N_DRAWS, T))])
    statistics = np.einsum("st,st->s", signs @ off, signs)
    return float(np.mean(statistics >= statistics[0] - ROUNDING * np.abs(off).sum()))


def _rotation_p_value(
    k: Array, weights: Array, roots: Sequence[Array], rng: np.random.Generator
) -> float:
    """Return the share of statistics at least as large if whitened targets turn at random.

    Parameters
    ----------
    roots
        Lower Cholesky factor of the covariance K_t of each task.
    """
    ends = np.cumsum([0, *map(len, roots)])
    off = k.copy()
    for start, end in pairwise(ends):
        off[start:end, start:end] = 0.0
    observed = float(np.einsum("nc,nc->", off @ weights, weights))
    n_at_once = max(1, MAX_DRAWN_NUMBERS // weights.size)
    n_larger = 0
    for first in range(0, N_DRAWS, n_at_once):
        n = min(n_at_once, N_DRAWS - first)
        drawn = np.concatenate(
            [
                _turned(root, weights[start:end], n, rng)
                for root, (start, end) in zip(roots, pairwise(ends), strict=True)
            ]
        )
        products = (off @ drawn.reshape(len(off), -1)).reshape(drawn.shape)
        statistics = np.einsum("ndc,ndc->d", products, drawn)
        n_larger += int(np.count_nonzero(statistics >= observed))
    return (1 + n_larger) / (1 + N_DRAWS)


def _turned(root: Array, weights: Array, n_draws: int, rng: np.random.Generator) -> Array:
    """Return weights (n, n_draws, C) of a task whose whitened targets turn to random directions.

    The columns of targets turn together. No direction has a part of the constant of the task,
    since targets are centred.
    """
    n, C = weights.shape
    lengths = np.linalg.qr(root.T @ weights, mode="r")
    normal = rng.standard_normal((n_draws, n, len(lengths)))
    constant = solve_triangular(root, np.ones(n), lower=True)
    constant /= np.linalg.norm(constant)
    normal -= constant[:, np.newaxis] * (constant @ normal)[:, np.newaxis, :]
    directions, signed = np.linalg.qr(normal)
    # the signs that make them uniform (Mezzadri 2007, arXiv:math-ph/0609050)
    directions *= np.sign(np.einsum("dmm->dm", signed))[:, np.newaxis, :]
    whitened = (directions @ lengths).transpose(1, 0, 2).reshape(n, -1)
    return np.asarray(solve_triangular(root, whitened, lower=True, trans="T").reshape(n, -1, C))
