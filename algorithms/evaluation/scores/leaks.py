"""Columns that alone predict the targets to nearly no error, as a leak of the target does.

A column that is known only after the target, such as the date of a discharge, makes every score
perfect and is missing when the model is called. For numbers, a column is tried as a line in each
task, and by the mean of each of its values if these repeat; for classes, as one interval of values
for each class, and by the most frequent class of each value.
"""

from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import TypedDict  # of Python 3.12, which pydantic needs

from algorithms.interface.tasks import Task, TaskSet
from algorithms.numerics.arrays import Array
from algorithms.numerics.sparse_rows import is_sparse

#: Largest error of a leaking column, relative to the error of a constant for each task: of squared
#: errors for numbers.
MAX_LEAK_ERROR: Final = {"numbers": 1e-3, "classes": 0.02}
#: Maximum numbers of rows of a task and of columns that are looked at.
MAX_ROWS: Final = 5000
MAX_COLUMNS: Final = 500
#: Least number of known rows of a task, and of rows that a constant gets wrong, over all tasks.
_MIN_ROWS: Final = 5
_MIN_WRONG: Final = 5
#: Least mean number of rows of each value for which values stand for themselves.
_MIN_REPEATS: Final = 5


class LeakingColumn(TypedDict):
    """A column that alone predicts the targets."""

    column: Annotated[str, Field(description="Name of the column.")]
    error: Annotated[
        float,
        Field(
            description="Its error on the training rows relative to that of a constant: of squares "
            "for numbers, of wrong answers for classes."
        ),
    ]
    sentence: Annotated[str, Field(description="What it means, and what to do.")]


def find_leaks(tasks: TaskSet) -> list[LeakingColumn]:
    """Return the columns that alone predict the targets of all tasks that have them."""
    errors: dict[str, list[tuple[float, float]]] = {}
    suitable = [
        task
        for task in tasks
        if task.input == "rows" and task.y is not None and not is_sparse(task.X)
    ]
    for task in suitable:
        names = task.feature_names or [f"column {j}" for j in range(task.n_features)]
        for j in range(min(task.n_features, MAX_COLUMNS)):
            pair = _errors(task.X[:MAX_ROWS, j], task)
            if pair is not None:
                errors.setdefault(names[j], []).append(pair)
    leaks: list[LeakingColumn] = []
    for name, pairs in errors.items():
        error, constant = np.sum(pairs, axis=0)
        kind = suitable[0].target
        is_enough = constant > 0 if kind == "numbers" else constant >= _MIN_WRONG
        if is_enough and error <= MAX_LEAK_ERROR[kind] * constant:
            sentence = (
                f"Column '{name}' alone predicts the targets with nearly no error: if it is known "
                "only after them, scores are too good and the column will be missing in calls; "
                f"leave it out with ignore_column={name}."
            )
            leaks.append({"column": name, "error": float(error / constant), "sentence": sentence})
    return leaks


def _errors(values: Array, task: Task) -> tuple[float, float] | None:
    """Return the error of a column, and that of a constant; None if there are too few rows."""
    assert task.y is not None
    y = task.y[:MAX_ROWS]
    is_known = ~np.isnan(values)
    if is_known.sum() < max(_MIN_ROWS, 0.9 * len(values)):
        return None
    values, y = values[is_known], y[is_known]
    distinct, which, sizes = np.unique(values, return_inverse=True, return_counts=True)
    repeats = len(values) >= _MIN_REPEATS * len(distinct)
    if task.target == "numbers":
        return _squared_errors(values, y, which, sizes if repeats else None)
    return _wrong_answers(y, which, len(distinct), repeats=repeats)


def _squared_errors(
    values: Array, y: Array, which: NDArray[np.intp], sizes: NDArray[np.intp] | None
) -> tuple[float, float]:
    # divided first, since squares of large numbers overflow
    spread = float(np.abs(y - y.mean()).max())
    if spread == 0:
        return 0.0, 0.0
    deviation = (y - y.mean()) / spread
    total = float(deviation @ deviation)
    if not which.any():  # one value, from which the rounded mean may differ
        return total, total
    width = float(np.abs(values - values.mean()).max())
    x = (values - values.mean()) / width
    x -= x.mean()
    rest = max(0.0, total - float(x @ deviation) ** 2 / float(x @ x))
    if sizes is not None:
        sums = np.bincount(which, deviation)
        rest = min(rest, max(0.0, total - float(np.sum(sums**2 / sizes))))
    # tasks weigh by their rows, whatever the units of their targets
    return len(y) * rest / total, float(len(y))


def _wrong_answers(
    y: NDArray[Any], which: NDArray[np.intp], n_values: int, *, repeats: bool
) -> tuple[float, float]:
    labels, codes = np.unique(y, return_inverse=True)
    table = np.zeros((n_values, len(labels)))
    np.add.at(table, (which, codes), 1)
    sizes = table.sum(axis=0)
    constant = float(len(y) - sizes.max())
    # the best interval of values of a class has the largest sum of +1 for its rows, -1 for others
    gains = 2 * table - table.sum(axis=1, keepdims=True)
    totals = np.vstack([np.zeros(len(labels)), np.cumsum(gains, axis=0)])
    best = (totals - np.minimum.accumulate(totals, axis=0)).max(axis=0)
    wrong = float(np.sum(sizes - best) / 2)
    if repeats:
        wrong = min(wrong, float(len(y) - table.max(axis=1).sum()))
    return wrong, constant
