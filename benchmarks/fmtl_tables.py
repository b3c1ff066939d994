"""Scores of FMTL and its baselines by the protocols of the paper's Tables 2 and 3.

    python -m benchmarks.fmtl_tables --data FOLDER [--splits 10] [--only landmine ...]

C is selected by three-fold cross-validation of the same score inside the training rows (grid 0.01
to 100, for Parkinsons 1 to 10,000), with at most 100 passes per fit. The loss is squared for
numbers, and squared or hinge for classes; classes have an intercept. The script prints mean and
standard deviation over random splits.

- Landmine: 19 tasks, 80 rows each, linear kernel, AUC.
- Parkinsons: 42 patients, 20 rows each, RBF kernel, explained variance within patients.
- School: the official splits, linear kernel, explained variance.
- USPS: 1000 training rows, 500 test rows.
- MNIST: split 1 of Kang et al. only.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from algorithms.evaluation import Split, error_rates, select_params
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "single-task": ("kernel-tasks", {}),
    "MTL (mean)": ("kernel-mean", {}),
    "MTRL": ("mtrl", {"max_iter": 20}),
    "FMTL p=2": ("fmtl", {}),
    "FMTL p=4/3": ("fmtl", {"k": 2}),
    "FMTL p=8/7": ("fmtl", {"k": 4}),
}
GRID = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
WIDE_GRID = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
Score = Callable[[Any, TaskSet], float]


def auc(model: Any, tasks: TaskSet) -> float:
    """Return the mean area under the ROC curve over the tasks whose test rows have two classes."""
    found = [
        roc_auc_score(t.y, model.decision_function(t.X, task=t.name))
        for t in tasks
        if len(set(t.y.tolist())) == 2
    ]
    return float(np.mean(found)) if found else 0.5


def explained_within(model: Any, tasks: TaskSet) -> float:
    """Return 1 - SSE/SST; SST is about the mean of each task."""
    error = sum(np.sum((model.predict(t.X, task=t.name) - t.y) ** 2) for t in tasks)
    return float(1 - error / sum(np.sum((t.y - t.y.mean()) ** 2) for t in tasks))


def explained(model: Any, tasks: TaskSet) -> float:
    """Return 1 - SSE/SST; SST is about the mean of all rows."""
    error = sum(np.sum((model.predict(t.X, task=t.name) - t.y) ** 2) for t in tasks)
    y = np.concatenate([t.y for t in tasks])
    return float(1 - error / np.sum((y - y.mean()) ** 2))


def accuracy(model: Any, tasks: TaskSet) -> float:
    return 1.0 - float(np.mean(list(error_rates(model, tasks).values())))


def per_task(X: Any, y: Any, task: Any, is_train: Any) -> Split:
    parts = []
    for chosen in (is_train, ~is_train):
        names = sorted(set(task[task >= 0].tolist()))
        rows = {t: np.flatnonzero((task == t) & chosen) for t in names}
        parts.append(
            TaskSet(tuple(Task.from_rows(f"{t:03}", X[r], y=y[r]) for t, r in rows.items()))
        )
    return Split(*parts)


def random_rows(task: Any, n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    is_train = np.zeros(len(task), dtype=bool)
    for t in sorted(set(task[task >= 0].tolist())):
        is_train[rng.permutation(np.flatnonzero(task == t))[:n]] = True
    return is_train


def landmine(file: Any, n_splits: int) -> Iterator[Split]:
    X, y, task = file["X"].astype(float), file["y"].astype(int), file["task19"].astype(int)
    for seed in range(n_splits):
        yield per_task(X, y, task, random_rows(task, 80, seed))


def parkinsons(file: Any, n_splits: int) -> Iterator[Split]:
    X, y, task = file["X"].astype(float), file["y"][:, 0].astype(float), file["task"].astype(int)
    for seed in range(n_splits):
        yield per_task(X, y, task, random_rows(task, 20, seed))


def school(file: Any, n_splits: int) -> Iterator[Split]:
    X, y, task = file["X"].astype(float), file["y"].astype(float), file["task"].astype(int)
    for is_train in file["train"][:n_splits]:
        yield per_task(X, y, task, is_train.astype(bool))


def classes(X: Any, y: Any, train: Any, test: Any) -> Split:
    return Split(
        *(TaskSet((Task.from_rows("digits", X[r], y=y[r].astype(int)),)) for r in (train, test))
    )


def usps(file: Any, n_splits: int) -> Iterator[Split]:
    X, y = file["X"] / 1000.0 - 1.0, file["y"]
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(X))
        yield classes(X, y, order[:1000], order[1000:1500])


def mnist(file: Any, n_splits: int) -> Iterator[Split]:
    del n_splits
    part = file["part"]
    yield classes(file["X"].astype(float), file["y"], part == 0, part == 2)


CENTERED: list[dict[str, Any]] = [
    {"loss": loss, "standardise": "center"} for loss in ("hinge", "squared")
]
LINEAR: list[dict[str, Any]] = [{"kernel": "linear", "loss": "squared"}]
TABLES: dict[str, tuple[str, Any, Score, list[dict[str, Any]], tuple[float, ...]]] = {
    "landmine": ("landmine", landmine, auc, LINEAR, GRID),
    "parkinsons": ("parkinsons", parkinsons, explained_within, [{"loss": "squared"}], WIDE_GRID),
    "school": ("school", school, explained, LINEAR, GRID),
    "usps": ("usps", usps, accuracy, CENTERED, GRID),
    "mnist": ("kang_mnist_split1", mnist, accuracy, CENTERED, GRID),
}


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(TABLES))
    given = parser.parse_args()
    for name in given.only:
        file_name, load, score, settings, grid = TABLES[name]
        with np.load(given.data / f"{file_name}.npz", allow_pickle=False) as archive:
            file = {key: archive[key] for key in archive.files}
        splits = list(load(file, given.splits))
        for values in settings:
            print(f"{name}, {values}, {len(splits)} splits", flush=True)
            for label, (algorithm, own) in METHODS.items():
                table_row(label, algorithm, {**values, **own}, splits, score=score, grid=grid)


def table_row(
    label: str,
    name: str,
    values: dict[str, Any],
    splits: list[Split],
    *,
    score: Score,
    grid: tuple[float, ...],
) -> None:
    algorithm = ALGORITHMS[name]
    values = {"max_iter": 100, **values}
    candidates = [algorithm.Params(**values, C=C) for C in grid]
    start, found, strengths, sparse = time.process_time(), [], [], []
    for split in splits:
        rng = np.random.default_rng(0)
        params = select_params(
            algorithm, split.train, candidates, n_folds=3, trace=Trace(), rng=rng,
            loss=lambda model, tasks: -score(model, tasks),
        ).params  # fmt: skip
        model = algorithm.fit(split.train, params, trace=Trace(), rng=rng)
        found.append(100 * score(model, split.test))
        strengths.append(model.fit_info["C"])
        sparse.append(model.fit_info["relations"]["sparsity"])
    print(
        f"  {label:12} {np.mean(found):6.1f} ± {np.std(found):4.1f}   median C "
        f"{np.median(strengths):g}, unrelated pairs {100 * np.mean(sparse):.0f} %, "
        f"{time.process_time() - start:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
