"""Time that an estimator adds to the fit of its algorithm.

Every estimator is fitted to three tasks of forty rows and eight columns. "Added" is the median of
the CPU time of the call without the fit of the algorithm inside it: parsing parameters, checking
rows, dividing them by task, and setting attributes.
"""

import statistics
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Plot, Table
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
        started = time.process_time()
        model = fit(*args, **options)
        inside.append(time.process_time() - started)
        return model

    algorithm.fit = timed  # type: ignore[method-assign]
    own, added = [], []
    for _ in range(n + 1):
        started = time.process_time()
        estimator.fit(X, y, tasks=names)
        whole = time.process_time() - started
        own.append(inside[-1])  # a selection of parameters may call it before
        added.append(whole - inside[-1])
    # the first call loads what the algorithm needs
    return 1e3 * statistics.median(own[1:]), 1e3 * statistics.median(added[1:])


@threadpool_limits.wrap(limits=1)
def run(context: Context) -> Iterator[Block]:
    """Yield the table, and whether the largest overhead is small."""
    n = 3 if context.is_quick else 15
    names = ("Constant", "Ridge", "RMTPCA") if context.is_quick else tuple(ESTIMATORS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [(f"`{name}`", *measure(ESTIMATORS[name](), n)) for name in names]
    yield Table(
        columns=("estimator", "algorithm, ms", "added, ms"),
        rows=tuple(rows),
        lower_is_better=("added, ms",),
        plot=Plot(labels="estimator", values="added, ms"),
    )
    yield Claim(
        text=f"No estimator adds more than {MAX_OVERHEAD_MS:g} ms.",
        is_confirmed=max(added for _, _, added in rows) <= MAX_OVERHEAD_MS,
    )
