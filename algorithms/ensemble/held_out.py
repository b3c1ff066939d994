"""Outputs of the contenders for rows that were held out of their fits, and what they are worth."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model, apply
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.weights import ClassWeight, positive_rows, weigh, weights_of
from algorithms.numerics.arrays import Array, Indices
from algorithms.splits.splits import HeldOut, Splits, folds_of
from algorithms.splits.subsamples import N_PARTS, subsample
from algorithms.wrappers.calibration.scores import class_scores
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.learning import Preparation
from algorithms.wrappers.preparation.model import PreparedModel
from algorithms.wrappers.preparation.recipe import Recipe

Labels = tuple[str, ...] | tuple[int, ...]

#: Prepared rows of folds are kept for the next contender up to so many values: 400 MB.
MAX_KEPT_VALUES: Final = 50_000_000
#: Fold and part of all rows.
_WHOLE: Final = (None, N_PARTS)


class PreparedRows(NamedTuple):
    """Training rows as they are fitted, and the preparation that was learned from them."""

    train: TaskSet
    preparation: Preparation | None = None

    def prepare(self, tests: Sequence[Task]) -> Sequence[Task]:
        """Return other rows, prepared."""
        return tests if self.preparation is None else self.preparation.apply(tests).tasks

    def wrap(self, model: Model) -> Model:
        """Return a model of prepared rows as a model of raw rows."""
        return model if self.preparation is None else PreparedModel(model, self.preparation)


@dataclass(frozen=True, slots=True)
class RowOptions:
    """How training rows are weighed and prepared.

    Parameters
    ----------
    columns, recipe
        As in :func:`~algorithms.wrappers.preparation.algorithm.prepared`.
    """

    columns: Sequence[Column] | None = None
    recipe: Recipe | None = None
    class_weight: ClassWeight | None = None

    def learn(self, train: TaskSet) -> PreparedRows:
        """Return training rows, prepared by what they show alone."""
        weighed = weigh(train, self.class_weight)
        if self.columns is None and self.recipe is None:
            return PreparedRows(weighed)
        preparation = Preparation.learn(weighed, self.columns, self.recipe or Recipe())
        return PreparedRows(preparation.apply(weighed.tasks), preparation)


#: Rows are only weighed.
PLAIN: Final = RowOptions()


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows of tasks, sorted by task, once for each fold that holds them out.

    Parameters
    ----------
    tasks
        Sorted by name.
    held_out
        Whether each row is held out, by task, for each fold.
    labels
        Labels of all tasks, sorted; empty for numbers.
    owner, row, fold, weights : (n,)
        Position of the task, of the row in its task, fold, and weight of each row.
    y : (n,)
        Numbers, or positions in ``labels``.
    is_possible : (n, C)
        Whether the task of a row has each label.
    options
        How training rows are prepared.
    """

    tasks: TaskSet
    held_out: Sequence[HeldOut]
    labels: Labels
    owner: Indices
    row: Indices
    fold: Indices
    weights: Array
    y: NDArray[Any]
    is_possible: NDArray[np.bool_]
    options: RowOptions
    _kept: dict[tuple[int | None, int], PreparedRows] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        tasks: TaskSet,
        held_out: Sequence[HeldOut],
        options: RowOptions = PLAIN,
        whole: PreparedRows | None = None,
    ) -> Self:
        """Return the held-out rows of tasks, which are sorted by name.

        Parameters
        ----------
        whole
            All rows, prepared, if they are already.
        """
        masks = [np.concatenate([part[task.name] for task in tasks]) for part in held_out]
        place, fold = np.nonzero(np.stack(masks, axis=1))
        sizes = [task.n_samples for task in tasks]
        owner = np.repeat(np.arange(len(tasks)), sizes)
        row = np.concatenate([np.arange(n) for n in sizes])
        y = np.concatenate([np.asarray(task.y) for task in tasks])
        labels: Labels = ()
        is_possible = np.ones((len(y), 1), dtype=bool)
        if tasks.tasks[0].target == "classes":
            own = [task.class_labels() for task in tasks]
            every = np.unique(np.concatenate(own))
            labels, y = tuple(every.tolist()), np.searchsorted(every, y)
            possible = np.zeros((len(own), len(every)), dtype=bool)
            for t, some in enumerate(own):
                possible[t, places_of(some, every)] = True
            is_possible = possible[owner]
        weights = np.concatenate([weights_of(task) for task in tasks])
        kept: dict[tuple[int | None, int], PreparedRows] = {}
        if whole is not None:
            kept[_WHOLE] = whole
        arrays = (weights[place], y[place], is_possible[place])
        return cls(tasks, held_out, labels, owner[place], row[place], fold, *arrays, options, kept)

    @cached_property
    def folds(self) -> list[int]:
        """The folds that have a row."""
        return sorted(set(self.fold.tolist()))

    @cached_property
    def fit_weights(self) -> Array:
        """Weights of the rows in fits, (n,): of mean 1 in a task, with those of their classes."""
        weighed = weigh(self.tasks, self.options.class_weight)
        first = np.cumsum([0] + [task.n_samples for task in self.tasks])
        every = np.concatenate([weights_of(task) for task in self.tasks])
        every[every > 0] = np.concatenate([weights_of(task) for task in weighed])
        return np.asarray(every[first[self.owner] + self.row])

    def divide(self, fold: int) -> tuple[Indices, Indices]:
        """Return the positions of rows that the fold does not hold out, and of those it does.

        Where it holds out every row, these stand for the others.
        """
        place = self.owner * (int(self.row.max()) + 1) + self.row
        own = np.flatnonzero(self.fold == fold)
        others = np.flatnonzero(~np.isin(place, place[own]))
        return (others if len(others) else own), own

    def take(self, chosen: Indices) -> Self:
        """Return some of the held-out rows."""
        names = ("owner", "row", "fold", "weights", "y", "is_possible")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def whole(self) -> PreparedRows:
        """Return all rows, prepared."""
        return self._prepared(*_WHOLE, self.tasks)

    def train(self, fold: int, *, n_parts: int = N_PARTS, seed: int = 0) -> PreparedRows:
        """Return the rows that the fold does not hold out, or a part of them, prepared."""
        return self._prepared(fold, n_parts, self.raw_train(fold, n_parts, seed=seed))

    def raw_train(self, fold: int, n_parts: int, *, seed: int) -> TaskSet:
        """Return the rows that the fold does not hold out, or a part of them."""
        masks = self.held_out[fold]
        train = [task.take(np.flatnonzero(~masks[task.name])) for task in self.tasks]
        return subsample(TaskSet(tuple(train)), n_parts, seed=seed)

    def test(self, fold: int) -> list[tuple[Task, Indices]]:
        """Return the rows of a fold, by task, with their positions among all held-out rows."""
        places = np.flatnonzero(self.fold == fold)
        by_task = np.split(places, np.flatnonzero(np.diff(self.owner[places])) + 1)
        owners = [self.tasks.tasks[self.owner[where[0]]] for where in by_task]
        return [
            (task.take(self.row[where]), where) for task, where in zip(owners, by_task, strict=True)
        ]

    def outputs(self, model: Model, fold: int, prepared: PreparedRows) -> tuple[Indices, Array]:
        """Return the positions of the rows of a fold, and the outputs of a model for them."""
        tests, places = zip(*self.test(fold), strict=True)
        found = [outputs_of(model, task, self.labels) for task in prepared.prepare(tests)]
        return np.concatenate(places), np.concatenate(found)

    def mean_error(self, outputs: Array) -> float:
        """Return the mean squared error of the outputs (n, C) that are known, or error rate."""
        is_known = np.isfinite(outputs[:, 0])
        if self.labels:
            return float((outputs[is_known].argmax(axis=1) != self.y[is_known]).mean())
        return float((((outputs[:, 0] - self.y)[is_known] / self.unit) ** 2).mean())

    @cached_property
    def unit(self) -> float:
        """Standard deviation of the numbers."""
        numbers = [np.asarray(positive_rows(task).y) for task in self.tasks]
        return float(np.std(np.concatenate(numbers))) or 1.0

    def _prepared(self, fold: int | None, n_parts: int, rows: TaskSet) -> PreparedRows:
        key = (fold, n_parts)
        if key in self._kept:
            return self._kept[key]
        prepared = self.options.learn(rows)
        n_values = sum(task.n_samples * task.n_features for task in prepared.train)
        if n_parts == N_PARTS and n_values * (len(self.held_out) + 1) <= MAX_KEPT_VALUES:
            self._kept[key] = prepared
        return prepared


