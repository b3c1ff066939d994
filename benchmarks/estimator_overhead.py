"""What an estimator adds to the time of a fit.

``python -m benchmarks.estimator_overhead`` fits every algorithm to three tasks of forty rows by its
estimator, and subtracts the time that the algorithm took inside the same call, so that the noise of
the fit does not count. It prints medians, and whether the largest is below 2 ms.
"""

import argparse
import statistics
import time
import warnings
from typing import Any

import numpy as np

from sibling.estimators import ESTIMATORS, Estimator

MAX_OVERHEAD_MS = 2.0
N_ROWS, N_FEATURES = 40, 8
NAMES = ("a", "b", "c")


def data_for(estimator: Estimator) -> tuple[Any, Any, Any]:
    """Return rows, targets and names of tasks that an estimator can be fitted to."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS * len(NAMES), N_FEATURES))
    y = X[:, 0] + 0.1 * rng.standard_normal(len(X))
    needs = estimator._algorithm.needs  # noqa: SLF001 - measured from inside
    if needs.target == "classes":
        return X, np.where(y > 0, "high", "low"), np.repeat(NAMES, N_ROWS)
    return X, y if needs.target == "any" else None, np.repeat(NAMES, N_ROWS)


def measure(estimator: Estimator, n: int) -> tuple[float, float]:
    """Return the median times of a fit of the algorithm, and of the rest of the call, in ms."""
    algorithm = estimator._algorithm  # noqa: SLF001 - as above
    X, y, names = data_for(estimator)
    if algorithm.needs.shared_rows:
        X = np.tile(X[:N_ROWS], (len(NAMES), 1))
    inside: list[float] = []
    fit = algorithm.fit

    def timed(*args: Any, **options: Any) -> Any:
        started = time.perf_counter()
        model = fit(*args, **options)
        inside.append(time.perf_counter() - started)
        return model

    algorithm.fit = timed  # type: ignore[method-assign]
    own, added = [], []
    for _ in range(n + 1):
        started = time.perf_counter()
        estimator.fit(X, y, tasks=names)
        whole = time.perf_counter() - started
        own.append(inside[-1])  # a selection of parameters may call it before
        added.append(whole - inside[-1])
    # the first call loads what the algorithm needs
    return 1e3 * statistics.median(own[1:]), 1e3 * statistics.median(added[1:])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-n", type=int, default=15, help="number of fits of each algorithm")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    worst = 0.0
    print(f"{'estimator':22}{'algorithm, ms':>15}{'added, ms':>12}")
    for name, cls in ESTIMATORS.items():
        own, added = measure(cls(), args.n)
        worst = max(worst, added)
        print(f"{name:22}{own:15.2f}{added:12.2f}")
    verdict = "below" if worst < MAX_OVERHEAD_MS else "NOT below"
    print(f"largest: {worst:.2f} ms, {verdict} {MAX_OVERHEAD_MS:g} ms")


if __name__ == "__main__":
    main()
