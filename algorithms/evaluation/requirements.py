"""Whether tasks can be judged on held-out rows, told from their shapes alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from algorithms.evaluation.splits import Splits
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import AlgorithmError, InvalidData
from algorithms.interface.tasks import TaskSummary

Algo = Algorithm[Any, Any]


def min_train_rows(algorithm: Algo, params: Sequence[Any], tasks: Sequence[TaskSummary]) -> int:
    """Return with how few rows in every task the algorithm still takes the tasks.

    Where parameters are chosen inside the rows, some class has two of them.

    Parameters
    ----------
    params
        Parameters of candidates, all of which take the tasks as they are.
    """
    is_choice = any(getattr(one, "selection", "given") != "given" for one in params)
    min_rows = 1 + max(1, *(task.n_classes for task in tasks)) if is_choice else 1
    most = max(task.n_samples for task in tasks)
    for one in params:
        while min_rows < most and not _takes(algorithm, one, tasks, n_samples=min_rows):
            min_rows += 1
    return min_rows


def _takes(algorithm: Algo, params: Any, tasks: Sequence[TaskSummary], *, n_samples: int) -> bool:
    fewer = [replace(task, n_samples=min(task.n_samples, n_samples)) for task in tasks]
    try:
        algorithm.check(fewer, params)
    except AlgorithmError:
        return False
    return True


def check_splits(
    algorithm: Algo, tasks: Sequence[TaskSummary], splits: Splits, *, min_rows: int
) -> None:
    """Raise InvalidData where the splits leave nothing to judge by, or too little to learn from.

    Parameters
    ----------
    min_rows
        Rows of every task that must train.
    """
    splits.check(tasks)
    if splits.scheme == "given":
        for rows in splits.given or []:
            for task in tasks:
                _check_left(algorithm, task, len(rows.get(task.name, ())), min_rows=min_rows)
            if algorithm.needs.shared_rows:
                _check_alike(algorithm, tasks, [rows.get(task.name, []) for task in tasks])
        return
    size = 0.5 if splits.scheme == "kfold" else splits.test_size
    if not any(_can_hold_out(task, size, min_rows=min_rows) for task in tasks):
        needed = (
            "" if min_rows == 1 else f", and {algorithm.name} needs {min_rows} rows to learn from"
        )
        raise InvalidData(
            f"no split holds out a row by which task '{tasks[0].name}' or another can be judged: "
            "each has one row of each class, too few rows, or rows that belong together (with the "
            f"same values, or of one group){needed}; add rows, or hold out more",
            task=tasks[0].name,
        )


def _can_hold_out(task: TaskSummary, size: float, *, min_rows: int) -> bool:
    """Return whether a part of the rows can be held out, as far as the shape tells."""
    n_classes = max(task.n_classes, 1)
    largest = task.n_samples - n_classes + 1  # rows of a class, at the most
    n_held = min(largest - 1, max(round(size * largest), round(size * task.n_samples)))
    if task.n_divisible is not None:
        n_held = min(n_held, task.n_divisible)
    return min(n_held, task.n_samples - min_rows) > 0


def _check_left(algorithm: Algo, task: TaskSummary, n_held: int, *, min_rows: int) -> None:
    n_left = task.n_samples - n_held
    if n_held and n_left < min_rows:
        raise InvalidData(
            f"a split leaves {n_left} row(s) of task '{task.name}' to learn from, and "
            f"{algorithm.name} needs {min_rows}; hold out fewer",
            task=task.name,
        )


def _check_alike(
    algorithm: Algo, tasks: Sequence[TaskSummary], rows: Sequence[Sequence[int]]
) -> None:
    for task, own in zip(tasks, rows, strict=True):
        if set(own) != set(rows[0]):
            raise InvalidData(
                f"a split holds out other rows of task '{task.name}' than of '{tasks[0].name}'; "
                f"{algorithm.name} needs the same rows in every task",
                task=task.name,
            )
