"""The automatic division of tasks beside ideal ones, on tasks of which some are unrelated.

Scores 1,000 new rows of eight linear tasks, of which four, all or none have coefficients in
common. The columns are: each learned alone (`ridge`); learned together (`mean-regularised`); the
ideal division into two fits, in which unrelated tasks are learned alone, but the others from all of
them; the ideal groups, in which the related ones are also learned without the unrelated ones; and
what `mean-regularised` finds with `unrelated="leave-out"`, which does not know the groups.

    python -m benchmarks.automatic_groups --sets 20
"""

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from benchmarks.automatic import N_FRESH, error_of_parts, linear

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sets", type=int, default=20, help="data sets of each problem")

#: Problems: numbers of related and of unrelated tasks, and the share of the
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


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        groups(arguments.sets)