def spread_rows(
    tasks: TaskSet, *, n_folds: int, repeats: int = 1, seed: int, min_rows: int = 1
) -> list[HeldOut]:
    """Return the rows that each fold holds out."""
    drawn = [
        folds_of(tasks, n_folds=n_folds, seed=seed + r, min_rows=min_rows, joins_single=True)
        for r in range(repeats)
    ]
    return [
        {name: fold_of == fold for name, fold_of in folds.items()}
        for folds in drawn
        for fold in range(n_folds)
    ]


def held_out_by(splits: Splits, tasks: TaskSet, *, seed: int, min_rows: int) -> list[HeldOut]:
    """Return the rows of positive weight that each split holds out."""
    if splits.scheme == "kfold":
        return spread_rows(
            tasks, n_folds=splits.n_folds, repeats=splits.repeats, seed=seed, min_rows=min_rows
        )
    parts = splits.held_out(tasks, range(splits.count()), seed=seed, min_rows=min_rows)
    counts = {task.name: weights_of(task) > 0 for task in tasks}
    return [{name: mask & counts[name] for name, mask in part.items()} for part in parts]


def places_of(labels: ArrayLike, every: ArrayLike) -> NDArray[np.intp]:
    """Return the positions of labels among those of all tasks, sorted.

    These are text if those of some tasks are numbers, and of others text.
    """
    known = np.asarray(every)
    return np.searchsorted(known, np.asarray(labels).astype(known.dtype))


def outputs_of(model: Model, task: Task, labels: Labels) -> Array:
    """Return predicted numbers (n, 1), or a score for each label (n, C).

    Labels that the model does not know have the smallest score of the row. If it knows a single
    one, that has the score 1, and others -1.
    """
    if not labels:
        return np.asarray(apply(model, "predict", task.X, task=task.name))[:, np.newaxis]
    scores = class_scores(model, task.X, task=task.name)
    if not np.isfinite(scores).all():
        raise InvalidData(f"the scores of task '{task.name}' overflow", task=task.name)
    known = model.classes(task.name)
    if len(known) == 1:
        scores = np.tile([-1.0, 1.0], (len(scores), 1))
    elif scores.shape[1] == 1:
        scores = np.hstack([-scores, scores])
    outputs = np.tile(scores.min(axis=1, keepdims=True), len(labels))
    columns = places_of(known, labels)
    outputs[:, columns] = scores[:, -len(columns) :]
    return outputs
