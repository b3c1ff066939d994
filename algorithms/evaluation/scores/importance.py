"""Importance of the columns of a trained model, for each task and for all of them.

For a model that is linear in its columns, the importance of a column is the standard deviation of
its contribution to the prediction, std(x_j) |w_j|: the size of the coefficient of the standardised
column. For numbers it is relative to the standard deviation of the targets of the task, and for
more than two classes the root mean square over the classes, less their mean, which changes no
prediction. A raw column that became several prepared columns has the importance of their sum.

Of other models it is the permutation importance (Breiman 2001, doi:10.1023/A:1010933404324): how
much the score falls if the values of a column are permuted between the rows of a task. The score
is R² for numbers, the area under the ROC curve for two classes with a decision function, else the
accuracy.

Both are computed from rows that the model was trained with: they describe the model, not new rows.
Correlated columns share their importance.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from pydantic import BaseModel, Field

from algorithms.evaluation.scores.ratios import MIN_RATIO_ROWS
from algorithms.interface.model import Model
from algorithms.interface.tasks import Task
from algorithms.numerics.arrays import Array
from algorithms.numerics.scores import auc, error_rate, r2
from algorithms.numerics.sparse_rows import is_sparse
from algorithms.wrappers.preparation.columns import unnamed
from algorithms.wrappers.preparation.model import preparation_of

#: Rows of each task, and permutations of each column: the first effort that the budget allows.
EFFORTS: Final = ((500, 5), (200, 3), (50, 1))
#: Maximum number of values, columns times tasks, that are kept of the most important columns.
MAX_VALUES: Final = 20_000


class Importance(BaseModel):
    """Importance of the columns of a model, the most important one first."""

    sentence: str = Field(description="The most important columns in words.")
    kind: str = Field(
        description="coefficients: standard deviation of what a column adds to the prediction, "
        "which is the coefficient of the standardised column; of numbers relative to the standard "
        "deviation of the targets. permutation: fall of the metric if the values of the column are "
        "permuted."
    )
    metric: str | None = Field(
        description="Metric of the permutations: r2, auc or accuracy; null for coefficients."
    )
    columns: list[str] = Field(
        description="Names of the columns of the dataset; a column that was encoded as several has "
        "one importance."
    )
    shared: list[float | None] = Field(
        description="Mean importance over the tasks, by column. Falls of r2 and auc in tasks with "
        f"fewer than {MIN_RATIO_ROWS} rows are left out, unless all tasks are so small."
    )
    tasks: dict[str, list[float | None]] = Field(
        description="Importance by task and column; null for a column that a task does not have, "
        "and where the metric is not defined."
    )
    coefficients: dict[str, list[float | None]] | None = Field(
        description="Importance with the sign of the coefficient; null in it where a column has "
        "several coefficients. Null for permutations."
    )
    n_rows: dict[str, int] = Field(description="Number of training rows that were used, by task.")
    n_repeats: int | None = Field(description="Permutations of each column; null for coefficients.")
    n_columns: int = Field(
        description="Number of all columns, of which `columns` may have the most important only."
    )


def _describe(columns: Sequence[str], shared: Array, n_columns: int) -> str:
    """Return the most important columns in words, given those with the largest importance."""
    if not shared.max(initial=0.0) > 0:
        return "No column has an importance above 0."
    pairs = zip(columns[:3], shared[:3], strict=True)
    *others, last = [f"'{name}'" for name, value in pairs if value > 0]
    of = f"of {n_columns:,}"
    if not others:
        return f"{last} is the most important column {of}."
    return f"{', '.join(others)} and {last} are the most important columns {of}."


def importance_of(
    model: Model,
    tasks: Sequence[Task],
    *,
    rng: np.random.Generator,
    budget_s: float,
) -> Importance | None:
    """Return the importance of the columns of a model, or None.

    None if the model predicts no targets, or if permuting would take longer than the budget.

    Parameters
    ----------
    tasks
        Tasks of the model with rows and targets.
    budget_s
        Seconds that permutations may take.
    """
    usable = [task for task in tasks if task.name in model.tasks and task.input == "rows"]
    usable = [task for task in usable if task.y is not None and len(task.y)]
    if not usable or "predict" not in model.available_methods():
        return None
    names = {task.name: column_names(task) for task in usable}
    coefficients = {task.name: _from_coefficients(model, task) for task in usable}
    available = {task: pair for task, pair in coefficients.items() if pair is not None}
    if len(available) == len(coefficients):
        values = {task: pair[0] for task, pair in available.items()}
        signed = {task: pair[1] for task, pair in available.items()}
        n_rows = {task.name: task.X.shape[0] for task in usable}
        return _collect(names, values, signed, metric=None, n_rows=n_rows, n_repeats=None)
    if any(is_sparse(task.X) for task in usable):
        return None
    return _from_permutations(model, usable, names, rng=rng, budget_s=budget_s)


def column_names(task: Task) -> tuple[str, ...]:
    """Return the names of the raw columns of a task: "column 0", ... without names of their own."""
    if task.feature_names is not None:
        return task.feature_names
    return tuple(column.name for column in unnamed(task.n_features))


def _from_coefficients(model: Model, task: Task) -> tuple[Array, Array] | None:
    """Return importance and signed importance (n_columns,) of a linear model; else None."""
    coef = model.coefficients(task.name)
    if coef is None:
        return None
    if coef.shape[1] > 1:
        coef = coef - coef.mean(axis=1, keepdims=True)
    is_number = not model.classes(task.name)
    spread = float(np.std(np.asarray(task.y, dtype=np.float64))) if is_number else 1.0
    unit = spread if spread > 0 else 1.0
    preparation = preparation_of(model)
    if preparation is None:
        rows, source = task.X, np.arange(task.n_features)
    else:
        part = preparation.of(task.name)
        rows, source = part.apply(task.X), part.sources
    deviation = _deviations(rows)
    size = np.sqrt(np.mean(coef**2, axis=1)) * deviation
    signed = coef[:, 0] * deviation if coef.shape[1] == 1 else np.full(len(coef), np.nan)
    counts = np.bincount(source, minlength=task.n_features)
    values, single = np.zeros(task.n_features), np.full(task.n_features, np.nan)
    is_single = counts[source] == 1
    values[source[is_single]] = size[is_single]
    single[source[is_single]] = signed[is_single]
    for j in np.flatnonzero(counts > 1):
        members = np.flatnonzero(source == j)
        values[j] = np.sqrt(np.mean(np.var(rows[:, members] @ coef[members], axis=0)))
    return values / unit, single / unit


def _deviations(rows: Any) -> Array:
    """Return the standard deviation of each column of rows, which may be sparse."""
    if not is_sparse(rows):
        return np.asarray(np.std(rows, axis=0))
    n = rows.shape[0]
    mean = np.asarray(rows.sum(axis=0)).ravel() / n
    squares = np.asarray(rows.multiply(rows).sum(axis=0)).ravel() / n
    return np.asarray(np.sqrt(np.maximum(squares - mean**2, 0.0)))


def _from_permutations(
    model: Model,
    tasks: Sequence[Task],
    names: Mapping[str, tuple[str, ...]],
    *,
    rng: np.random.Generator,
    budget_s: float,
) -> Importance | None:
    """Return the permutation importance from at most so many rows as the budget allows."""
    metric = _metric(model, tasks)
    deadline = time.monotonic() + budget_s
    fitting = _affordable(model, tasks, metric, rng=rng, budget_s=budget_s)
    if fitting is None:
        return None
    parts, n_repeats = fitting
    values = {}
    for part in parts:
        score = _scores(model, part, part.X, 1, metric)[0]
        values[part.name] = drops = np.empty(part.n_features)
        for j in range(part.n_features):
            if time.monotonic() > deadline + budget_s:  # calls are slower than was measured
                return None
            rows = np.tile(part.X, (n_repeats, 1))
            rows[:, j] = np.concatenate([rng.permutation(part.X[:, j]) for _ in range(n_repeats)])
            drops[j] = np.mean(score - _scores(model, part, rows, n_repeats, metric))
    used = {part.name: len(part.X) for part in parts}
    return _collect(names, values, None, metric=metric, n_rows=used, n_repeats=n_repeats)


def _affordable(
    model: Model, tasks: Sequence[Task], metric: str, *, rng: np.random.Generator, budget_s: float
) -> tuple[list[Task], int] | None:
    """Return samples of the rows and the number of permutations that the budget allows."""
    n_calls = sum(task.n_features for task in tasks)
    for n_rows, n_repeats in EFFORTS:
        parts = [_sample(task, n_rows, rng) for task in tasks]
        largest = max(parts, key=lambda part: len(part.X))
        started = time.monotonic()
        _scores(model, largest, np.tile(largest.X, (n_repeats, 1)), n_repeats, metric)
        if (time.monotonic() - started) * n_calls <= budget_s:
            return parts, n_repeats
    return None


def _metric(model: Model, tasks: Sequence[Task]) -> str:
    """Return the score that suits all tasks."""
    n_classes = {len(model.classes(task.name)) for task in tasks}
    if n_classes == {0}:
        return "r2"
    has_scores = "decision_function" in model.available_methods()
    return "auc" if n_classes == {2} and has_scores else "accuracy"


def _sample(task: Task, n_rows: int, rng: np.random.Generator) -> Task:
    """Return a task with at most so many rows, drawn without replacement, in their order."""
    n = len(task.X)
    if n <= n_rows:
        return task
    return task.take(np.sort(rng.choice(n, n_rows, replace=False)))


def _scores(model: Any, task: Task, rows: Array, n_repeats: int, metric: str) -> Array:
    """Return the score of each repetition of the rows of a task, (n_repeats,); NaN if undefined."""
    method = model.decision_function if metric == "auc" else model.predict
    outputs = method(rows, task=task.name).reshape(n_repeats, -1)
    if metric == "r2":
        return np.array([r2(task.y, output, task.weights) for output in outputs])
    if metric == "auc":
        is_second = np.asarray(task.y) == model.classes(task.name)[1]
        pairs = ((is_second[:, np.newaxis], output[:, np.newaxis]) for output in outputs)
        return np.array([auc(*pair, task.weights) for pair in pairs])
    return np.array([1.0 - error_rate(task.y, output, task.weights) for output in outputs])


def _collect(
    names: Mapping[str, tuple[str, ...]],
    values: Mapping[str, Array],
    signed: Mapping[str, Array] | None,
    *,
    metric: str | None,
    n_rows: Mapping[str, int],
    n_repeats: int | None,
) -> Importance:
    """Return the importance of the columns of all tasks, which are the same if names are."""
    columns = list(dict.fromkeys(name for task_columns in names.values() for name in task_columns))
    place = {name: j for j, name in enumerate(columns)}
    positions = {
        task: [place[name] for name in task_columns] for task, task_columns in names.items()
    }

    def spread_out(by_task: Mapping[str, Array]) -> dict[str, Array]:
        table = {task: np.full(len(columns), np.nan) for task in by_task}
        for task, row in table.items():
            row[positions[task]] = by_task[task]
        return table

    table = spread_out(values)
    stacked = np.array(list(table.values()))
    is_small = np.array([n_rows[task] < MIN_RATIO_ROWS for task in table])
    if metric in ("r2", "auc") and not is_small.all():
        stacked[is_small] = np.nan
    counts = np.isfinite(stacked).sum(axis=0)
    shared = np.where(np.isfinite(stacked), stacked, 0.0).sum(axis=0) / np.maximum(counts, 1)
    n_kept = max(min(len(columns), MAX_VALUES // len(table)), 1)
    order = np.argsort(-shared, kind="stable")[:n_kept]
    kept, largest = [columns[j] for j in order], shared[order]
    coefficients = None if signed is None else spread_out(signed)
    return Importance(
        sentence=_describe(kept, largest, len(columns)),
        kind="permutation" if signed is None else "coefficients",
        metric=metric,
        columns=kept,
        shared=_listed(largest),
        tasks={task: _listed(row[order]) for task, row in table.items()},
        coefficients=coefficients
        and {task: _listed(row[order]) for task, row in coefficients.items()},
        n_rows=dict(n_rows),
        n_repeats=n_repeats,
        n_columns=len(columns),
    )


def _listed(values: Array) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
