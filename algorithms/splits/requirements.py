"""Checks that tasks can be evaluated on held-out rows, from the shapes of the tasks alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import AlgorithmError, InvalidData
from algorithms.interface.tasks import TaskSummary
from algorithms.splits.splits import Splits

Algo = Algorithm[Any, Any]


def min_train_rows(algorithm: Algo, params: Sequence[Any], tasks: Sequence[TaskSummary]) -> int:
    """Return the smallest number of rows per task that the algorithm accepts.

    If parameters are selected by cross-validation, at least one class needs two rows.

    Parameters
    ----------
    params
        Parameters of candidates, all of which the algorithm accepts for these tasks.
    """
    selects = any(getattr(candidate, "selection", "given") != "given" for candidate in params)
    min_rows = 1 + max(1, *(task.n_classes for task in tasks)) if selects else 1
    max_rows = max(task.n_samples for task in tasks)
    for candidate in params:
        while min_rows < max_rows and not _accepts(algorithm, candidate, tasks, n_samples=min_rows):
            min_rows += 1
    return min_rows


def _accepts(algorithm: Algo, params: Any, tasks: Sequence[TaskSummary], *, n_samples: int) -> bool:
    fewer = [replace(task, n_samples=min(task.n_samples, n_samples)) for task in tasks]
    try:
        algorithm.check(fewer, params)
    except AlgorithmError:
        return False
    return True


def check_splits(
    algorithm: Algo, params: Any, tasks: Sequence[TaskSummary], splits: Splits, *, min_rows: int
) -> None:
    """Raise InvalidData if the splits leave too few rows to test on, or to train on.

    A task keeps too few training rows also if a class that the algorithm needs has none left.

    Parameters
    ----------
    params
        Parameters of the algorithm, already checked for training on all rows of these tasks.
    min_rows
        Minimum number of training rows per task.
    """
    splits.check(tasks)
    if splits.scheme == "given":
        for index, rows in enumerate(splits.given or []):
            for task in tasks:
                n_test = len(rows.get(task.name, ()))
                _check_training_rows(algorithm, task, n_test, min_rows=min_rows)
            if algorithm.needs.shared_rows:
                _check_same_rows(algorithm, tasks, [rows.get(task.name, []) for task in tasks])
            _check_training_classes(algorithm, params, tasks, rows, index=index)
        return
    size = 0.5 if splits.scheme == "kfold" else splits.test_size
    if not any(_can_hold_out(task, size, min_rows=min_rows) for task in tasks):
        is_needed = any(_can_hold_out(task, size, min_rows=1) for task in tasks)
        needed = f", and {algorithm.name} needs {min_rows} rows to train on" if is_needed else ""
        others = " or of any other" if len(tasks) > 1 else ""
        raise InvalidData(
            f"no split can hold out a row of task '{tasks[0].name}'{others}: each task has "
            "one row per class, too few rows, or rows that must stay together (with the "
            f"same values, or of one group){needed}; add rows, or hold out more",
            task=tasks[0].name,
        )
    if getattr(params, "selection", "given") != "given":
        check_nested(tasks, splits)


def check_nested(tasks: Sequence[TaskSummary], splits: Splits) -> None:
    """Raise InvalidData if no row of the training rows of some split can be held out again.

    Parameters are selected, and methods chosen, by held-out rows of the training rows.
    """
    if splits.scheme == "given":
        return
    n_units = tasks[0].n_units if len(tasks) == 1 else tasks[0].n_shared_units
    if n_units == 2:
        reason = "all rows belong to two sets that stay together (same values, or one group)"
    elif all(task.n_divisible is not None and task.n_divisible <= 2 for task in tasks):
        reason = "each task has at most two rows of which one can be held out"
    else:
        return
    raise InvalidData(
        f"{reason}; a split holds one of them out, and none is left to select parameters or "
        "methods by; add rows or groups, or set the parameters with selection 'given'",
        task=tasks[0].name,
    )


def _can_hold_out(task: TaskSummary, size: float, *, min_rows: int) -> bool:
    """Return whether some rows of a task can be held out, as far as its summary shows."""
    n_classes = max(task.n_classes, 1)
    largest = task.n_samples - n_classes + 1  # upper bound on the rows of one class
    n_test = min(largest - 1, max(round(size * largest), round(size * task.n_samples)))
    if task.n_divisible is not None:
        n_test = min(n_test, task.n_divisible)
    return min(n_test, task.n_samples - min_rows) > 0


def _check_training_rows(algorithm: Algo, task: TaskSummary, n_test: int, *, min_rows: int) -> None:
    n_left = task.n_samples - n_test
    if n_test and n_left < min_rows:
        rows = "1 row" if n_left == 1 else f"{n_left} rows"
        raise InvalidData(
            f"a split leaves {rows} of task '{task.name}' to train on, and "
            f"{algorithm.name} needs {min_rows}; hold out fewer",
            task=task.name,
        )


def _check_training_classes(
    algorithm: Algo,
    params: Any,
    tasks: Sequence[TaskSummary],
    held_out: Mapping[str, Sequence[int]],
    *,
    index: int,
) -> None:
    """Raise InvalidData if a split holds out a whole class that the algorithm needs."""
    train = [_without(task, held_out.get(task.name, ())) for task in tasks]
    removed = {
        task.name: np.setdiff1d(task.labels, left.labels)[0]
        for task, left in zip(tasks, train, strict=True)
        if left.n_classes < task.n_classes and task.labels is not None and left.labels is not None
    }
    if not removed:
        return
    try:
        algorithm.check(train, params)
    except AlgorithmError as error:
        task = error.task if error.task in removed else next(iter(removed))
        raise InvalidData(
            f"split {index} of 'given' (counted from 0) holds out every row of class "
            f"'{removed[task]}' of task '{task}', without which {algorithm.name} cannot train "
            f"({error.message}); leave a row of each class out of the split",
            task=task,
            field=f"splits/given/{index}",
        ) from error


def _without(task: TaskSummary, held_out: Sequence[int]) -> TaskSummary:
    """Return the summary of a task without some rows."""
    if task.labels is None or not held_out:
        return task
    labels = np.delete(task.labels, held_out)
    classes = tuple(np.unique(labels).tolist())
    if task.classes is not None:  # known from all rows
        classes = task.classes
    return replace(
        task, n_samples=len(labels), n_classes=len(classes), labels=labels, classes=classes
    )


def _check_same_rows(
    algorithm: Algo, tasks: Sequence[TaskSummary], rows: Sequence[Sequence[int]]
) -> None:
    for task, task_rows in zip(tasks, rows, strict=True):
        if set(task_rows) != set(rows[0]):
            raise InvalidData(
                f"a split holds out different rows of task '{task.name}' and of task "
                f"'{tasks[0].name}'; {algorithm.name} needs the same rows in every task",
                task=task.name,
            )


def fitting_candidates(
    algorithm: Algo,
    candidates: Sequence[Mapping[str, Any]],
    tasks: Sequence[TaskSummary],
    splits: Splits,
) -> tuple[tuple[dict[str, Any], ...], str]:
    """Return the candidates that suit the tasks, and the reason against the last unsuitable one."""
    fitting, reason = [], ""
    for values in candidates:
        try:
            params = algorithm.parse(values)
            algorithm.check(tasks, params)
            algorithm.check_held_out(params)
            min_rows = min_train_rows(algorithm, [params], tasks)
            check_splits(algorithm, params, tasks, splits, min_rows=min_rows)
            algorithm.check_selection(tasks, params)
        except (AlgorithmError, ValidationError) as error:
            reason = str(error)
        else:
            fitting.append(dict(values))
    return tuple(fitting), reason
