"""Intervals and sets of predictions with a given probability, by cross-validation+ (CV+).

Row i was held out of the model μ_k(i), and R_i = |y_i - μ_k(i)(x_i)|. The interval of a row x at
level 1 - α has as its upper end the smallest u with Σ_i w_i 1[μ_k(i)(x) + R_i ≤ u] ≥ 1 - α, and its
lower end is the mirror image. The set of a new row has the classes c with Σ_i w_i 1[E_i <
E_k(i)(x, c)] < 1 - α. E is the adaptive score: the probability of all classes that are more
probable than c, and a random part of the probability of c itself. The weights sum up to less than
1: the rest is the weight of the new row, which could be anywhere.

A task with n ≥ 2/α held-out rows has weights 1/(n + 1) for its own rows. A new row of *that task*
is then covered with probability 1 - 2α - √(2/n) at least (Barber et al., theorem 4), and usually
about 1 - α.

A smaller task borrows the rows of the T - 1 others, each task with weight 1/T, if T ≥ 1/α. If tasks
are exchangeable, a new row of a *random task* is then covered about as often (Dunn et al., Lee et
al.); a single task may be covered more or less often. Residuals are divided by the scale of their
task without the row itself, and multiplied by the scale of the new row's task; scales of small
tasks are shrunk towards the others (:mod:`algorithms.numerics.moderated_scales`).

Where no training target is negative, such as durations and counts, the lower end of an interval
that reaches above 0 is 0 or more: that leaves out no target of 0 or more. Of exchangeable rows, a
new one is below all n training rows with probability 1/(n + 1) at most.

References: Barber, Candès, Ramdas, Tibshirani, *Predictive inference with the jackknife+*, Ann.
Stat. 2021, doi:10.1214/20-AOS1965; Romano, Sesia, Candès, *Classification with valid and adaptive
coverage*, NeurIPS 2020; Dunn, Wasserman, Ramdas, *Distribution-free prediction sets for two-layer
hierarchical models*, JASA 2022, doi:10.1080/01621459.2022.2060112; Lee, Barber, Willett,
*Distribution-free inference with hierarchical data*, 2023
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task
from algorithms.interface.weights import positive_rows
from algorithms.numerics.arrays import Array
from algorithms.numerics.moderated_scales import estimate_prior

#: Tasks with so many held-out rows, times 1/α, use only their own.
OWN_ROWS: Final = 2.0
#: Number of sums of predictions and residuals that are in memory at once.
_MAX_SUMS: Final = 2**21
#: Rounding of sums of weights.
_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Held-out rows that say how far a new row of a task may be from its prediction.

    Attributes
    ----------
    scores, folds, weights : (n,)
    is_borrowed
        Whether the rows come from other tasks.
    lowest
        The smallest value that a target can have.
    """

    scores: Array
    folds: NDArray[np.intp]
    weights: Array
    is_borrowed: bool
    lowest: float = -np.inf

    def is_enough(self, level: float) -> bool:
        """Return whether the weights suffice for a bounded interval."""
        return bool(self.weights.sum() >= level - _SLACK)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutScores(ABC):
    """Scores of held-out rows of all tasks.

    Attributes
    ----------
    scores, folds, owner : (n_rows,)
        |residual| or adaptive score of each row, the fold in which it, or its task, was held out,
        and the position of its task.
    lowest
        The smallest value that a target can have.
    """

    scores: Array
    folds: NDArray[np.intp]
    owner: NDArray[np.intp]
    lowest: float = field(default=-np.inf, kw_only=True)

    @abstractmethod
    def of_task(self, task: int, level: float) -> Weighted:
        """Return the held-out rows for new rows of a task, given by its position."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers by name."""
        arrays = {"scores": self.scores, "folds": self.folds, "owner": self.owner}
        return arrays if np.isinf(self.lowest) else {**arrays, "lowest": np.array([self.lowest])}


@dataclass(frozen=True, slots=True, eq=False)
class ConformalScores(HeldOutScores):
    """Scores of held-out rows of trained tasks.

    Attributes
    ----------
    n_tasks
        Number of tasks, including tasks without a held-out row.
    has_scale
        Whether scores have the scale of their task.
    """

    n_tasks: int
    has_scale: bool

    def of_task(self, task: int, level: float) -> Weighted:
        """Return the held-out rows for new rows of a task, given by its position.

        The rows of the task itself if they are many, else the rows of the other tasks if there are
        enough tasks, else whichever rows have the larger weight.
        """
        own_rows = self._own(task)
        if len(own_rows.scores) * (1.0 - level) >= OWN_ROWS - _SLACK:
            return own_rows
        others = self._others(task)
        if others.is_enough(level) or others.weights.sum() > own_rows.weights.sum():
            return others
        return own_rows

    def _own(self, task: int) -> Weighted:
        rows = self.owner == task
        n = int(rows.sum())
        weights = np.full(n, 1.0 / (n + 1))
        scores, folds = self.scores[rows], self.folds[rows]
        return Weighted(scores, folds, weights, is_borrowed=False, lowest=self.lowest)

    def _others(self, task: int) -> Weighted:
        counts = np.bincount(self.owner, minlength=self.n_tasks)
        rows = self.owner != task
        owner = self.owner[rows]
        n_others = int((counts[np.arange(self.n_tasks) != task] > 0).sum())
        weights = 1.0 / (counts[owner] * (n_others + 1.0))
        scores = self.scores[rows]
        if self.has_scale and len(scores):
            scale, without = self._scales()
            scores = scores / without[rows] * scale[task]
        folds = self.folds[rows]
        return Weighted(scores, folds, weights, is_borrowed=True, lowest=self.lowest)

    def _scales(self) -> tuple[Array, Array]:
        """Return the scales of the tasks (n_tasks,), and for each row without it (n_rows,)."""
        counts = np.bincount(self.owner, minlength=self.n_tasks)
        squares = np.bincount(self.owner, self.scores**2, minlength=self.n_tasks)
        has_scale = (counts > 0) & (squares > 0)
        if not has_scale.any():
            return np.ones(self.n_tasks), np.ones(len(self.scores))
        rms = np.sqrt(squares[has_scale] / counts[has_scale])
        prior = estimate_prior(rms.tolist(), counts[has_scale].tolist())
        n_left = counts[self.owner] - 1.0
        left = np.maximum(squares[self.owner] - self.scores**2, 0.0)
        if np.isinf(prior.weight):
            return np.full(self.n_tasks, prior.scale), np.full(len(self.scores), prior.scale)

        def moderate(total: Any, n: Any) -> Any:
            weight = prior.weight + n
            mean = prior.weight * prior.scale**2 + total
            safe = np.divide(mean, weight, out=np.zeros_like(mean), where=weight > 0)
            return np.sqrt(np.where(safe > 0, safe, prior.scale**2))

        return moderate(squares, counts.astype(float)), moderate(left, n_left)

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], *, n_tasks: int, has_scale: bool
    ) -> Self:
        """Return the scores from the result of :meth:`to_arrays`."""
        return cls(n_tasks=n_tasks, has_scale=has_scale, **loaded_scores(arrays))


