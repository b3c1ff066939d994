"""The automatic choice beside other ways: time, numbers of inner folds, and divisions of tasks.

    python -m benchmarks.automatic_studies time --data FOLDER
    python -m benchmarks.automatic_studies inner-folds --data FOLDER --sets 4
    python -m benchmarks.automatic_studies groups --sets 10
    python -m benchmarks.automatic_studies curve --sets 6

`time` compares the processor time of `auto` with that of nested cross-validation of every
contender, one after the other, in turn.

`groups` scores new rows if four of eight linear tasks share their coefficients and the others are
unrelated: learned alone; learned together; together, but the unrelated ones alone; and if the
related ones are also fitted without them.

`inner-folds` chooses among fast methods for the survey by several numbers of inner folds, for some
random draws of ten rows per task, and scores each choice on the other rows.

`curve` compares the number of rows per task from which sharing stops to pay, as the learning curve
estimates it, with gains on new rows for several numbers of training rows.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from automatic_choice import DATASETS, N_FRESH, choose, divide, error_of_parts, linear, of_survey
from threadpoolctl import threadpool_limits

from algorithms.evaluation.automatic import AutomaticOptions
from algorithms.evaluation.contenders import find_contenders
from algorithms.evaluation.metrics import METRICS
from algorithms.evaluation.nested import NestedOptions, default_inner_folds, score_contender
from algorithms.evaluation.splits import Splits
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS

#: Methods of several costs for the comparison of times.
TIMED = ["constant", "ridge", "mean-regularised", "nearest-neighbours"]
#: Methods that take seconds on the survey.
FAST_ON_SURVEY = ["mixed-model", "shared-lasso", "mean-regularised", "ridge", "mtfl", "constant"]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("what", choices=("time", "inner-folds", "groups", "curve"))
parser.add_argument("--data", type=Path, help="folder of the real datasets")
parser.add_argument("--sets", type=int, default=4, help="random draws, or made data sets")


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


def compare_inner_folds(folder: Path, n_sets: int) -> None:
    """Print the method that each number of inner folds chooses for the survey, and its error."""
    data, metric, splits = of_survey(folder), METRICS["rmse"], Splits(n_folds=5, repeats=1)
    algorithms = {name: ALGORITHMS[name] for name in FAST_ON_SURVEY}
    for draw in range(n_sets):
        train, test = divide(data, 10, np.random.default_rng(draw))
        contenders, _ = find_contenders(algorithms, train.summaries(), metric, splits)
        for n_folds in (3, 5, 10):
            nested = NestedOptions(
                splits=splits,
                metric=metric,
                average="tasks",
                n_inner_folds=n_folds,
                min_rows=1,
                seed=0,
            )
            found = []
            for one in contenders:
                algorithm = algorithms[one.algorithm]
                (result,) = score_contender(
                    algorithm, one.candidates, train, [None], nested, trace=Trace()
                )
                found.append((result["inner"], one.algorithm, result["params"]))
            inner, name, params = min(found, key=lambda one: one[0])
            algorithm, rng = algorithms[name], np.random.default_rng(0)
            model = algorithm.fit(train, algorithm.parse(params), trace=Trace(), rng=rng)
            fresh = np.nanmean([metric.score(model, task) for task in test])
            print(
                f"draw {draw}, {n_folds} folds: {name} {inner:.3f}, new rows {fresh:.3f}",
                flush=True,
            )


def groups(n_sets: int) -> None:
    """Print errors on new rows if the ideal division of tasks is known."""
    for n, d in ((12, 8), (20, 8), (10, 20)):
        errors = [_errors_of_groups(np.random.default_rng(seed), n, d) for seed in range(n_sets)]
        print(f"groups, {n} rows of {d} columns:", np.round(np.mean(errors, axis=0), 3), flush=True)


def _errors_of_groups(rng: np.random.Generator, n: int, d: int) -> list[float]:
    whole = [
        *linear(rng, n=n + N_FRESH, n_tasks=4, d=d, shared=1.0),
        *linear(rng, n=n + N_FRESH, n_tasks=4, d=d, shared=0.0),
    ]
    names = [f"task {t}" for t in range(len(whole))]
    whole = [replace(task, name=name) for task, name in zip(whole, names, strict=True)]
    tasks = TaskSet(tuple(task.take(np.arange(n)) for task in whole))

    def errors(name: str, train: TaskSet, values: dict[str, Any]) -> list[float]:
        algorithm = ALGORITHMS[name]
        params = algorithm.parse({"selection": "loo", **values})
        model = algorithm.fit(train, params, trace=Trace(), rng=np.random.default_rng(0))
        known = whole[: len(train)]
        return [error_of_parts(model, task, n, N_FRESH) for task in known]

    alone = errors("ridge", tasks, {"form": "task"})
    together = errors("mean-regularised", tasks, {})
    without = errors("mean-regularised", TaskSet(tasks.tasks[:4]), {})
    divided = (alone, together, together[:4] + alone[4:], without + alone[4:])
    return [float(np.mean(one)) for one in divided]


def curve(n_sets: int) -> None:
    """Print true gains by rows per task, and estimates of where they end."""
    options = AutomaticOptions(
        algorithms=["ridge", "mean-regularised"], splits=Splits(n_folds=5, repeats=1), curve=True
    )
    for n in (10, 20, 40, 80, 160):
        gains = [_true_gain(np.random.default_rng([seed, n]), n) for seed in range(2 * n_sets)]
        error = np.std(gains, ddof=1) / np.sqrt(len(gains))
        print(f"{n} rows: gain {np.mean(gains):.1%} ± {error:.1%} of learning alone", flush=True)
    for seed in range(n_sets):
        tasks = linear(np.random.default_rng(seed), n=40, n_tasks=10, d=10, shared=0.9)
        found = choose(tasks, options, seed=seed)["curve"]
        ends = [found[name] for name in ("stops_at", "low", "high")]
        print(f"set {seed}:", *("-" if end is None else f"{end:.0f}" for end in ends), flush=True)


def _true_gain(rng: np.random.Generator, n: int) -> float:
    whole = linear(rng, n=n + N_FRESH, n_tasks=10, d=10, shared=0.9)
    tasks = TaskSet(tuple(task.take(np.arange(n)) for task in whole))
    errors = []
    for name, values in (("mean-regularised", {}), ("ridge", {"form": "task"})):
        algorithm = ALGORITHMS[name]
        params = algorithm.parse({"selection": "loo", **values})
        model = algorithm.fit(tasks, params, trace=Trace(), rng=rng)
        errors.append(np.mean([error_of_parts(model, task, n, N_FRESH) for task in whole]))
    return float(1 - errors[0] / errors[1])


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.what == "time":
            compare_time(arguments.data)
        elif arguments.what == "inner-folds":
            compare_inner_folds(arguments.data, arguments.sets)
        elif arguments.what == "curve":
            curve(arguments.sets)
        else:
            groups(arguments.sets)
