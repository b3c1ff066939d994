"""Learning curves of the automatic choice: from how many rows on sharing no longer helps.

Compares the number of rows per task from which sharing no longer helps, as the learning curve
estimates it, with gains on new rows for several numbers of training rows.

    python -m benchmarks.automatic_curve --sets 6
"""

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from benchmarks.automatic import N_FRESH, choose, error_of_parts, linear

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sets", type=int, default=6, help="data sets")


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
        found = choose(tasks, options, seed=seed)[1]["curve"]
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
        curve(arguments.sets)
