"""MTFL and ridge on the paper's synthetic tasks, for 10 to 200 tasks.

    python -m benchmarks.mtfl_synthetic [--quick]

Coefficients are normal in 5 of d dimensions with variances 1, .25, .1, .05, .01; each task has 5 to
10 rows. The error is the mean of (wᵀx - predicted)² over new rows without noise, divided by the
mean of (wᵀx)². MTFL selects γ by leave-one-out ("loo") or cross-validation ("cv"), ridge by
leave-one-out.
"""

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.baselines.linear import Ridge
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL
from benchmarks.mtfl_data import paired_t, synthetic

Array = NDArray[np.float64]

PLAIN = {"standardise": "none", "fit_intercept": False}
FINE = {"grid": tuple(np.geomspace(1e-5, 10, 16))}
METHODS: dict[str, tuple[Algorithm[Any, Any], dict[str, Any]]] = {
    "ridge": (Ridge(), {**PLAIN, "grid": tuple(np.geomspace(1e-3, 1e3, 16))}),
    "loo": (MTFL(), {**PLAIN, **FINE}),
    "cv": (MTFL(), {**PLAIN, **FINE, "selection": "cv", "n_folds": 5}),
}


def trial(seed: int, *, n_tasks: int, d: int) -> dict[str, float]:
    """Return the error of each method on one random problem."""
    rng = np.random.default_rng([seed, n_tasks, d])
    tasks, W = synthetic(rng, n_tasks=n_tasks, d=d)
    X = rng.uniform(size=(500, d))
    truth = X @ W
    found = {}
    for name, (algorithm, values) in METHODS.items():
        params = algorithm.Params(**values)
        model = algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
        predicted = np.stack([model.predict(X, task=task.name) for task in tasks], axis=1)
        found[name] = float(np.mean((predicted - truth) ** 2) / np.mean(truth**2))
    return found


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three problems, two values of d")
    args = parser.parse_args()
    n_draws = 3 if args.quick else 10
    print(f"{'d':>3}{'T':>5}{'ridge':>9}{'MTFL loo':>10}{'MTFL cv':>9}{'t loo':>8}{'t cv':>8}")
    for d in (10, 25) if args.quick else (5, 10, 25):
        for n_tasks in (10, 25, 100, 200):
            draws = [trial(seed, n_tasks=n_tasks, d=d) for seed in range(n_draws)]
            errors = {name: np.array([draw[name] for draw in draws]) for name in METHODS}
            t = {name: paired_t(errors["ridge"] - errors[name]) for name in ("loo", "cv")}
            print(
                f"{d:>3}{n_tasks:>5}{errors['ridge'].mean():>9.4f}{errors['loo'].mean():>10.4f}"
                f"{errors['cv'].mean():>9.4f}{t['loo']:>8.1f}{t['cv']:>8.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
