"""Time to a relative duality gap of 1e-6 of the MTFL problem, for our solvers and a published one.

    python -m benchmarks.mtfl_speed --data FOLDER [--quick]

The times are CPU times with BLAS on one thread, from rows to W. "ours" is ADMM. The other columns
are factors: above 1, ours is faster; ">" means that the peer did not reach the gap in 30 s.

- "alternation": our corrected Algorithm 1 of the paper.
- "Poon-Peyré": variable projection for the trace norm (not squared) with Gram matrices, square U
  from a random start, L-BFGS with ten pairs (NeurIPS 2021, arXiv:2106.01429). Implemented here in
  batches of tasks with scipy's L-BFGS. Its regularisation weight is set so that it has the same
  solution. The time to compute its gap does not count.

FOLDER contains ``school.npz`` and ``computer_survey.npz``.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from algorithms.interface.errors import Cancelled
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.mtfl.solver import MTFLSolution, Solver, solve
from algorithms.mtfl.square import (
    SquareProblem,
    lower_bound,
    objective,
    relative_gap,
    residuals_of,
)
from algorithms.numerics.feature_norms import TraceNorm
from algorithms.numerics.least_squares import LeastSquares
from algorithms.numerics.stacks import Block
from benchmarks.mtfl_data import school, survey, synthetic

Array = NDArray[np.float64]
Rows = list[tuple[Array, Array]]

GAP = 1e-6
#: A peer that takes longer is stopped.
LIMIT_S = 30.0


def rows_of(tasks: TaskSet) -> Rows:
    return [(task.X, task.y) for task in tasks if task.y is not None]


def wide_rows(rng: np.random.Generator) -> Rows:
    """Return 60 tasks of 300 rows in 180 features."""
    B = rng.standard_normal((180, 8))
    found = []
    for _ in range(60):
        X = rng.standard_normal((300, 180))
        y = X @ B @ rng.standard_normal(8) + 3 * rng.standard_normal(300)
        found.append((X, y))
    return found


def shared_rows(rng: np.random.Generator) -> Rows:
    """Return 7 tasks on the same 2000 rows of 21 features, as in the SARCOS dataset."""
    X = rng.standard_normal((2000, 21)) @ rng.standard_normal((21, 21))
    X /= X.std(axis=0)
    W = rng.standard_normal((21, 3)) @ rng.standard_normal((3, 7))
    Y = np.tanh(X) @ W + rng.standard_normal((2000, 7))
    return [(X, Y[:, t]) for t in range(7)]


def problem_of(rows: Rows, gamma: float) -> SquareProblem:
    blocks = [Block(X, y[:, np.newaxis], np.array([t])) for t, (X, y) in enumerate(rows)]
    compressed = LeastSquares.of(blocks, centre=False)
    return SquareProblem(compressed.stacks, compressed.remainder, TraceNorm(), gamma)


def run(rows: Rows, gamma: float, solver: Solver, *, tolerance: float = GAP) -> MTFLSolution:
    started = time.process_time()
    trace = Trace(is_cancelled=lambda: time.process_time() - started > LIMIT_S)
    stopping = StoppingRule(tolerance=tolerance, max_iter=1_000_000)
    problem = problem_of(rows, gamma)
    return solve(problem, None, solver=solver, stopping=stopping, trace=trace, loop="x")


def seconds_of(rows: Rows, gamma: float, solver: Solver) -> float:
    """Return the CPU time to the gap, or infinity if it is not reached."""
    started = time.process_time()
    try:
        found = run(rows, gamma, solver)
    except Cancelled:
        return np.inf
    return time.process_time() - started if found.gap <= GAP else np.inf


def poon_peyre(rows: Rows, gamma: float, weight: float) -> float:
    """Return the CPU time to the gap of min ½ Σ loss + weight·(trace norm)."""
    problem = problem_of(rows, gamma)
    clock = [time.process_time()]
    d = rows[0][0].shape[1]
    if all(np.array_equal(X, rows[0][0]) for X, _ in rows):
        X, Y = rows[0][0], np.stack([y for _, y in rows], axis=1)
        G, B = (X.T @ X)[np.newaxis], (X.T @ Y)[np.newaxis]
    else:
        G = np.stack([X.T @ X for X, _ in rows])
        B = np.stack([X.T @ y for X, y in rows])[:, :, np.newaxis]

    def project(U: Array) -> tuple[Array, Array, Array]:
        GU = (G.reshape(-1, d) @ U).reshape(-1, d, d)
        M = U.T @ GU
        M[:, range(d), range(d)] += weight
        b = U.T @ B
        return GU, b, np.linalg.solve(M, b)

    def evaluate(x: Array) -> tuple[float, Array]:
        U = x.reshape(d, d)
        GU, b, v = project(U)
        value = weight / 2 * float(np.sum(U**2)) - 0.5 * float(np.sum(b * v))
        slope = (GU @ v - B) @ np.swapaxes(v, 1, 2)
        return value, (weight * U + slope.sum(axis=0)).ravel()

    is_reached = [False]

    def stop(x: Array) -> None:
        paused = time.process_time()
        _, _, v = project(x.reshape(d, d))
        W = np.moveaxis(v, 0, 1).reshape(d, -1).T @ x.reshape(d, d).T
        residuals = residuals_of(problem, W)
        bound = lower_bound(problem, residuals, problem.stacks.adjoint(residuals))
        value = objective(problem, residuals, problem.norm.norm(W))
        is_reached[0] = relative_gap(value, bound) <= GAP
        clock[0] += time.process_time() - paused
        if is_reached[0] or time.process_time() - clock[0] > LIMIT_S:
            raise StopIteration

    x = np.random.default_rng(0).standard_normal(d * d)
    options = {"maxcor": 10, "maxiter": 100_000, "maxfun": 1_000_000, "ftol": 0.0, "gtol": 0.0}
    minimize(evaluate, x, jac=True, method="L-BFGS-B", callback=stop, options=options)
    return time.process_time() - clock[0] if is_reached[0] else np.inf


def median_of(call: Callable[[], float], n: int) -> float:
    """Return the median of n calls, or the first if it takes more than two seconds."""
    first = call()
    if first > 2.0:
        return first
    return float(np.median([first, *(call() for _ in range(n - 1))]))


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with both files")
    parser.add_argument("--quick", action="store_true", help="one gamma per set")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X, Y = survey(args.data)
    sets: dict[str, tuple[Rows, tuple[float, ...]]] = {
        "school": (rows_of(school(args.data)[0][0]), (1.0, 0.1, 3.0)),
        "synthetic 200 x 25": (rows_of(synthetic(rng, n_tasks=200, d=25)[0]), (0.03, 0.003, 0.3)),
        "survey": ([(X[:16], y[:16]) for y in Y], (1.0, 0.1, 3.0)),
        "shared rows, d=21": (shared_rows(rng), (1.0, 30.0)),
        "60 tasks, d=180": (wide_rows(rng), (1.0, 30.0)),
    }
    print(
        f"{'':<20}{'gamma':>7}{'ours s':>9}{'gap':>9}{'alternation':>12}{'Poon-Peyré':>12}"
        "  (times ours)"
    )
    for name, (rows, gammas) in sets.items():
        for gamma in gammas[: 1 if args.quick else None]:
            found = run(rows, gamma, "auto")
            weight = gamma * TraceNorm().norm(run(rows, gamma, "auto", tolerance=1e-10).W)
            ours = median_of(partial(seconds_of, rows, gamma, "auto"), 7)
            peers = [
                median_of(partial(seconds_of, rows, gamma, "alternation"), 1),
                median_of(partial(poon_peyre, rows, gamma, weight), 3),
            ]
            cells = "".join(
                f"{t / ours:>12.1f}" if np.isfinite(t) else f"{f'>{LIMIT_S / ours:.0f}':>12}"
                for t in peers
            )
            print(
                f"{name:<20}{gamma:>7g}{ours:>9.4f}{found.gap:>9.0e}{cells}",
                flush=True,
            )


if __name__ == "__main__":
    main()
