"""Speed and objective of RMT-PCA, compared with the Riemannian trust regions of pymanopt.

    python -m benchmarks.rmtpca_vs_pymanopt [--quick]

The peer is ``TrustRegions(verbosity=0)`` on ``Grassmann(d, k, k=T)`` with the analytic gradient and
Hessian, from a random start. "max." is the same work as the peer's, from covariances to
subspaces, including the eigendecompositions for our starts, and "eig. x" is this time divided by
that of ``numpy.linalg.eigh`` of the covariances alone; "fit" is the whole of ``RMTPCA().fit``,
from rows to model. The times are medians over problems of the CPU time with BLAS on one thread,
without compilation.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pymanopt
from numpy.typing import NDArray
from pymanopt.manifolds import Grassmann
from pymanopt.optimizers import TrustRegions
from threadpoolctl import threadpool_limits

from algorithms.families.subspaces.moments import estimate_moments
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.numerics import warm
from algorithms.rmtpca import RMTPCA, RMTPCAParams
from algorithms.rmtpca.coupled import follow_path, maximise
from algorithms.rmtpca.params import DEFAULT_GRID

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Shape of the problems of one row of the table."""

    T: int
    d: int
    k: int
    n: int
    c: float
    n_problems: int
    target: float


CASES = (
    Case(T=2, d=6, k=2, n=10, c=3.0, n_problems=9, target=10),
    Case(T=10, d=6, k=2, n=10, c=3.0, n_problems=9, target=10),
    Case(T=50, d=6, k=2, n=10, c=3.0, n_problems=7, target=10),
    Case(T=200, d=6, k=2, n=10, c=3.0, n_problems=5, target=10),
    Case(T=200, d=6, k=4, n=10, c=1.0, n_problems=5, target=10),
    Case(T=9, d=22, k=4, n=30, c=3.0, n_problems=7, target=4),
    Case(T=9, d=22, k=10, n=30, c=3.0, n_problems=5, target=4),
    Case(T=40, d=22, k=4, n=30, c=3.0, n_problems=5, target=4),
    Case(T=200, d=22, k=4, n=30, c=3.0, n_problems=5, target=5),
    Case(T=200, d=22, k=10, n=30, c=3.0, n_problems=5, target=5),
    Case(T=10, d=100, k=5, n=150, c=3.0, n_problems=3, target=3),
    Case(T=20, d=100, k=10, n=50, c=3.0, n_problems=3, target=3),
    Case(T=10, d=1000, k=5, n=20, c=3.0, n_problems=1, target=8),
    Case(T=20, d=1000, k=3, n=10, c=3.0, n_problems=1, target=8),
)


def solve_peer(C: Array, *, lam: float, k: int, start: Array | None = None) -> tuple[Array, float]:
    """Return pymanopt's bases (T, d, k) and its value of J."""
    T, d, _ = C.shape
    manifold = Grassmann(d, k, k=T)

    def sum_of_products(A: Array, B: Array) -> Array:
        return np.tensordot(A, B, axes=((0, 2), (0, 2)))

    @pymanopt.function.numpy(manifold)
    def cost(U: Array) -> float:
        G = sum_of_products(U, U)
        return -0.5 * np.sum((C @ U) * U) - 0.25 * lam * (np.sum(G * G) - T * k)

    @pymanopt.function.numpy(manifold)
    def gradient(U: Array) -> Array:
        return -(C @ U + lam * (sum_of_products(U, U) @ U - U))

    @pymanopt.function.numpy(manifold)
    def hessian(U: Array, E: Array) -> Array:
        D = sum_of_products(E, U)
        return -(C @ E + lam * (sum_of_products(U, U) @ E + (D + D.T) @ U - E))

    problem = pymanopt.Problem(
        manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian
    )
    result = TrustRegions(verbosity=0).run(problem, initial_point=start)
    return result.point, -result.cost


