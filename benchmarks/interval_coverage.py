"""Coverage of intervals and sets, and calibration of probabilities, on new rows of real data.

    python -m benchmarks.interval_coverage --data FOLDER

Models with calibration are trained on some random rows of every task, and their 90 % intervals or
sets are counted on all other rows, over several random parts. `own` tasks use their own n held-out
rows; `borrowed` ones those of other tasks, where only the mean over tasks is promised. Given the n
rows, the coverage of a task varies like a beta variable, so the number of covered new rows of an
own task is beta-binomial; a task is *low* if its number is among the lowest 5 % of that
distribution.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import betabinom
from threadpoolctl import threadpool_limits

from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.methods import DEFAULT_LEVEL
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.wrappers.calibration.algorithm import CalibratedAlgorithm
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.calibration.quality import reliability
from benchmarks.automatic import DATASETS, divide

#: Dataset, algorithm, training rows per task.
CASES = (
    ("school", "mean-regularised", 10),
    ("school", "mean-regularised", 40),
    ("parkinsons", "mean-regularised", 10),
    ("parkinsons", "mean-regularised", 60),
    ("landmine", "logistic-regression", 40),
    ("landmine", "ridge", 40),
    ("landmine", "boosted-trees", 40),
)
_RARE = 0.05

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, help="folder of the real datasets", required=True)
parser.add_argument("--parts", type=int, default=5, help="random training parts of each case")


def measure(name: str, algorithm_name: str, n_rows: int, folder: Path, n_parts: int) -> None:
    read, _ = DATASETS[name]
    arrays = read(folder)
    algorithm = CalibratedAlgorithm(ALGORITHMS[algorithm_name], Calibration())
    params = algorithm.parse({})
    covered: list[float] = []
    sizes: list[float] = []
    is_own, is_low = [], []
    p_before, p_after, truth = [], [], []
    for part in range(n_parts):
        train, test = divide(arrays, n_rows, np.random.default_rng(part))
        rng = np.random.default_rng(part)
        model = algorithm.fit(train, params, trace=Trace(), rng=rng)
        coverage, size = ("coverage", "interval_width")
        if train.tasks[0].target == "classes":
            coverage, size = ("set_coverage", "set_size")
        levels = model.report()["levels"]
        for task in test:
            share = METRICS[coverage].score(model, task)
            covered.append(share)
            sizes.append(METRICS[size].score(model, task))
            is_own.append(levels[task.name]["own_rows_to"] >= DEFAULT_LEVEL - 1e-9)
            n_held_out, n_new = levels[task.name]["n_held_out"], task.n_samples
            a = int(np.ceil(DEFAULT_LEVEL * (n_held_out + 1)))
            expected = betabinom(n_new, a, max(n_held_out + 1 - a, 1))
            is_low.append(expected.cdf(round(share * n_new)) < _RARE)
            if model.maps:
                last = model.classes(task.name)[-1]
                score = model.decision_function(task.X, task=task.name)
                p_before.append(1 / (1 + np.exp(-score)))
                p_after.append(model.predict_proba(task.X, task=task.name)[:, -1])
                truth.append(task.y == last)
    print(f"{name}, {algorithm_name}, {n_rows} rows per task, {n_parts} parts:", flush=True)
    own, low = np.array(is_own), np.array(is_low)
    for label, chosen in (("own", own), ("borrowed", ~own)):
        if chosen.any():
            values = np.array(covered)[chosen]
            error = values.std(ddof=1) / np.sqrt(len(values))
            rest = f", low in {low[chosen].mean():.1%} of tasks" if label == "own" else ""
            print(
                f"  {label}: {chosen.sum()} tasks, coverage {values.mean():.1%} ± {error:.1%}, "
                f"size {np.array(sizes)[chosen].mean():.3g}{rest}",
                flush=True,
            )
    if truth:
        is_class = np.concatenate(truth)
        errors = [_error(np.concatenate(p), is_class) for p in (p_before, p_after)]
        print(f"  calibration error {errors[0]:.1%} before, {errors[1]:.1%} after", flush=True)


def _error(p: np.ndarray, is_class: np.ndarray) -> float:
    points = reliability(p, is_class)
    return float(sum(one["n"] * abs(one["probability"] - one["share"]) for one in points) / len(p))


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        for case in CASES:
            measure(*case, arguments.data, arguments.parts)
