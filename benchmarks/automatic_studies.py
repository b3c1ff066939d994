"""The automatic choice beside other ways: time, numbers of inner folds, and divisions of tasks.

    python -m benchmarks.automatic_studies time --data FOLDER
    python -m benchmarks.automatic_studies inner-folds --data FOLDER --sets 4
    python -m benchmarks.automatic_studies groups --sets 20
    python -m benchmarks.automatic_studies curve --sets 6

`time` compares the processor time of `auto` with that of nested cross-validation of every
contender, one after the other, in turn.

`groups` scores 1,000 new rows of eight linear tasks, of which four, all or none have coefficients
in common. The columns are: each learned alone (`ridge`); learned together (`mean-regularised`); the
ideal division of `per_task`, in which unrelated tasks are learned alone, but the others from all of
them; the ideal groups, in which the related ones are also learned without the unrelated ones; and
what `mean-regularised` finds with `unrelated="leave-out"`, which does not know the groups.

`inner-folds` chooses among fast methods for the survey by several numbers of inner folds, for some
random draws of ten rows per task, and scores each choice on the other rows.

`curve` compares the number of rows per task from which sharing no longer helps, as the learning
curve estimates it, with gains on new rows for several numbers of training rows.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from benchmarks.automatic_choice import (
    DATASETS,
    N_FRESH,
    choose,
    divide,
    error_of_parts,
    linear,
    of_survey,
)

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


#: Made problems of `groups`: numbers of related and of unrelated tasks, and the share of the
#: variance of the coefficients that is common to the related ones.
GROUPS = {
    "four of eight related": (4, 4, 1.0),
    "all related": (8, 0, 0.9),
    "all a little related": (8, 0, 0.5),
    "none related": (0, 8, 0.0),
}


def groups(n_sets: int) -> None:
    """Print errors on new rows of several divisions of tasks."""
    print(
        "problem: rows x columns: RMSE alone, together, ideal division, ideal groups, found groups"
    )
    for problem in GROUPS:
        for n, d in ((12, 8), (20, 8), (10, 20)):
            found = [
                _errors_of_groups(np.random.default_rng(seed), problem, n, d)
                for seed in range(n_sets)
            ]
            errors, is_divided = np.array([one for one, _ in found]), [one for _, one in found]
            gains = 1 - errors[:, 4] / errors[:, 1]
            print(
                f"{problem}: {n} x {d}: {' '.join(f'{one:.3f}' for one in errors.mean(axis=0))}; "
                f"divided {sum(is_divided)} of {n_sets} sets, gain over together "
                f"{gains.mean():.1%} ({gains.min():.1%} to {gains.max():.1%}), "
                f"{np.sum(gains < -0.02)} sets worse by more than 2 %",
                flush=True,
            )


def _errors_of_groups(
    rng: np.random.Generator, problem: str, n: int, d: int
) -> tuple[list[float], bool]:
    """Return the errors of all divisions, and whether the tasks were divided."""
    n_related, n_others, shared = GROUPS[problem]
    whole = [
        task
        for n_tasks, share in ((n_related, shared), (n_others, 0.0))
        for task in (
            linear(rng, n=n + N_FRESH, n_tasks=n_tasks, d=d, shared=share) if n_tasks else ()
        )
    ]
    names = [f"task {t}" for t in range(len(whole))]
    whole = [replace(task, name=name) for task, name in zip(whole, names, strict=True)]
    tasks = TaskSet(tuple(task.take(np.arange(n)) for task in whole))

    def fit(name: str, train: TaskSet, values: dict[str, Any]) -> Any:
        algorithm = ALGORITHMS[name]
        params = algorithm.parse({"selection": "loo", **values})
        return algorithm.fit(train, params, trace=Trace(), rng=np.random.default_rng(0))

    def errors(model: Any, n_tasks: int = len(whole)) -> list[float]:
        return [error_of_parts(model, task, n, N_FRESH) for task in whole[:n_tasks]]

    alone = errors(fit("ridge", tasks, {"form": "task"}))
    together = errors(fit("mean-regularised", tasks, {}))
    few = TaskSet(tasks.tasks[:n_related]) if n_related else None
    related = errors(fit("mean-regularised", few, {}), n_related) if few else []
    found = fit("mean-regularised", tasks, {"unrelated": "leave-out"})
    divided = together[:n_related] + alone[n_related:]
    errors_of = (alone, together, divided, related + alone[n_related:], errors(found))
    return [float(np.mean(one)) for one in errors_of], "unrelated" in found.fit_info


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