def loaded_scores(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the parts of scores by name from the result of :meth:`HeldOutScores.to_arrays`."""
    lowest = arrays.get("lowest", [-np.inf])[0]  # models of earlier versions have none
    return {**arrays, "lowest": float(lowest)}


def lowest_target(tasks: Iterable[Task]) -> float:
    """Return 0 if no training target of any task is negative, else minus infinity."""
    return 0.0 if all((np.asarray(positive_rows(task).y) >= 0).all() for task in tasks) else -np.inf


def rows_for(scores: HeldOutScores, t: int, level: float) -> Weighted:
    """Return the held-out rows for new rows of a task; raise InvalidParams for other levels."""
    if not 0.0 < level < 1.0:
        raise InvalidParams(f"level is {level:g}; expected a share between 0 and 1", field="level")
    return scores.of_task(t, level)


def enough_rows_for(scores: HeldOutScores, t: int, level: float, *, task: str) -> Weighted:
    """Return the held-out rows for bounded intervals of a task.

    Raises
    ------
    InvalidData
        The task has too few rows for the level, and there are too few tasks to borrow from.
    """
    held_out = rows_for(scores, t, level)
    if not held_out.is_enough(level):
        raise InvalidData(
            f"task '{task}' has too few rows for intervals at level {level:g}, and there are too "
            f"few other tasks to borrow from; use a level up to {largest_level(scores, t):.3g}",
            task=task,
        )
    return held_out


def largest_level(scores: HeldOutScores, t: int) -> float:
    """Return the largest level at which intervals of a task are bounded."""
    return max(float(scores.of_task(t, level).weights.sum()) for level in (1e-9, 0.999))


def intervals(predictions: Array, held_out: Weighted, level: float) -> Array:
    """Return the lower and the upper end for each row, (n_samples, 2).

    Parameters
    ----------
    predictions : (n_samples, n_folds)
        Of the models without each fold.
    held_out
        With weights that are enough for the level.
    """
    ends = np.empty((len(predictions), 2))
    step = max(1, _MAX_SUMS // max(len(held_out.scores), 1))
    for start in range(0, len(predictions), step):
        centres = predictions[start : start + step][:, held_out.folds]
        ends[start : start + step, 0] = -_quantile(
            held_out.scores - centres, held_out.weights, level
        )
        ends[start : start + step, 1] = _quantile(
            held_out.scores + centres, held_out.weights, level
        )
    # the ends can cross if the models differ more than the residuals
    ends = np.sort(ends, axis=1)
    is_possible = ends[:, 1] >= held_out.lowest
    ends[is_possible, 0] = np.maximum(ends[is_possible, 0], held_out.lowest)
    return ends


def _quantile(values: Array, weights: Array, level: float) -> Array:
    """Return for each row of values the smallest one up to which the weights reach the level."""
    order = np.argsort(values, axis=1)
    reached = np.cumsum(weights[order], axis=1) >= level - _SLACK
    first = reached.argmax(axis=1)
    which = np.take_along_axis(order, first[:, np.newaxis], axis=1)
    quantiles: Array = np.take_along_axis(values, which, axis=1)[:, 0]
    return quantiles


def adaptive_scores(p: Array, u: Array) -> Array:
    """Return E(x, c) of every class, (n_samples, n_classes).

    It is the probability of all classes that are more probable than c, plus u times the probability
    of c.

    Parameters
    ----------
    p : (n_samples, n_classes)
    u : (n_samples,)
        Uniform random numbers.
    """
    order = np.argsort(-p, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    before = np.cumsum(ordered, axis=1) - ordered
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, before + u[:, np.newaxis] * ordered, axis=1)
    return scores


def prediction_sets(scores: Sequence[Array], held_out: Weighted, level: float) -> NDArray[np.bool_]:
    """Return whether each class is in the set of each row, (n_samples, n_classes).

    Parameters
    ----------
    scores
        Adaptive scores of the rows, (n_samples, n_classes), by the model without each fold.
    """
    below = np.zeros_like(scores[0])
    for fold, fold_scores in enumerate(scores):
        rows = held_out.folds == fold
        order = np.argsort(held_out.scores[rows])
        sorted_scores = held_out.scores[rows][order]
        total = np.concatenate([[0.0], np.cumsum(held_out.weights[rows][order])])
        below += total[np.searchsorted(sorted_scores, fold_scores, side="left")]
    return below < level - _SLACK
