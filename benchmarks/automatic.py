"""Automatic choices as a job makes them, and the data on which they are measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.automatic import fit_automatic
from algorithms.ensemble.held_out import RowOptions
from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.interface.model import Model
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from benchmarks.mtfl_data import load, survey
from service.jobs.studies import plans

Arrays = dict[str, tuple[NDArray[Any], NDArray[Any]]]

#: New rows per task on which a model is scored.
N_FRESH = 1000


def choose(tasks: TaskSet, options: AutomaticOptions, *, seed: int) -> tuple[Model, dict[str, Any]]:
    """Return the model and the report of an automatic choice, made as a job makes it."""
    plan = plans.plan_choice(tasks.summaries(), options).plan
    choice, report = fit_automatic(plan["auto"], tasks, rows=RowOptions(), seed=seed, trace=Trace())
    return choice.model, report["choice"]


def by_task(folder: Path, name: str, kind: type) -> Arrays:
    data = load(folder, f"{name}.npz")
    y = data["y"].astype(kind)
    y = y[:, 0] if y.ndim == 2 else y
    return {
        f"{name} {t}": (data["X"][data["task"] == t].astype(float), y[data["task"] == t])
        for t in np.unique(data["task"])
    }


def of_survey(folder: Path) -> Arrays:
    X, Y = survey(folder)
    return {f"person {i}": (X, row) for i, row in enumerate(Y)}


def one_against_rest(folder: Path, name: str) -> Arrays:
    """Return a task for each digit, of all images."""
    data = load(folder, f"{name}.npz")
    X = data["X"].astype(float)
    return {f"digit {c}": (X, (data["y"] == c).astype(int)) for c in np.unique(data["y"])}


DATASETS: dict[str, tuple[Callable[[Path], Arrays], str]] = {
    "school": (lambda folder: by_task(folder, "school", float), "rmse"),
    "landmine": (lambda folder: by_task(folder, "landmine", int), "auc"),
    "parkinsons": (lambda folder: by_task(folder, "parkinsons", float), "rmse"),
    "survey": (of_survey, "rmse"),
    "mnist": (lambda folder: one_against_rest(folder, "kang_mnist_split1"), "auc"),
    "usps": (lambda folder: one_against_rest(folder, "usps"), "auc"),
}


def divide(arrays: Arrays, n: int, rng: np.random.Generator) -> tuple[TaskSet, TaskSet]:
    """Return tasks of n random rows, with both classes if there are two, and of all others."""
    train, test = [], []
    for name, (X, y) in arrays.items():
        order = rng.permutation(len(y))
        if y.dtype.kind == "i":  # two rows of each class first
            first = np.concatenate([order[y[order] == label][:2] for label in np.unique(y)])
            order = np.concatenate([first, order[~np.isin(order, first)]])
        n_train = min(n, len(y) * 3 // 4)
        train.append(Task.from_rows(name, X[order[:n_train]], y=y[order[:n_train]]))
        test.append(Task.from_rows(name, X[order[n_train:]], y=y[order[n_train:]]))
    return TaskSet(tuple(train)), TaskSet(tuple(test))


def linear(rng: np.random.Generator, *, n: int, n_tasks: int, d: int, shared: float) -> TaskSet:
    """Return linear tasks with means of their own; ``shared`` of the variance is common."""
    common = rng.normal(size=d)
    tasks = []
    for t in range(n_tasks):
        w = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=d)
        X = rng.normal(size=(n, d))
        y = X @ w + rng.normal(size=n) + 10 * rng.normal()
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    return TaskSet(tuple(tasks))


def error_of_parts(model: Any, task: Task, n: int, n_part: int) -> float:
    """Return the mean RMSE on parts of new rows as large as the held-out part of a split."""
    errors = task.y[n:] - model.predict(task.X[n:], task=task.name)
    errors = errors[: len(errors) // n_part * n_part].reshape(-1, n_part)
    return float(np.sqrt((errors**2).mean(axis=1)).mean())
