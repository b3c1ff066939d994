"""What contenders are worth, alone and mixed, by their outputs for held-out rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from algorithms.ensemble.held_out import HeldOutRows
from algorithms.ensemble.weights import (
    MIN_ERROR,
    Objective,
    bootstrap_shares,
    combine,
    fit_simplex,
    log_loss_objective,
    mix,
    squares_objective,
    task_means,
)
from algorithms.interface.trace import Trace
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.sigmoid import fit_sigmoid

Mask = NDArray[np.bool_]

#: Probabilities are at least so large where logarithms are mixed.
MIN_PROBABILITY: Final = 1e-9
#: Of more rows, a random half, third or less of each task decides on mixtures.
MAX_MIXED_ROWS: Final = 10_000


@dataclass(frozen=True, eq=False)
class Stack(ABC):
    """Outputs of A contenders for held-out rows.

    Parameters
    ----------
    outputs : (A, n, C)
    """

    rows: HeldOutRows
    outputs: Array

    @property
    @abstractmethod
    def row_losses(self) -> Array:
        """Loss of each contender on each row, (A, n): squared error, or −log p of the class."""

    @abstractmethod
    def task_losses(self, chosen: Indices) -> Array:
        """Return L (T, A) over the chosen rows, for the tasks that have some."""

    @abstractmethod
    def objective(self, chosen: Indices) -> Objective:
        """Return the loss of weights on the chosen rows."""

    @abstractmethod
    def mixed(self, w: Array, chosen: Indices) -> Array:
        """Return the prediction (n_chosen, C) of weights w (A,) for the chosen rows."""

    @cached_property
    def scored(self) -> Indices:
        """Positions of all held-out rows."""
        return np.arange(len(self.rows.y))

    def owner(self, chosen: Indices) -> Indices:
        """Return the tasks of the chosen rows, numbered without gaps."""
        return np.unique(self.rows.owner[chosen], return_inverse=True)[1].astype(np.intp)

    def means(self, values: Array, chosen: Indices) -> Array:
        """Return means of values (n_chosen, ...) of the chosen rows over tasks, (T, ...)."""
        owner = self.owner(chosen)
        return task_means(values, owner, self.rows.fit_weights[chosen], int(owner.max()) + 1)

    def learn_weights(self, chosen: Indices, *, is_single: bool, trace: Trace, seed: int) -> Array:
        """Return w (A,) by the chosen rows; all of it for the smallest mean loss if single."""
        L = self.task_losses(chosen)
        n_methods, few = L.shape[1], self._some(chosen, np.random.default_rng(seed))
        v = fit_simplex(self.objective(few), n_methods, len(chosen), trace=trace, loop="weights")
        if is_single:
            return np.asarray(np.eye(n_methods)[int(L.mean(axis=0).argmin())])
        return combine(bootstrap_shares(L, np.random.default_rng(seed)), v)

    def _some(self, chosen: Indices, rng: np.random.Generator) -> Indices:
        """Return at most MAX_MIXED_ROWS of the chosen rows; random, as rows may alternate."""
        step = -(-len(chosen) // MAX_MIXED_ROWS)
        if step <= 1:
            return chosen
        order = np.lexsort((rng.random(len(chosen)), self.rows.owner[chosen]))
        return np.sort(chosen[order[::step]])

    def take(self, chosen: Sequence[int]) -> Self:
        """Return the stack of some contenders."""
        return replace(self, outputs=self.outputs[list(chosen)])

    def join(self, others: Sequence[Self]) -> Self:
        """Return the stack of the contenders of several stacks."""
        return replace(self, outputs=np.concatenate([one.outputs for one in (self, *others)]))

    def fold_weights(self, *, is_single: bool, trace: Trace, seed: int) -> Array:
        """Return the weights (K, A) that are learned without the rows of each fold."""
        learned = [
            self.learn_weights(
                self.rows.divide(fold)[0], is_single=is_single, trace=trace.nested(), seed=seed
            )
            for fold in self.rows.folds
        ]
        return np.stack(learned)

    def cross_fit(self, weights: Array) -> Array:
        """Return predictions (n, C), those of each fold by its own weights (K, A)."""
        found = np.full(self.outputs.shape[1:], np.nan)
        for fold, w in zip(self.rows.folds, weights, strict=True):
            _, own = self.rows.divide(fold)
            found[own] = self.mixed(w, own)
        return found

    def predictions(self, a: int) -> Array:
        """Return the predictions (n, C) of a contender alone."""
        return self.mixed(np.eye(len(self.outputs))[a], self.scored)


@dataclass(frozen=True, eq=False)
class NumberStack(Stack):
    """Predicted numbers."""

    @cached_property
    def residuals(self) -> Array:
        """Errors in units of the standard deviation of all targets, (A, n)."""
        return np.asarray((self.outputs[:, :, 0] - self.rows.y) / self.rows.unit)

    @property
    def row_losses(self) -> Array:
        """Squared errors, (A, n)."""
        return np.asarray(self.residuals**2)

    def task_losses(self, chosen: Indices) -> Array:
        """Return log e (T, A)."""
        return np.log(self.means(self.row_losses[:, chosen].T, chosen) + MIN_ERROR)

    def objective(self, chosen: Indices) -> Objective:
        """Return the mean over tasks of the logarithm of the mean squared error."""
        R = self.residuals[:, chosen].T
        return squares_objective(
            self.means(R[:, :, np.newaxis] * R[:, np.newaxis], chosen), MIN_ERROR
        )

    def mixed(self, w: Array, chosen: Indices) -> Array:
        """Return the weighted mean of the numbers."""
        return np.asarray(np.einsum("a,anc->nc", w, self.outputs[:, chosen]))


@dataclass(frozen=True, eq=False)
class ClassStack(Stack):
    """Scores of classes, which Platt's maps turn into probabilities.

    Parameters
    ----------
    known : (A, n, C) or None
        ``log_p``, if it is known.
    """

    known: Array | None = None

    def take(self, chosen: Sequence[int]) -> Self:
        """Return the stack of some contenders, with their probabilities."""
        return replace(super().take(chosen), known=self.log_p[list(chosen)])

    def join(self, others: Sequence[Self]) -> Self:
        """Return the stack of the contenders of several stacks, with their probabilities."""
        log_p = np.concatenate([one.log_p for one in (self, *others)])
        return replace(super().join(others), known=log_p)

    @cached_property
    def log_p(self) -> Array:
        """Logarithms of probabilities, each by a map that was learned without the row's fold."""
        if self.known is not None:
            return self.known
        found = np.full(self.outputs.shape, np.nan)
        for fold in self.rows.folds:
            others, own = self.rows.divide(fold)
            maps = self.maps(others)
            for a, scores in enumerate(self.outputs):
                found[a, own] = log_probabilities(scores[own], maps[a], self.rows.is_possible[own])
        return found

    def maps(self, chosen: Indices) -> Array:
        """Return slope and intercept of each label's sigmoid, by the chosen rows, (A, C, 2)."""
        y, weights = self.rows.y[chosen], self.rows.fit_weights[chosen]
        possible = self.rows.is_possible[chosen]
        found = np.zeros((*self.outputs.shape[::2], 2))
        for a, scores in enumerate(self.outputs[:, chosen]):
            for c in range(scores.shape[1]):
                own = possible[:, c]
                if not own.any():
                    continue
                x = scores[own, c]
                size = float(np.sqrt(np.mean(x**2))) or 1.0
                slope, intercept = fit_sigmoid(x / size, y[own] == c, weights[own])
                found[a, c] = slope / size, intercept
        return found

    @cached_property
    def row_losses(self) -> Array:
        """−log p of the class of each row, (A, n)."""
        return -self.log_p[:, np.arange(len(self.rows.y)), self.rows.y]

    def task_losses(self, chosen: Indices) -> Array:
        """Return mean log losses (T, A)."""
        return self.means(self.row_losses[:, chosen].T, chosen)

    def objective(self, chosen: Indices) -> Objective:
        """Return the mean over tasks of the mean log loss."""
        owner, weights = self.owner(chosen), self.rows.fit_weights[chosen]
        sums = np.bincount(owner, weights)
        shares = weights / sums[owner] / len(sums)
        return log_loss_objective(self.log_p[:, chosen], -self.row_losses[:, chosen], shares)

    def mixed(self, w: Array, chosen: Indices) -> Array:
        """Return mixed probabilities."""
        return mix(self.log_p[:, chosen], w)[0]


def log_probabilities(scores: Array, maps: Array, is_possible: Mask) -> Array:
    """Return the logarithms of probabilities (n, C), −inf for labels that a row cannot have.

    Parameters
    ----------
    scores, is_possible : (n, C)
    maps : (C, 2)
        Slope and intercept of each label.
    """
    p = np.maximum(expit(scores * maps[:, 0] + maps[:, 1]), MIN_PROBABILITY)
    p = np.where(is_possible, p, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p / p.sum(axis=1, keepdims=True)))


def stack_of(rows: HeldOutRows, outputs: Sequence[Array]) -> Stack:
    """Return the stack of the outputs of contenders, in their order."""
    kind = ClassStack if rows.labels else NumberStack
    return kind(rows, np.stack(outputs))
