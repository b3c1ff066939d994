"""Data of the MTFL benchmarks: real datasets from a folder, and the paper's synthetic tasks."""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task, TaskSet

Array = NDArray[np.float64]

#: Variances of the paper's synthetic coefficients.
PAPER_VARIANCES = (1.0, 0.25, 0.1, 0.05, 0.01)
#: Standard deviation of the noise of the paper's synthetic targets.
PAPER_NOISE = 0.1


def load(folder: Path, name: str) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a file, or exit with a message."""
    path = folder / name
    if not path.exists():
        sys.exit(f"{path} does not exist; pass the folder of {name} with --data")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def school(folder: Path) -> list[tuple[TaskSet, TaskSet]]:
    """Return the training and test rows of the ten official splits, with a task per school."""
    data = load(folder, "school.npz")
    X, y, task = data["X"].astype(float), data["y"].astype(float), data["task"]

    def tasks(is_in: NDArray[np.bool_]) -> TaskSet:
        return TaskSet(
            tuple(
                Task.from_rows(f"school-{s:03d}", X[is_in & (task == s)], y=y[is_in & (task == s)])
                for s in np.unique(task)
            )
        )

    return [(tasks(split), tasks(~split)) for split in data["train"]]


def survey(folder: Path) -> tuple[Array, Array]:
    """Return computer profiles (20, 14) and ratings (190, 20).

    The first column of the profiles is constant.
    """
    data = load(folder, "computer_survey.npz")
    return data["X"].astype(float), data["Y"].astype(float)


def synthetic(rng: np.random.Generator, *, n_tasks: int, d: int) -> tuple[TaskSet, Array]:
    """Return tasks with 5 to 10 rows, uniform in [0, 1], and the true W (d, n_tasks).

    Coefficients of the first five columns are normal with the paper's variances, the others are 0.
    """
    tasks, W = [], np.zeros((d, n_tasks))
    for t in range(n_tasks):
        n = int(rng.integers(5, 11))
        X = rng.uniform(size=(n, d))
        W[:5, t] = rng.standard_normal(5) * np.sqrt(PAPER_VARIANCES)
        y = X @ W[:, t] + PAPER_NOISE * rng.standard_normal(n)
        tasks.append(Task.from_rows(f"task-{t:03d}", X, y=y))
    return TaskSet(tuple(tasks)), W


def paired_t(differences: Array) -> float:
    """Return the paired t statistic of differences."""
    spread = differences.std(ddof=1) / np.sqrt(len(differences))
    return float(differences.mean() / spread)
