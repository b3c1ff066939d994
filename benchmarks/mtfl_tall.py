"""Time of MTFL on many rows, relative to ridge regressions by Gram matrices.

    python benchmarks/mtfl_tall.py [--tasks 200] [--rows 250] [--columns 100] [--cv]

The peer centres the rows of each task and solves X'X + I: as many regressions as there are tasks,
for one value of the regularisation. "MTFL" is the whole of ``MTFL().fit`` for a given gamma, to a
certified relative duality gap of 1e-6; with ``--cv`` also that of a cross-validation over the
default grid. The times are CPU times of one process, with BLAS on one thread.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL, MTFLParams

Array = NDArray[np.float64]

WANTED = 2.0
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
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--rows", type=int, default=250, help="rows of each task")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--cv", action="store_true", help="also select gamma")
    args = parser.parse_args()
    tasks = made(args.tasks, args.rows, args.columns)

    def fit(selection: str) -> Any:
        params = MTFLParams.model_validate({"selection": selection})
        return MTFL().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0)).fit_info

    times = []
    for _ in range(N_TIMES):
        _, peer = timed(lambda: ridge_by_gram(tasks))
        info, ours = timed(lambda: fit("given"))
        times.append((peer, ours))
    peer, ours = np.median(times, axis=0)
    print(f"{args.tasks} tasks of {args.rows} rows and {args.columns} columns")
    print(
        f"ridge {peer:.3f} s, MTFL {ours:.3f} s: {info['solver']}, gap {info['relative_gap']:.0e}"
    )
    verdict = "reached" if ours <= WANTED * peer else "missed"
    print(f"{ours / peer:.1f} times as long; target {WANTED:g}: {verdict}")
    if args.cv:
        info, whole = timed(lambda: fit("cv"))
        print(f"with cross-validation {whole:.1f} s, gap {info['relative_gap']:.0e}")


if __name__ == "__main__":
    main()