def solve_ours(tasks: TaskSet, params: RMTPCAParams) -> float:
    """Return our value of J after a whole fit."""
    trace = Trace()
    RMTPCA().fit(tasks, params, trace=trace, rng=np.random.default_rng(0))
    return max(step.objective for step in trace.history)


def random_tasks(rng: np.random.Generator, *, T: int, d: int, n: int) -> TaskSet:
    """Return tasks with tilted covariances of a spectrum falling by 10."""
    scale = np.sqrt(np.geomspace(10.0, 1.0, d))
    core = np.linalg.qr(rng.standard_normal((d, d)))[0]
    tasks = []
    for t in range(T):
        tilt = np.linalg.qr(np.eye(d) + 0.3 / np.sqrt(d / 6) * rng.standard_normal((d, d)))[0]
        rows = rng.standard_normal((n, d)) * scale @ core.T @ tilt.T
        tasks.append(Task.from_rows(f"task-{t:03d}", rows))
    return TaskSet(tuple(tasks))


def relative_lam(C: Array, c: float) -> float:
    T, d, _ = C.shape
    return c * float(np.trace(C, axis1=1, axis2=2).mean()) / d / max(T - 1, 1)


def cpu_time(run: Callable[[], Any], *, repeats: int = 1) -> tuple[float, Any]:
    """Return the minimum CPU time of some runs in seconds, and the last result."""
    best = np.inf
    for _ in range(repeats):
        begin = time.process_time()
        result = run()
        best = min(best, time.process_time() - begin)
    return best, result


def compare_times(rng: np.random.Generator, *, quick: bool) -> None:
    print("one start; dJ = (ours - peer)/|peer|, minimum and maximum")
    print(
        f"{'T':>4}{'d':>6}{'k':>4}{'n':>5}{'c':>5}{'max. ms':>10}{'fit ms':>9}{'peer ms':>10}"
        f"{'max. x':>9}{'fit x':>8}{'target':>8}{'eig. x':>8}   dJ"
    )
    for case in CASES:
        rows = [compare_once(case, rng) for _ in range(1 if quick else case.n_problems)]
        *times, gain = (np.array(column) for column in zip(*rows, strict=True))
        a, b, c, eigen = (float(np.median(one)) for one in times)
        print(
            f"{case.T:>4}{case.d:>6}{case.k:>4}{case.n:>5}{case.c:>5.1f}{a * 1e3:>10.2f}"
            f"{b * 1e3:>9.2f}{c * 1e3:>10.1f}{c / a:>9.1f}{c / b:>8.1f}"
            f"{case.target:>8.0f}{a / eigen:>8.1f}   {gain.min():+.0e} {gain.max():+.0e}",
            flush=True,
        )


def compare_once(case: Case, rng: np.random.Generator) -> tuple[float, ...]:
    """Return the CPU time of our maximisation, our fit, the peer and the eigendecompositions alone.

    The last number is our relative gain in J.
    """
    tasks = random_tasks(rng, T=case.T, d=case.d, n=case.n)
    C = np.stack([np.cov(task.X, rowvar=False) for task in tasks])
    lam = relative_lam(C, case.c)
    moments = estimate_moments(tasks.tasks, k=case.k)
    params = RMTPCAParams(k=case.k, lam=case.c)
    stopping = StoppingRule(tolerance=params.rtol, max_iter=params.max_iter)

    def maximise_ours() -> float:
        return maximise(moments.C, lam=lam, k=case.k, stopping=stopping, trace=Trace()).objective

    ours, J = cpu_time(maximise_ours, repeats=3)
    whole, _ = cpu_time(lambda: solve_ours(tasks, params), repeats=3)
    np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002 - pymanopt uses it
    peer, (_, J_peer) = cpu_time(lambda: solve_peer(C, lam=lam, k=case.k))
    eigen, _ = cpu_time(lambda: np.linalg.eigh(C), repeats=3)
    return ours, whole, peer, eigen, (J - J_peer) / abs(J_peer)


