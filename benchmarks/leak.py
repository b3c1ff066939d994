"""Comparisons on labels that mean nothing: no gain may be found.

For every algorithm that predicts and has baselines, comparisons as the service makes them on random
rows with random labels, free parameters chosen inside the training rows. Were a held-out row
known to a fit or a choice, gains would be found more often than chance; p-values of no gain are
even, or larger (the corrected t test is careful).
Run: python benchmarks/leak.py [--sets 40]
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy.stats import binomtest, kstest
from threadpoolctl import threadpool_limits

from algorithms.evaluation.comparison import CompareOptions
from algorithms.evaluation.splits import Splits
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from service.jobs.studies import plans

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sets", type=int, default=40)
parser.add_argument("--only", nargs="*", default=[])

N_TASKS, N_ROWS, WIDTH, N_FOLDS = 3, 24, 5, 4


def meaningless(kind: str, seed: int) -> TaskSet:
    rng = np.random.default_rng(seed)
    made = []
    for t in range(N_TASKS):
        labels = np.array(["no", "yes"])[rng.permutation(N_ROWS) % 2]
        y = labels if kind == "classes" else rng.normal(size=N_ROWS)
        made.append(Task.from_rows(f"t{t}", rng.normal(size=(N_ROWS, WIDTH)), y=y))
    return TaskSet(tuple(made))


@threadpool_limits.wrap(limits=1)
def main() -> None:
    options = parser.parse_args()
    print("algorithm, targets, baseline: share of p < 0.05, p of even p-values; sharing 'helps'")
    for name, algorithm in ALGORITHMS.items():
        if not algorithm.baselines or (options.only and name not in options.only):
            continue
        for kind in ("classes", "numbers"):
            if algorithm.needs.target in (kind, "any"):
                judge(name, kind, options.sets)


def judge(name: str, kind: str, n_sets: int) -> None:
    began, helps = time.monotonic(), 0
    found: dict[str, list[float]] = {}
    for seed in range(n_sets):
        report = comparison(name, meaningless(kind, seed), seed=seed)
        helps += report["verdict"] == "helps"
        for gain in report["overall"]:
            if gain["p_value"] is not None:
                found.setdefault(f"{gain['baseline']} ({gain['role']})", []).append(gain["p_value"])
    for baseline, p_values in found.items():
        n_small = sum(p < 0.05 for p in p_values)
        # too many small ones, or a distribution with too many small ones
        even = kstest(p_values, "uniform", alternative="greater").pvalue
        many = binomtest(n_small, len(p_values), 0.05, alternative="greater").pvalue
        told = "" if min(even, many) > 0.01 else "  <-- not even"
        print(f"{name}, {kind}, {baseline}: {n_small / len(p_values):.2f}, {even:.2f}{told}")
    print(f"    helps in {helps} of {n_sets} ({time.monotonic() - began:.0f} s)", flush=True)


def comparison(name: str, tasks: TaskSet, *, seed: int) -> dict[str, Any]:
    algorithm = ALGORITHMS[name]
    asked = plans.StudyOptions(compare=CompareOptions(splits=Splits(n_folds=N_FOLDS, repeats=1)))
    laid = plans.plan_job(algorithm, {}, tasks.summaries(), asked, seed=seed)
    parts = [
        plans.run_child_job(part.plan, ALGORITHMS[part.algorithm], tasks, seed=seed, trace=Trace())
        for part in laid.child_jobs
    ]
    return plans.combine_results(laid.plan, parts, tasks)[1]["comparison"]


if __name__ == "__main__":
    main()
