"""Ways to divide the rows of tasks into those that train and those that test."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Two sets of rows of the same tasks."""

    train: TaskSet
    test: TaskSet


def stratified_split(tasks: TaskSet, *, n_train: int, rng: np.random.Generator) -> Split:
    """Give the tasks with ``n_train`` random rows of each class, and with the other rows.

    Raises
    ------
    InvalidData
        A class has not more than ``n_train`` rows.
    """
    train, test = [], []
    for task in tasks:
        order = rng.permutation(task.n_samples)
        y = labels_of(task)
        is_train = np.zeros(task.n_samples, dtype=bool)
        for label in np.unique(y):
            members = order[y[order] == label]
            if members.size <= n_train:
                raise InvalidData(
                    f"task '{task.name}', class '{label}' has {members.size} rows; {n_train} to "
                    "train and at least one to test are needed",
                    task=task.name,
                )
            is_train[members[:n_train]] = True
        train.append(task.take(np.flatnonzero(is_train)))
        test.append(task.take(np.flatnonzero(~is_train)))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test)))


def stratified_folds(
    y: NDArray[Any], *, n_folds: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Give the fold of each row, every class spread evenly; -1 is never held out.

    A class of one row is never held out, so that every class stays in every training part.

    Parameters
    ----------
    y : (n_samples,)
    """
    folds = np.full(len(y), -1, dtype=np.intp)
    order = rng.permutation(len(y))
    start = 0
    for label in np.unique(y):
        members = order[y[order] == label]
        if members.size > 1:
            folds[members] = (start + np.arange(members.size)) % n_folds
            start += members.size
    return folds


def even_folds(n_samples: int, *, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Give the fold of each row, spread evenly; a single row is never held out (-1)."""
    if n_samples == 1:
        return np.full(1, -1, dtype=np.intp)
    folds = np.empty(n_samples, dtype=np.intp)
    folds[rng.permutation(n_samples)] = np.arange(n_samples) % n_folds
    return folds


def fold_split(tasks: TaskSet, *, fold: int, n_folds: int, seed: int) -> Split | None:
    """Give the tasks without a fold, and the fold; ``None`` where it holds no row of any task.

    Classes are spread evenly over the folds. The folds of a task depend on the seed and its
    labels, not on the order of the tasks. A task with no row in the fold is in the training part
    only; one of covariance matrices is divided by its matrices.
    """
    train, test = [], []
    for task in tasks:
        rng = np.random.default_rng([seed, task.n_samples])
        if task.target == "classes":
            folds = stratified_folds(labels_of(task), n_folds=n_folds, rng=rng)
        else:
            folds = even_folds(task.n_samples, n_folds=n_folds, rng=rng)
        is_held = folds == fold
        train.append(task.take(np.flatnonzero(~is_held)))
        if is_held.any():
            test.append(task.take(np.flatnonzero(is_held)))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test))) if test else None


def labels_of(task: Task) -> NDArray[Any]:
    """Give the labels; a task without is refused."""
    if task.y is None or task.target != "classes":
        raise InvalidData(f"task '{task.name}' has no class labels to compare with", task=task.name)
    return task.y
