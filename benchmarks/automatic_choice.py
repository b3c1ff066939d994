"""The automatic choice of an algorithm: leaderboards on real data, and error rates of its verdict.

    python -m benchmarks.automatic_choice leaderboard --data FOLDER --rows 20 --budget 120
    python -m benchmarks.automatic_choice calibration --sets 200
    python -m benchmarks.automatic_choice power --sets 50

`leaderboard` trains `auto` on some random rows of every task of School, Landmine, Parkinsons, the
computer survey, and the digits of MNIST and USPS, each against all others. It prints the
leaderboard and sentences, and scores every contender, fitted with the parameters that it selected,
on all other rows.

`calibration` counts the verdicts on made data, and compares the estimate with new rows:

- `noise`: targets do not depend on the columns, and each task has its own mean.
- `unrelated`: linear functions, independent between tasks; learning together cannot help.
- `related`: 10 tasks of 10 rows and 20 columns; nine tenths of the variance of their coefficients
  are common.

`power` counts the verdicts on `related` for several numbers of rows per task.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.errors import Diverged
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from benchmarks.mtfl_data import load, survey
from service.jobs.studies import plans

Arrays = dict[str, tuple[NDArray[Any], NDArray[Any]]]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("what", choices=("leaderboard", "calibration", "power"))
parser.add_argument("--data", type=Path, help="folder of the real datasets")
parser.add_argument("--rows", type=int, default=20, help="training rows per task")
parser.add_argument("--budget", type=float, default=120.0, help="processor time per dataset in s")
parser.add_argument("--inner-folds", type=int, help="inner folds of a leaderboard")
parser.add_argument("--sets", type=int, default=200, help="data sets of each made problem")
parser.add_argument("--only", nargs="*", help="datasets or problems, all by default")


def choose(tasks: TaskSet, options: AutomaticOptions, *, seed: int) -> dict[str, Any]:
    """Return the report of an automatic choice, made in this process as a job makes it."""
    study = plans.plan_choice(tasks.summaries(), options)
    results: list[dict[str, Any]] = []
    parts = study.child_jobs
    while parts:
        for part in parts:
            algorithm = ALGORITHMS[part.algorithm]
            results.append(
                plans.run_child_job(part.plan, algorithm, tasks, seed=seed, trace=Trace())
            )
        parts = plans.next_child_jobs(study.plan, results)
    report: dict[str, Any] = plans.combine_results(study.plan, results, tasks)[1]["choice"]
    return report


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


def leaderboard(
    name: str, folder: Path, n_rows: int, budget_s: float, n_inner_folds: int | None
) -> None:
    read, metric_name = DATASETS[name]
    metric = METRICS[metric_name]
    train, test = divide(read(folder), n_rows, np.random.default_rng(0))
    options = AutomaticOptions(
        metric=metric_name,
        budget_s=budget_s,
        splits=Splits(n_folds=5, repeats=1),
        n_inner_folds=n_inner_folds,
    )
    started = time.monotonic()
    report = choose(train, options, seed=0)
    elapsed_s = time.monotonic() - started
    n_train = sum(task.n_samples for task in train)
    print(f"\n{name}: {len(train)} tasks, {n_train} training rows, {elapsed_s:.0f} s")
    print("chosen  held out            new rows  fit s   contender")
    for row in report["leaderboard"]:
        algorithm = ALGORITHMS[row["algorithm"]]
        params = algorithm.parse(row["params"])
        try:
            model = algorithm.fit(train, params, trace=Trace(), rng=np.random.default_rng(0))
            fresh = float(np.nanmean([metric.score(model, task) for task in test]))
        except Diverged:
            fresh = float("nan")
        mark = "*" if all(row[key] == value for key, value in report["chosen"].items()) else ""
        held_out = f"{row['value']:.4f} ({row['low']:.4f}, {row['high']:.4f})"
        label = f"{row['algorithm']} {row['role']} {row['variant']}"
        print(f"{mark:2} {row['n_chosen']}/5  {held_out}  {fresh:.4f}  {row['fit_s']:.4f}  {label}")
    pair = report["choice_or_best"]
    second = f"{pair['second']['algorithm']} {pair['second']['role']}"
    print(
        f"choice {pair['first_value']:.4f} against the best row ({second}) "
        f"{pair['second_value']:.4f}: gain {pair['gain']:.4f} ({pair['low']:.4f}, "
        f"{pair['high']:.4f}), p = {pair['p_value']:.3f}, {pair['verdict']}"
    )
    print(*report["sentences"], sep="\n")


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


def noise(rng: np.random.Generator, *, n: int) -> TaskSet:
    return TaskSet(
        tuple(
            Task.from_rows(
                f"t{t}", rng.normal(size=(n, 4)), y=rng.normal(size=n) + 10 * rng.normal()
            )
            for t in range(4)
        )
    )


#: Each with its number of rows per task.
PROBLEMS: dict[str, tuple[Callable[..., TaskSet], int]] = {
    "noise": (noise, 15),
    "unrelated": (lambda rng, *, n: linear(rng, n=n, n_tasks=4, d=4, shared=0.0), 15),
    "related": (lambda rng, *, n: linear(rng, n=n, n_tasks=10, d=20, shared=0.9), 10),
}
CONTENDERS = ["constant", "ridge", "mean-regularised"]
POWER_ROWS = (5, 10, 20, 40, 80)
#: New rows per task that the chosen model is scored on.
N_FRESH = 1000


def calibration(name: str, n_sets: int) -> None:
    make, n = PROBLEMS[name]
    verdicts: Counter[str] = Counter()
    n_false_tasks = 0
    bias, winner_bias = [], []
    options = AutomaticOptions(algorithms=CONTENDERS, splits=Splits(n_folds=5, repeats=1))
    for seed in range(n_sets):
        rng = np.random.default_rng([seed, len(name)])
        whole = make(rng, n=n + N_FRESH)
        tasks = TaskSet(tuple(task.take(np.arange(n)) for task in whole))
        report = choose(tasks, options, seed=seed)
        verdicts[report["together_or_apart"]["verdict"]] += 1
        n_false_tasks += any(one["verdict"] == "helps" for one in report["tasks"].values())
        (row,) = [
            row
            for row in report["leaderboard"]
            if all(row[key] == value for key, value in report["chosen"].items())
        ]
        algorithm = ALGORITHMS[row["algorithm"]]
        model = algorithm.fit(tasks, algorithm.parse(row["params"]), trace=Trace(), rng=rng)
        fresh = np.mean([error_of_parts(model, task, n, n // 5) for task in whole])
        bias.append(report["estimate"]["value"] / fresh - 1)
        winner_bias.append(report["leaderboard"][0]["value"] / fresh - 1)
    helps = binomtest(verdicts["helps"], n_sets).proportion_ci()
    counts = ", ".join(f"{key} {verdicts[key]}" for key in ("helps", "hurts", "equal", "unclear"))
    print(
        f"{name}: {n_sets} sets: {counts}; helps {verdicts['helps'] / n_sets:.1%} "
        f"({helps.low:.1%} to {helps.high:.1%}); helps some task {n_false_tasks / n_sets:.1%}; "
        f"bias of the estimate {_mean_and_error(bias)}, of the best row "
        f"{_mean_and_error(winner_bias)}",
        flush=True,
    )


def power(n_sets: int) -> None:
    """Print how often learning together helps, and the true gain, by rows per task."""
    make, _ = PROBLEMS["related"]
    options = AutomaticOptions(algorithms=CONTENDERS, splits=Splits(n_folds=5, repeats=1))
    for n in POWER_ROWS:
        verdicts: Counter[str] = Counter()
        gains = []
        for seed in range(n_sets):
            rng = np.random.default_rng([seed, n])
            report = choose(make(rng, n=n), options, seed=seed)
            pair = report["together_or_apart"]
            verdicts[pair["verdict"]] += 1
            gains.append(pair["gain"] / pair["second_value"])
        helps = binomtest(verdicts["helps"], n_sets).proportion_ci()
        print(
            f"related, {n} rows per task: helps {verdicts['helps'] / n_sets:.0%} "
            f"({helps.low:.0%} to {helps.high:.0%}) of {n_sets} sets; "
            f"gain {_mean_and_error(gains)}",
            flush=True,
        )


def error_of_parts(model: Any, task: Task, n: int, n_part: int) -> float:
    """Return the mean RMSE on parts of new rows as large as the held-out part of a split."""
    errors = task.y[n:] - model.predict(task.X[n:], task=task.name)
    errors = errors[: len(errors) // n_part * n_part].reshape(-1, n_part)
    return float(np.sqrt((errors**2).mean(axis=1)).mean())


def _mean_and_error(values: list[float]) -> str:
    return f"{np.mean(values):+.2%} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2%}"


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.what == "power":
            power(arguments.sets)
        elif arguments.what == "calibration":
            for problem in arguments.only or PROBLEMS:
                calibration(problem, arguments.sets)
        else:
            for dataset in arguments.only or DATASETS:
                leaderboard(
                    dataset,
                    arguments.data,
                    arguments.rows,
                    arguments.budget,
                    arguments.inner_folds,
                )
