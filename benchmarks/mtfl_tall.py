"""Time of MTFL on many rows, relative to ridge regressions by Gram matrices.

The peer centres the rows of each task and solves X'X + I: as many regressions as there are tasks,
for one value of the regularisation. "MTFL" is the whole of ``MTFL().fit`` for a given γ, to a
certified relative duality gap of 1e-6. The times are CPU times of one process, with BLAS on one
thread.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL, MTFLParams
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table

Array = NDArray[np.float64]

N_TIMES = 3
#: Number of features that the tasks share.
RANK = 5


def made(n_tasks: int, n_rows: int, d: int) -> TaskSet:
    """Return regressions whose coefficients are near a common subspace."""
    rng = np.random.default_rng(0)
    U, scale, tasks = rng.standard_normal((d, RANK)), rng.uniform(0.1, 3, d), []
    for t in range(n_tasks):
        X = rng.standard_normal((n_rows, d)) * scale
        w = U @ rng.standard_normal(RANK) + 0.1 * rng.standard_normal(d)
        y = X @ w / scale.mean() + 5 * rng.standard_normal(n_rows)
        tasks.append(Task.from_rows(f"t{t:04}", X, y=y))
    return TaskSet(tuple(tasks))


def ridge_by_gram(tasks: TaskSet) -> list[Array]:
    """Return the coefficients of every task."""
    found = []
    for task in tasks:
        assert task.y is not None
        X, y = task.X - task.X.mean(axis=0), task.y - task.y.mean()
        found.append(np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y))
    return found


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result, and the CPU time in seconds."""
    started = time.process_time()
    result = call()
    return result, time.process_time() - started


@threadpool_limits.wrap(limits=1)
def run(context: Context) -> list[Block]:
    """Return the table, and whether the gap is certified."""
    shape = (50, 100, 40) if context.is_quick else (200, 250, 100)
    tasks, params = made(*shape), MTFLParams(selection="given")

    def fit() -> dict[str, Any]:
        return MTFL().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0)).fit_info

    fit()  # compile
    times = []
    for _ in range(N_TIMES):
        _, peer = timed(lambda: ridge_by_gram(tasks))
        info, ours = timed(fit)
        times.append((peer, ours))
    peer, ours = (float(one) for one in np.median(times, axis=0))
    label = " x ".join(map(str, shape))
    row = (label, peer, ours, ours / peer, info["solver"], info["relative_gap"])
    columns = ("tasks x rows x columns", "ridge, s", "MTFL, s", "ratio", "solver", "relative gap")
    return [
        Table(columns=columns, rows=(row,), lower_is_better=("ratio",)),
        Claim(text="The relative duality gap is at most 1e-6.", is_confirmed=row[-1] <= 1e-6),
    ]
