"""Ways to spread rows over folds: evenly, with their classes, with those of several tasks."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def even_folds(n_samples: int, *, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Give the fold of each row, spread evenly; a single row is never held out (-1)."""
    if n_samples == 1:
        return np.full(1, -1, dtype=np.intp)
    folds = np.empty(n_samples, dtype=np.intp)
    folds[rng.permutation(n_samples)] = np.arange(n_samples) % n_folds
    return folds


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


def joint_folds(y: NDArray[np.intp], *, n_folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Give the fold of each row of which several tasks have labels; -1 is never held out.

    Combinations of labels are spread evenly, and every class of every task stays in every training
    part.

    Parameters
    ----------
    y : (n_tasks, n_samples)
        Positions of the labels among the classes of each task.
    """
    folds = np.empty(y.shape[1], dtype=np.intp)
    folds[_by_combination(y, rng)] = np.arange(y.shape[1]) % n_folds
    for members in _classes(y):
        if np.unique(folds[members]).size == 1:  # it would be held out as a whole
            folds[members[0]] = -1
    return folds


def joint_part(y: NDArray[np.intp], size: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Tell which rows to hold out, as :func:`joint_folds`: a part of them, spread evenly."""
    is_held = np.empty(y.shape[1], dtype=bool)
    steps = np.floor(np.arange(y.shape[1] + 1) * size)
    is_held[_by_combination(y, rng)] = np.diff(steps) > 0
    for members in _classes(y):
        if is_held[members].all():
            is_held[members[0]] = False
    return is_held


def _by_combination(y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Give the rows in random order, those of a combination of labels together."""
    _, combination = np.unique(y, axis=1, return_inverse=True)
    order = rng.permutation(y.shape[1])
    return order[np.argsort(combination.ravel()[order], kind="stable")]


def _classes(y: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Give the rows of each class of each task."""
    return [np.flatnonzero(labels == label) for labels in y for label in np.unique(labels)]
