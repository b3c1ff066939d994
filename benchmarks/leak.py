"""Search for leaks of held-out rows: comparisons on random labels must not find gains.

    python -m benchmarks.leak [--sets 40]

For every algorithm that predicts and has baselines, the script runs comparisons as the service
does, on random rows with random targets, with parameters selected inside the training rows. If a
held-out row entered a fit or a selection, gains would be found more often than by chance. Without a
leak, p-values are uniform or larger (the corrected t test is conservative).
"""

import argparse
import time
from typing import Any

import numpy as np
from scipy.stats import binomtest, kstest
from threadpoolctl import threadpool_limits

from algorithms.evaluation.comparison.comparison import CompareOptions
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits
from service.jobs.studies import plans

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sets", type=int, default=40)
parser.add_argument("--only", nargs="*", default=[])

N_TASKS, N_ROWS, WIDTH, N_FOLDS = 3, 24, 5, 4


def random_tasks(target: str, seed: int) -> TaskSet:
    rng = np.random.default_rng(seed)
    tasks = []
    for t in range(N_TASKS):
        labels = np.array(["no", "yes"])[rng.permutation(N_ROWS) % 2]
        y = labels if target == "classes" else rng.normal(size=N_ROWS)
        tasks.append(Task.from_rows(f"t{t}", rng.normal(size=(N_ROWS, WIDTH)), y=y))
    return TaskSet(tuple(tasks))


@threadpool_limits.wrap(limits=1)
def main() -> None:
    options = parser.parse_args()
    print("algorithm, targets, baseline: share of p < 0.05, p-value of a test for uniform p-values")
    for name, algorithm in ALGORITHMS.items():
        if not algorithm.baselines or (options.only and name not in options.only):
            continue
        for target in ("classes", "numbers"):
            if algorithm.needs.target in (target, "any"):
                report_p_values(name, target, options.sets)


def report_p_values(name: str, target: str, n_sets: int) -> None:
    began, helps = time.monotonic(), 0
    found: dict[str, list[float]] = {}
    for seed in range(n_sets):
        report = run_comparison(name, random_tasks(target, seed), seed=seed)
        helps += report["verdict"] == "helps"
        for gain in report["overall"]:
            if gain["p_value"] is not None:
                found.setdefault(f"{gain['baseline']} ({gain['role']})", []).append(gain["p_value"])
    for baseline, p_values in found.items():
        n_small = sum(p < 0.05 for p in p_values)
        # both tests are one-sided: only too many small p-values indicate a leak
        uniform = kstest(p_values, "uniform", alternative="greater").pvalue
        many = binomtest(n_small, len(p_values), 0.05, alternative="greater").pvalue
        note = "" if min(uniform, many) > 0.01 else "  <-- too many small p-values"
        print(f"{name}, {target}, {baseline}: {n_small / len(p_values):.2f}, {uniform:.2f}{note}")
    seconds = time.monotonic() - began
    print(f"    verdict 'helps' in {helps} of {n_sets} ({seconds:.0f} s)", flush=True)


def run_comparison(name: str, tasks: TaskSet, *, seed: int) -> dict[str, Any]:
    algorithm = ALGORITHMS[name]
    options = plans.StudyOptions(compare=CompareOptions(splits=Splits(n_folds=N_FOLDS, repeats=1)))
    planned = plans.plan_job(algorithm, {}, tasks.summaries(), options, seed=seed)
    parts = [
        plans.run_child_job(part.plan, ALGORITHMS[part.algorithm], tasks, seed=seed, trace=Trace())
        for part in planned.child_jobs
    ]
    return plans.combine_results(planned.plan, parts, tasks)[1]["comparison"]


if __name__ == "__main__":
    main()
