"""Error rates and power of the verdict of comparisons.

    python -m benchmarks.verdict_calibration --only simple --sets 2000
    python -m benchmarks.verdict_calibration --sets 250
    python -m benchmarks.verdict_calibration --only related --sets 50

- `coin`: class labels are coin flips; all methods have an error rate of one half.
- `isotropic`: rows are isotropic; all subspaces have the same reconstruction error.
- `unrelated`: linear functions, independent between tasks; learning together cannot help.
- `noise`: targets do not depend on the columns.
- `related`: 10 tasks of 10 rows and 20 columns; nine tenths of the variance of their coefficients
  are common.
- `simple`: nearest class means and nearest neighbours, per task and pooled, on coin flips: tests
  the statistics without the algorithms in a minute.

For each problem, algorithm and splitting scheme, the script prints how many comparisons report that
learning together helps or hurts, with a 95 % confidence interval, and how many report it for some
task, with and without the correction for the number of tasks.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits

from algorithms.evaluation.comparison.comparison import (
    ComparedMethod,
    CompareOptions,
    MethodScores,
    compare,
)
from algorithms.evaluation.comparison.verdict_sentences import summarize_comparison
from algorithms.evaluation.scores.gains import LEVEL
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from service.jobs.studies import plans

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sets", type=int, default=250)
parser.add_argument("--only", nargs="*", help="problems, all by default")
parser.add_argument("--algorithms", nargs="*", help="algorithms, by default all of a problem")

SCHEMES = {
    "kfold": Splits(scheme="kfold", n_folds=5, repeats=1),
    "holdout": Splits(scheme="holdout", n_splits=6, test_size=0.3),
}

Problem = Callable[[np.random.Generator], TaskSet]


def normal_tasks(rng: np.random.Generator, y: Any, *, n_tasks: int, n: int, d: int) -> TaskSet:
    """Return tasks with standard normal rows X and targets y(X)."""
    rows = [rng.normal(size=(n, d)) for _ in range(n_tasks)]
    return TaskSet(tuple(Task.from_rows(f"t{i}", X, y=y(X)) for i, X in enumerate(rows)))


def coin(rng: np.random.Generator) -> TaskSet:
    return normal_tasks(rng, lambda X: rng.permutation(len(X)) % 2, n_tasks=3, n=20, d=3)


def isotropic(rng: np.random.Generator) -> TaskSet:
    return normal_tasks(rng, lambda _: None, n_tasks=4, n=12, d=6)


def unrelated(rng: np.random.Generator) -> TaskSet:
    return normal_tasks(
        rng, lambda X: X @ rng.normal(size=4) + rng.normal(size=len(X)), n_tasks=4, n=15, d=4
    )


def noise(rng: np.random.Generator) -> TaskSet:
    return normal_tasks(rng, lambda X: rng.normal(size=len(X)), n_tasks=4, n=15, d=4)


def related(rng: np.random.Generator) -> TaskSet:
    common = rng.normal(size=20)

    def targets(X: Any) -> Any:
        own = np.sqrt(0.9) * common + np.sqrt(0.1) * rng.normal(size=20)
        return X @ own + rng.normal(size=len(X))

    return normal_tasks(rng, targets, n_tasks=10, n=10, d=20)


FMTL = {"kernel": "linear", "grid": [0.1, 10.0], "tolerance": 1e-2}
MTFL = {"grid": [0.1, 1.0, 10.0], "tolerance": 1e-4}
#: Algorithms for each problem, with parameters for a short run.
CASES: dict[str, tuple[Problem, dict[str, dict[str, Any]]]] = {
    "coin": (
        coin,
        {
            "mtda": {"d_grid": [1], "gamma_grid": [0.1]},
            "fmtl": {**FMTL, "loss": "squared"},
            "mtfl": {**MTFL, "loss": "square"},
        },
    ),
    "isotropic": (isotropic, {"rmt-pca": {"k": 1}}),
    "unrelated": (unrelated, {"fmtl": FMTL, "mtfl": MTFL}),
    "noise": (noise, {"fmtl": FMTL, "mtfl": MTFL}),
    "related": (related, {"fmtl": FMTL, "mtfl": MTFL}),
}


@threadpool_limits.wrap(limits=1)
def main() -> None:
    options = parser.parse_args()
    if not options.only or "simple" in options.only:
        for scheme in SCHEMES:
            study("coin", "simple", scheme, n_sets=options.sets)
    for name, (_, algorithms) in CASES.items():
        if options.only and name not in options.only:
            continue
        for algorithm in algorithms:
            if not options.algorithms or algorithm in options.algorithms:
                for scheme in SCHEMES:
                    study(name, algorithm, scheme, n_sets=options.sets)


def study(name: str, algorithm: str, scheme: str, *, n_sets: int) -> None:
    problem, algorithms = CASES[name]
    began = time.monotonic()
    verdicts, tasks, small = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(n_sets):
        data = problem(np.random.default_rng([seed, 7]))
        if algorithm == "simple":
            report = simple(data, SCHEMES[scheme], seed=seed)
        else:
            report = comparison(algorithm, algorithms[algorithm], data, SCHEMES[scheme], seed=seed)
        verdicts[report["verdict"]] += 1
        for gain in report["overall"]:
            label = ", ".join(filter(None, (gain["baseline"], gain["role"], gain["variant"])))
            small[label] += gain["p_value"] is not None and gain["p_value"] < LEVEL
        found = list(report["tasks"].values())
        tasks.update(one["verdict"] for one in found)
        tasks["any"] += any(one["verdict"] in {"helps", "hurts"} for one in found)
        tasks["any raw"] += any((one["p_value"] or 1.0) < LEVEL for one in found)
    shares = ", ".join(f"{key} {share(verdicts[key], n_sets)}" for key in ("helps", "hurts"))
    print(f"\n{name}, {algorithm}, {scheme}, {n_sets} comparisons: {shares}, "
          f"equal {verdicts['equal']}, unclear {verdicts['unclear']}")  # fmt: skip
    print(f"  helps or hurts some task {share(tasks['any'], n_sets)}, uncorrected "
          f"{tasks['any raw'] / n_sets:.3f}; tasks: helps {tasks['helps']}, hurts "
          f"{tasks['hurts']}, equal {tasks['equal']}, unclear {tasks['unclear']}")  # fmt: skip
    pairs = "; ".join(f"{label} {n / n_sets:.3f}" for label, n in small.items())
    print(f"  share of p < {LEVEL}, candidate against: {pairs}")
    print(f"  {time.monotonic() - began:.0f} s", flush=True)


def simple(tasks: TaskSet, splits: Splits, *, seed: int) -> dict[str, Any]:
    """Return the report of a comparison of simple classifiers."""
    errors = [{task: [] for task in tasks.names} for _ in SIMPLE]
    for index in range(splits.count()):
        split = splits.split(tasks, index, seed=seed)
        X, y = (np.concatenate([getattr(task, key) for task in split.train]) for key in "Xy")
        for test in split.test:
            own = split.train[test.name]
            for found, (_, _, predict) in zip(errors, SIMPLE, strict=True):
                predicted = predict(own.X, own.y, X, y, test.X)
                found[test.name].append(float(np.mean(predicted != test.y)))
    methods = [
        MethodScores(
            ComparedMethod(name, role, {}),
            {
                "by_task": {"error_rate": found},
                "over_rows": {"error_rate": [None] * splits.count()},
            },
        )
        for found, (name, role, _) in zip(errors, SIMPLE, strict=True)
    ]
    metric = METRICS["error_rate"]
    report = compare(methods, metric, CompareOptions(splits=splits), ratio=splits.ratio(tasks))
    return {**report, **summarize_comparison(report)}


def by_mean(X: Any, y: Any, rows: Any) -> Any:
    means = np.stack([X[y == label].mean(axis=0) for label in (0, 1)])
    return ((rows[:, np.newaxis] - means) ** 2).sum(axis=2).argmin(axis=1)


def by_neighbour(X: Any, y: Any, rows: Any) -> Any:
    return y[((rows[:, np.newaxis] - X) ** 2).sum(axis=2).argmin(axis=1)]


#: Name, role, and a function that predicts from rows and labels of the task and of all tasks.
SIMPLE: Any = (
    ("means of both", "candidate", lambda a, b, X, y, rows: by_mean(
        np.concatenate([X, a]), np.concatenate([y, b]), rows)),
    ("means", "single_task", lambda a, b, _X, _y, rows: by_mean(a, b, rows)),
    ("neighbour", "single_task", lambda a, b, _X, _y, rows: by_neighbour(a, b, rows)),
    ("means", "pooled", lambda _a, _b, X, y, rows: by_mean(X, y, rows)),
    ("neighbour", "pooled", lambda _a, _b, X, y, rows: by_neighbour(X, y, rows)),
    ("majority", "trivial", lambda _a, b, _X, _y, rows: np.full(len(rows), int(b.mean() > 0.5))),
)  # fmt: skip


def share(count: int, n: int) -> str:
    low, high = binomtest(count, n).proportion_ci(0.95)
    return f"{count / n:.3f} ({low:.3f} to {high:.3f})"


def comparison(
    name: str, values: Any, tasks: TaskSet, splits: Splits, *, seed: int
) -> dict[str, Any]:
    """Return the report of a comparison, computed by child jobs as in the service."""
    options = plans.StudyOptions(compare=CompareOptions(splits=splits))
    planned = plans.plan_job(ALGORITHMS[name], values, tasks.summaries(), options, seed=seed)
    parts = [
        plans.run_child_job(part.plan, ALGORITHMS[part.algorithm], tasks, seed=seed, trace=Trace())
        for part in planned.child_jobs
    ]
    found: dict[str, Any] = plans.combine_results(planned.plan, parts, tasks)[1]["comparison"]
    return found


if __name__ == "__main__":
    main()
