"""Probabilities of classes from scores, learned for each task from cross-fitted scores.

Each class has its own map from its score to a probability, and the probabilities of a row are
divided by their sum; two classes share one map. With many rows of a task the map is a step
function, else a sigmoid (:mod:`algorithms.numerics.sigmoid`). Weights of rows count in both.

A small task borrows: rows of the other tasks with the same labels count too, all together as much
as :data:`BORROWED_WEIGHT` rows of the task. For that, the scores of a task are divided by their
root mean square, which is itself shrunk towards the root mean square of the other tasks
(:mod:`algorithms.numerics.moderated_scales`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

from algorithms.interface.errors import InvalidData
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import weighted_mean
from algorithms.numerics.moderated_scales import estimate_prior
from algorithms.numerics.sigmoid import fit_sigmoid, fit_steps

#: Weight of the rows of all other tasks, in rows of the task.
BORROWED_WEIGHT: Final = 20.0
#: Number of rows of other tasks that are used; more would not change the map.
_MAX_BORROWED: Final = 2000
#: A task with so many rows, and so many of the class and of the others, has a step function.
MIN_STEP_ROWS: Final = 1000
_MIN_STEP_SIDE: Final = 100

Labels = tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Cross-fitted scores of a task.

    Attributes
    ----------
    classes
        All labels of the task, sorted.
    scores : (n_samples, n_columns)
        One column for each class; of two classes, only the column of the last.
    codes : (n_samples,)
        Position of the label of each row in ``classes``.
    weights : (n_samples,) or None
        Weights of the rows, of mean 1; None: equal ones.
    """

    classes: Labels
    scores: Array
    codes: NDArray[np.intp]
    weights: Array | None = None

    def take(self, rows: NDArray[Any]) -> "Scored":
        """Return some rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Scored(self.classes, self.scores[rows], self.codes[rows], weights)

    def row_weights(self) -> Array:
        """Return the weight of each row, (n_samples,)."""
        return np.ones(len(self.codes)) if self.weights is None else self.weights

    def is_class(self) -> NDArray[np.bool_]:
        """Return whether each row is of the class of each column, (n_samples, n_columns)."""
        first = 1 if len(self.classes) == 2 else 0
        mask: NDArray[np.bool_] = (
            self.codes[:, np.newaxis] == np.arange(self.scores.shape[1]) + first
        )
        return mask


@dataclass(frozen=True, slots=True, eq=False)
class ProbabilityMap:
    """The map of a task from scores to probabilities.

    Attributes
    ----------
    scale
        Divisor of the scores.
    sigmoids : (n_columns, 2)
        Slope and intercept of each column.
    steps
        Knots of the step function of a column, scores and values, in place of its sigmoid.
    """

    scale: float
    sigmoids: Array
    steps: Mapping[int, tuple[Array, Array]]

    def apply(self, scores: Array) -> Array:
        """Return probabilities (n_samples, n_classes) of scores (n_samples, n_columns)."""
        scaled = scores / self.scale
        logits = scaled * self.sigmoids[:, 0] + self.sigmoids[:, 1]
        p = expit(logits)
        for column, (x, y) in self.steps.items():
            p[:, column] = np.interp(scaled[:, column], x, y)
        return normalise(p, logits)

    def to_arrays(self) -> dict[str, Array]:
        """Return the numbers by name."""
        arrays = {"scale": np.array([self.scale]), "sigmoids": self.sigmoids}
        for column, knots in self.steps.items():
            arrays[f"steps/{column}"] = np.stack(knots)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the map from the result of :meth:`to_arrays`."""
        steps = {
            int(name.removeprefix("steps/")): (knots[0], knots[1])
            for name, knots in arrays.items()
            if name.startswith("steps/")
        }
        return cls(float(arrays["scale"][0]), arrays["sigmoids"], steps)


def normalise(p: Array, logits: Array) -> Array:
    """Return probabilities of all classes, (n_samples, n_classes), which add up to 1.

    Parameters
    ----------
    p : (n_samples, 1) or (n_samples, n_classes)
        The probability of the last of two classes, or of each class against the rest.
    logits
        Arguments of the sigmoids, for rows whose probabilities all underflow. The values of a step
        function never do.
    """
    if p.shape[1] == 1:
        return np.concatenate([1.0 - p, p], axis=1)
    total = p.sum(axis=1, keepdims=True)
    is_tiny = total[:, 0] < np.finfo(np.float64).tiny
    shares: Array = p / np.where(is_tiny[:, np.newaxis], 1.0, total)
    shares[is_tiny] = softmax(log_expit(logits[is_tiny]), axis=1)
    return shares


