"""Error rates of the verdict of the automatic choice on made data, and the bias of its estimate.

Counts the verdicts, and compares the estimate with new rows:

- `noise`: targets do not depend on the columns, and each task has its own mean.
- `unrelated`: linear functions, independent between tasks; learning together cannot help.
- `related`: 10 tasks of 10 rows and 20 columns; nine tenths of the variance of their coefficients
  are common.

    python -m benchmarks.automatic_calibration --sets 200
"""

import argparse
from collections import Counter
from collections.abc import Callable

import numpy as np
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.interface.tasks import Task, TaskSet
from algorithms.splits.splits import Splits
from benchmarks.automatic import N_FRESH, choose, error_of_parts, linear

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sets", type=int, default=200, help="data sets of each problem")
parser.add_argument("--only", nargs="*", help="problems, all by default")


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
        model, report = choose(tasks, options, seed=seed)
        verdicts[report["together_or_apart"]["verdict"]] += 1
        n_false_tasks += any(one["verdict"] == "helps" for one in report["tasks"].values())
        fresh = np.mean([error_of_parts(model, task, n, N_FRESH) for task in whole])
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


def _mean_and_error(values: list[float]) -> str:
    return f"{np.mean(values):+.2%} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2%}"


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        for problem in arguments.only or PROBLEMS:
            calibration(problem, arguments.sets)
