"""MTFL on School: exam scores of pupils of 139 schools, ten official splits.

    python -m benchmarks.mtfl_school --data FOLDER [--quick]

FOLDER contains ``school.npz`` (ILEA, as shared by Argyriou, Evgeniou, Pontil). Regularisation is
selected by leave-one-out inside the training pupils. There are two scores, which differ by 14
points: "per task" is the mean over schools, weighted by size, of 1 - SSE/SST of the school;
"global" is 1 - SSE/SST of all test pupils.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.linear_baselines import MeanRegularised, Ridge
from algorithms.mtfl import MTFL
from benchmarks.mtfl_data import paired_t, school

#: The constant column of the data is the intercept, as in the paper.
PLAIN = {"standardise": "none", "fit_intercept": False}
FINE = {"grid": tuple(np.geomspace(1e-4, 10, 16))}
METHODS: dict[str, tuple[Algorithm[Any, Any], dict[str, Any]]] = {
    "MTFL": (MTFL(), {**PLAIN, **FINE}),
    "MTFL, selected": (MTFL(), {**PLAIN, **FINE, "features": "selected"}),
    "MTFL, defaults": (MTFL(), {}),
    "ridge per task": (Ridge(), PLAIN),
    "ridge pooled": (Ridge(), {**PLAIN, "form": "pooled"}),
    "mean-regularised": (MeanRegularised(), PLAIN),
}


def explained(model: Any, test: TaskSet) -> tuple[float, float]:
    """Return the explained variance per task (mean weighted by size) and of all rows."""
    parts = []
    for task in test:
        assert task.y is not None
        error = np.sum((task.y - model.predict(task.X, task=task.name)) ** 2)
        parts.append((len(task.y), error, np.sum((task.y - task.y.mean()) ** 2)))
    n, error, total = np.array(parts).T
    y = np.concatenate([task.y for task in test if task.y is not None])
    return float(np.average(1 - error / total, weights=n)), float(
        1 - error.sum() / (len(y) * y.var())
    )


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with school.npz")
    parser.add_argument("--quick", action="store_true", help="two splits, not ten")
    args = parser.parse_args()
    splits = school(args.data)[: 2 if args.quick else None]
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    gammas: dict[str, list[float]] = {name: [] for name in METHODS}
    times: dict[str, list[float]] = {name: [] for name in METHODS}
    for train, test in splits:
        for name, (algorithm, values) in METHODS.items():
            params = algorithm.Params(**values)
            rng = np.random.default_rng(0)
            started = time.process_time()
            model = algorithm.fit(train, params, trace=Trace(), rng=rng)
            times[name].append(time.process_time() - started)
            scores[name].append(explained(model, test))
            gammas[name].append(model.fit_info.get("ridge", model.fit_info["gamma"]))
    ridge = np.array(scores["ridge per task"])
    print(
        f"{'explained variance, %':<22}{'per task':>15}{'global':>15}{'t vs ridge':>12}"
        f"{'gamma':>10}{'fit, s':>10}"
    )
    for name, found in scores.items():
        one = 100 * np.array(found)
        means, deviations = one.mean(axis=0), one.std(axis=0, ddof=1)
        t = paired_t(np.array(found)[:, 0] - ridge[:, 0]) if name != "ridge per task" else 0.0
        cells = "".join(f"{m:>9.1f} ± {s:.1f}" for m, s in zip(means, deviations, strict=True))
        print(
            f"{name:<22}{cells}{t:>12.1f}{np.median(gammas[name]):>10.3g}{min(times[name]):>10.2f}"
        )


if __name__ == "__main__":
    main()
