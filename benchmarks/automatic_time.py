"""Processor time of the automatic choice beside nested cross-validation of every contender.

The contenders are scored one after the other, in turn with `auto`.

    python -m benchmarks.automatic_time --data FOLDER
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.choice.contenders import find_contenders
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.nested import (
    NestedOptions,
    default_inner_folds,
    score_contender,
)
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from benchmarks.automatic import DATASETS, choose, divide, linear

#: Methods of several costs for the comparison of times.
TIMED = ["constant", "ridge", "mean-regularised", "nearest-neighbours"]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, help="folder of the datasets", required=True)


def by_hand(tasks: TaskSet, options: AutomaticOptions, *, seed: int) -> None:
    """Score every contender in nested cross-validation, and select with all rows."""
    algorithms = {name: ALGORITHMS[name] for name in options.algorithms or ALGORITHMS}
    metric = METRICS["rmse"]
    contenders, _ = find_contenders(algorithms, tasks.summaries(), metric, options.splits)
    nested = NestedOptions(
        splits=options.splits,
        metric=metric,
        average="tasks",
        n_inner_folds=default_inner_folds(tasks),
        min_rows=2,
        seed=seed,
    )
    for one in contenders:
        indices = [*range(options.splits.count()), None]
        algorithm = algorithms[one.algorithm]
        score_contender(algorithm, one.candidates, tasks, indices, nested, trace=Trace())


def compare_time(folder: Path, n_repeats: int = 2) -> None:
    """Print the processor time of the choice, and of all contenders by hand, in turn."""
    school = divide(DATASETS["school"][0](folder), 20, np.random.default_rng(0))[0]
    related = linear(np.random.default_rng(0), n=20, n_tasks=10, d=20, shared=0.9)
    options = AutomaticOptions(
        algorithms=TIMED, splits=Splits(n_folds=5, repeats=1), budget_s=600.0, metric="rmse"
    )
    short = options.model_copy(update={"budget_s": 2.0})
    runs: dict[str, Callable[..., object]] = {
        "by hand": lambda tasks: by_hand(tasks, options, seed=0),
        "auto": lambda tasks: choose(tasks, options, seed=0),
        "auto, 2 s": lambda tasks: choose(tasks, short, seed=0),
    }
    for name, tasks in (("school", TaskSet(school.tasks[:15])), ("related", related)):
        seconds: dict[str, list[float]] = {label: [] for label in runs}
        for _ in range(n_repeats):
            for label, run in runs.items():
                started = time.process_time()
                run(tasks)
                seconds[label].append(time.process_time() - started)
        for label, found in seconds.items():
            ratio = np.median(np.divide(found, seconds["by hand"]))
            print(f"{name}, {label}: {np.round(found, 1)} s, ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        compare_time(arguments.data)