PATHS = ((10, 6, 2, 10, 10), (50, 6, 2, 10, 10), (12, 24, 4, 30, 5))


def compare_paths(rng: np.random.Generator) -> None:
    print("\npath of 13 λ: ours in both directions, the peer upwards with warm starts")
    print(
        f"{'T':>4}{'d':>6}{'k':>4}{'ours ms':>10}{'peer ms':>10}{'ratio':>8}{'target':>8}"
        "   dJ minimum, mean"
    )
    for T, d, k, n, target in PATHS:
        tasks = random_tasks(rng, T=T, d=d, n=n)
        C = np.stack([np.cov(task.X, rowvar=False) for task in tasks])
        lams = [relative_lam(C, c) for c in DEFAULT_GRID]
        a, J = cpu_time(partial(path_of_ours, tasks, lams, k), repeats=3)
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002
        b, J_peer = cpu_time(partial(path_of_peer, C, lams, k))
        gains = (np.array(J) - J_peer) / np.abs(J_peer)
        print(
            f"{T:>4}{d:>6}{k:>4}{a * 1e3:>10.1f}{b * 1e3:>10.1f}{b / a:>8.1f}{target:>8}   "
            f"{gains.min():+.0e} {gains.mean():+.0e}",
            flush=True,
        )


def path_of_ours(tasks: TaskSet, lams: list[float], k: int) -> list[float]:
    """Return J along the path, from rows."""
    moments = estimate_moments(tasks.tasks, k=k)
    stopping = StoppingRule(tolerance=1e-9, max_iter=200)
    path = follow_path(moments.C, lams=lams, k=k, stopping=stopping, trace=Trace(), loop="path")
    return [optimum.objective for optimum in path]


def path_of_peer(C: Array, lams: list[float], k: int) -> list[float]:
    """Return J along the path, each run from the result of the previous one."""
    values, start = [], None
    for lam in lams:
        start, J = solve_peer(C, lam=lam, k=k, start=start)
        values.append(J)
    return values


def compare_optima(rng: np.random.Generator, *, n_problems: int) -> None:
    print(f"\nobjective on {n_problems} random problems: share with J >= peer - 1e-8 |J|")
    hits = {"single": 0, "many": 0}
    worst = dict.fromkeys(hits, 0.0)
    for _ in range(n_problems):
        T, d = int(rng.integers(2, 13)), int(rng.integers(3, 11))
        k, n = int(rng.integers(1, d)), int(rng.integers(3, 20))
        c = float(np.exp(rng.uniform(np.log(0.1), np.log(30.0))))
        A = rng.standard_normal((T, n, d)) * np.sqrt(np.geomspace(3.0, 1.0, d))
        C = np.swapaxes(A, 1, 2) @ A / n
        lam = relative_lam(C, c)
        tasks = TaskSet(tuple(Task(f"t{t:02d}", C[t][None], "covariances") for t in range(T)))
        np.random.seed(int(rng.integers(2**31)))  # noqa: NPY002
        _, J_peer = solve_peer(C, lam=lam, k=k)
        for starts in hits:
            params = RMTPCAParams(k=k, lam=c, starts=starts)
            gain = (solve_ours(tasks, params) - J_peer) / abs(J_peer)
            hits[starts] += gain >= -1e-8
            worst[starts] = min(worst[starts], gain)
    for starts, target in (("single", 97.0), ("many", 99.8)):
        share = 100.0 * hits[starts] / n_problems
        print(
            f"  starts={starts:<7} {share:6.1f} %  (target {target} %)  min. {worst[starts]:+.1e}"
        )


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer problems")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warm.main()
    rng = np.random.default_rng(args.seed)
    compare_times(rng, quick=args.quick)
    compare_paths(rng)
    compare_optima(rng, n_problems=50 if args.quick else 500)


if __name__ == "__main__":
    main()
