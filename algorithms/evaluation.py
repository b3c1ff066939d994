"""Splits, scores, and the choice of parameters inside the training rows, for any algorithm.

No row that is used for a choice is used to judge it: :func:`select_params` sees training rows
only, and :func:`stratified_split` gives it nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import LoopState, Trace

Array = NDArray[np.float64]
P = TypeVar("P", bound=Params)

#: Gives what is to be small on held-out tasks.
Loss = Callable[[Model, TaskSet], float]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Two sets of rows of the same tasks."""

    train: TaskSet
    test: TaskSet


@dataclass(frozen=True, slots=True)
class Selection(Generic[P]):
    """The chosen parameters.

    Parameters
    ----------
    params
        Of least mean loss; of several, the first.
    losses
        Mean held-out loss of each candidate, in their order.
    """

    params: P
    losses: tuple[float, ...]


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
        y = _labels(task)
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


def fold_split(tasks: TaskSet, *, fold: int, n_folds: int, seed: int) -> Split | None:
    """Give the tasks without a fold, and the fold; ``None`` where it holds no row of any task.

    The folds of a task depend on the seed and its labels, not on the order of the tasks. A task
    with no row in the fold is in the training part only.
    """
    train, test = [], []
    for task in tasks:
        rng = np.random.default_rng([seed, task.n_samples])
        is_held = stratified_folds(_labels(task), n_folds=n_folds, rng=rng) == fold
        train.append(task.take(np.flatnonzero(~is_held)))
        if is_held.any():
            test.append(task.take(np.flatnonzero(is_held)))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test))) if test else None


def error_rates(model: Model, tasks: TaskSet) -> dict[str, float]:
    """Give the share of wrong labels in each task."""
    predict = model.predict  # type: ignore[attr-defined]  # models without it are refused by name
    return {
        task.name: float(np.mean(predict(task.X, task=task.name) != _labels(task)))
        for task in tasks
    }


def mean_error_rate(model: Model, tasks: TaskSet) -> float:
    """Give the mean over tasks of the share of wrong labels."""
    return float(np.mean(list(error_rates(model, tasks).values())))


def select_params(
    algorithm: Algorithm[P, Any],
    tasks: TaskSet,
    candidates: Sequence[P],
    *,
    n_folds: int,
    trace: Trace,
    rng: np.random.Generator,
    loop: str = "selection",
    loss: Loss = mean_error_rate,
) -> Selection[P]:
    """Give the candidate of least mean loss in cross-validation of these tasks.

    Parameters
    ----------
    tasks
        Training rows; rows of a final test must not be among them.
    candidates
        The one to prefer among equals first.
    loop
        Name of the loop in the trace; one step fits one candidate without one fold.

    Raises
    ------
    InvalidData
        No task has two rows of a class, so that nothing can be held out.
    """
    seed = int(rng.integers(2**32))
    parts = [fold_split(tasks, fold=fold, n_folds=n_folds, seed=seed) for fold in range(n_folds)]
    splits = [part for part in parts if part is not None]
    if not splits:
        raise InvalidData(
            f"task '{tasks.names[0]}' and all others have one row of each class, which leaves "
            "none to hold out; give the parameters instead of choosing them",
            task=tasks.names[0],
        )
    n_steps = len(candidates) * len(splits)

    def step(state: _Scores) -> _Scores:
        which, fold = divmod(state.n_done, len(splits))
        inner = np.random.default_rng([seed, fold])
        model = algorithm.fit(splits[fold].train, candidates[which], trace=Trace(), rng=inner)
        losses = state.losses.copy()
        losses[which, fold] = loss(model, splits[fold].test)
        return _scored(losses, n_done=state.n_done + 1)

    start = _scored(np.zeros((len(candidates), len(splits))), n_done=0)
    losses = trace.run(loop, step, start, max_iter=n_steps, tolerance=0.0).losses.mean(axis=1)
    return Selection(candidates[int(np.argmin(losses))], tuple(float(x) for x in losses))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores(LoopState):
    """Losses (n_candidates, n_splits), row by row; the objective is the least mean so far."""

    losses: Array
    n_done: int


def _scored(losses: Array, *, n_done: int) -> _Scores:
    whole = losses[: max(n_done // losses.shape[1], 1)].mean(axis=1)
    left = 1.0 - n_done / losses.size
    return _Scores(objective=float(whole.min()), residual=left, losses=losses, n_done=n_done)


def _labels(task: Task) -> NDArray[Any]:
    """Give the labels; a task without is refused."""
    if task.y is None or task.target != "classes":
        raise InvalidData(f"task '{task.name}' has no class labels to compare with", task=task.name)
    return task.y