def learn_maps(
    scored: Mapping[str, Scored], *, borrowed_weight: float = BORROWED_WEIGHT
) -> dict[str, ProbabilityMap]:
    """Return the map of each task.

    Parameters
    ----------
    scored
        Cross-fitted scores by task; a task may have none.
    borrowed_weight
        Weight of the rows of all other tasks with the same labels, in rows of the task.

    Raises
    ------
    InvalidData
        Neither a task nor another task with the same labels has a score.
    """
    groups: dict[Labels, dict[str, Scored]] = {}
    for name, scores in scored.items():
        groups.setdefault(scores.classes, {})[name] = scores
    maps: dict[str, ProbabilityMap] = {}
    for members in groups.values():
        if not any(len(scores.codes) for scores in members.values()):
            name = next(iter(members))
            raise InvalidData(
                f"no row of task '{name}', or of another task with the same labels, can be held "
                "out, so its probabilities cannot be calibrated; add rows, or train without "
                "calibration",
                task=name,
            )
        maps |= _learn_group(members, borrowed_weight)
    return {name: maps[name] for name in scored}


def _learn_group(
    members: Mapping[str, Scored], borrowed_weight: float
) -> dict[str, ProbabilityMap]:
    """Return the maps of tasks with the same labels."""
    scales = _scales(list(members.values()))
    scaled = [
        Scored(member.classes, member.scores / scale, member.codes, member.weights)
        for member, scale in zip(members.values(), scales, strict=True)
    ]
    owner = np.repeat(np.arange(len(scaled)), [len(member.codes) for member in scaled])
    pool = Scored(
        scaled[0].classes,
        np.concatenate([member.scores for member in scaled]),
        np.concatenate([member.codes for member in scaled]),
        np.concatenate([member.row_weights() for member in scaled]),
    )
    # rows at equal distances in the order of their scores have the distribution of all
    order = np.argsort(pool.scores[:, 0], kind="stable")
    chosen = order[np.linspace(0, len(order) - 1, min(len(order), _MAX_BORROWED)).astype(np.intp)]
    maps = {}
    for t, (name, task) in enumerate(zip(members, scaled, strict=True)):
        others = pool.take(chosen[owner[chosen] != t])
        maps[name] = _learn_map(task, others, float(scales[t]), borrowed_weight)
    return maps


def _learn_map(
    task: Scored, others: Scored, scale: float, borrowed_weight: float
) -> ProbabilityMap:
    n_own, n_others = len(task.codes), len(others.codes)
    scores = np.concatenate([task.scores, others.scores])
    is_class = np.concatenate([task.is_class(), others.is_class()])
    weight = min(1.0, borrowed_weight / n_others) if n_others else 0.0
    own_weights = task.row_weights()
    weights = np.concatenate([own_weights, weight * others.row_weights()])
    is_used = weights > 0
    sigmoids = np.array(
        [
            fit_sigmoid(scores[is_used, c], is_class[is_used, c], weights[is_used])
            for c in range(scores.shape[1])
        ]
    )
    steps = {
        c: fit_steps(task.scores[:, c], is_class[:n_own, c], own_weights)
        for c in range(scores.shape[1])
        if n_own >= MIN_STEP_ROWS
        and _MIN_STEP_SIDE <= is_class[:n_own, c].sum() <= n_own - _MIN_STEP_SIDE
    }
    return ProbabilityMap(scale, sigmoids, steps)


def _size(task: Scored) -> float:
    """Return the root mean square of the scores of a task."""
    if task.weights is None:
        return float(np.sqrt(np.mean(task.scores**2)))
    return float(np.sqrt(weighted_mean(np.mean(task.scores**2, axis=1), task.weights)))


def _scales(scored: Sequence[Scored]) -> Array:
    """Return the divisors of the scores of each task, (n_tasks,)."""
    counts = [len(task.codes) for task in scored]
    squares = [_size(task) if len(task.codes) else 0.0 for task in scored]
    if not any(squares):
        return np.ones(len(scored))
    prior = estimate_prior(squares, counts)
    return np.array([prior.moderate(s, n) for s, n in zip(squares, counts, strict=True)])
