"""Speed of the GP-LVM of TLVM, compared with GPy's ``GPLVM``, on USPS digits.

    python -m benchmarks.tlvm_vs_gpy --data FOLDER [--quick]

FOLDER contains ``usps.npz``. GPy is installed into an environment of its own below --folder. Both
start at the same latents and θ, with GPy's jitter of 1e-8 in place of a noise floor. The times are
CPU times with BLAS on one thread, without compilation.

- "value + gradient": one evaluation.
- "to GPy's value": until our L-BFGS reaches the final value of GPy's L-BFGS (1000 iterations), and
  until it is within 0.1 % of it ("nearly"); infinite if it converges to a worse local minimum.
- Projection: new rows into GPy's trained model, with its θ and latents; f is eq. 25 per row, the
  error is the mean of ‖y - ŷ‖ in scaled units. GPy optimises 200 rows together, and stops at an f
  that our first stage is below already.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.families.latent.gp import principal_latents, project
from algorithms.families.latent.objective import LatentObjective, pack
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics import warm
from algorithms.numerics.gp_covariances import COVARIANCES
from algorithms.numerics.gp_terms import compress_rows, negative_log_likelihood
from algorithms.numerics.latent_projection import (
    ROBUST_TOLERANCE,
    Predictor,
    initial_latents,
    predictor,
    refine_latents,
)
from algorithms.solvers.lbfgs import initial_state, lbfgs_step
from algorithms.tlvm import TLVM, TLVMParams
from benchmarks.serving_servers import environment_of

Array = NDArray[np.float64]

#: GPy's jitter.
JITTER = 1e-8
L = 10
SIZES = (40, 40, 40, 40, 40, 100, 100, 100, 200, 200, 400, 400)
#: Target speed-ups by number of rows: of an evaluation, and of the time to GPy's value.
WANTED = {40: (10, 5), 100: (4, 1), 200: (2, 1), 400: (2, 1)}
#: The same for the projection of 200 rows.
WANTED_ROWS = {40: 4, 100: 2}
MAX_STEPS = 3000
#: Environment variables for the threads of the peer's BLAS.
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
NEARLY = 1e-3


def make_cases(folder: Path, sizes: tuple[int, ...]) -> list[dict[str, Array]]:
    with np.load(folder / "usps.npz", allow_pickle=False) as file:
        images = file["X"] / 2000.0
    cases = []
    for i, r in enumerate(sizes):
        rows = images[np.random.default_rng(i).permutation(len(images))[: r + 200]]
        rows = rows - rows[:r].mean(axis=0)
        rows /= np.sqrt(np.mean(rows[:r] ** 2))
        cases.append({"Y": rows[:r], "new": rows[r:], "X": principal_latents(rows[:r], L=L)})
    return cases


def run_peer(cases: list[dict[str, Array]], python: Path) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        cases_path, answers_path = Path(folder, "cases.npz"), Path(folder, "answers.npz")
        arrays: dict[str, Any] = {"n_cases": len(cases)}
        for i, case in enumerate(cases):
            arrays |= {f"{name}.{i}": value for name, value in case.items()}
            arrays[f"is_projected.{i}"] = len(case["Y"]) in WANTED_ROWS
        np.savez(cases_path, **arrays)
        peer = Path(__file__).with_name("gpy_peer.py")
        subprocess.run(
            [python, str(peer), str(cases_path), str(answers_path)],
            check=True,
            env={**os.environ, **dict.fromkeys(THREADS, "1")},
        )
        with np.load(answers_path, allow_pickle=False) as file:
            whole = dict(file)
    return [
        {key.removesuffix(f".{i}"): value for key, value in whole.items() if key.endswith(f".{i}")}
        for i in range(len(cases))
    ]


def min_time(call: Callable[[], object], *, n: int) -> float:
    times = []
    for _ in range(n):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def per_call(call: Callable[[], object], *, n: int, n_inside: int) -> float:
    """Return the CPU time per call, the minimum over n runs of ``n_inside`` calls."""
    return min_time(lambda: [call() for _ in range(n_inside)], n=n) / n_inside


def time_to(objective: LatentObjective, z: Array, value: float) -> tuple[float, float, float]:
    """Return the times until the value is nearly and fully reached, and the final value."""
    started, nearly = time.process_time(), np.inf
    state = initial_state(objective, z)
    for _ in range(MAX_STEPS):
        if state.objective <= value + NEARLY * abs(value):
            nearly = min(nearly, time.process_time() - started)
        if state.objective <= value:
            return nearly, time.process_time() - started, state.objective
        if state.is_stalled:
            break
        state = lbfgs_step(objective, state)
    return nearly, np.inf, state.objective


def compare_descent(case: dict[str, Array], peer: dict[str, Any]) -> None:
    Y, z = case["Y"], pack(np.zeros(3), case["X"])
    r, D = Y.shape
    terms = partial(negative_log_likelihood, Y=compress_rows(Y), n_columns=D)
    objective = LatentObjective(COVARIANCES["rbf"], terms, L, JITTER)
    value, _ = objective(z)
    same = abs(value / float(peer["value_at_start"]) - 1.0)
    ours = per_call(lambda: objective(z), n=7, n_inside=max(2, 4000 // r))
    nearly, reached, end = time_to(objective, z, float(peer["value"]))
    fast = float(peer["evaluate_s"]) / ours
    sooner, soonest = (float(peer["optimise_s"]) / t for t in (reached, nearly))
    wanted = WANTED[r]
    print(
        f"{r:4}  {same:8.1e}  {1e3 * ours:8.3f} {1e3 * float(peer['evaluate_s']):8.3f} ms"
        f" {fast:6.1f} x (>= {wanted[0]})   {reached:7.3f} {float(peer['optimise_s']):7.3f} s"
        f" {sooner:6.1f} x, nearly {soonest:5.1f} x (>= {wanted[1]})"
        f"  {end:12.1f} {float(peer['value']):12.1f}"
    )


def compare_projection(case: dict[str, Array], peer: dict[str, Any]) -> None:
    process = predictor("rbf", peer["theta"], peer["X"], case["Y"], floor=JITTER)
    new = case["new"]
    one = per_call(lambda: project(process, new[:1], is_robust=False), n=5, n_inside=20)
    many = min_time(lambda: project(process, new, is_robust=False), n=5)

    def quality(X: Array, rows: Array) -> str:
        f = process.values(X, rows, is_robust=False).mean()
        return f"f {f:9.2f}, error {np.linalg.norm(process.mean(X) - rows, axis=1).mean():.4f}"

    print(
        f"one row: {1e3 * one:.3f} ms, GPy {1e3 * float(peer['one_s']):.1f} ms: "
        f"{float(peer['one_s']) / one:.0f} x (>= 30); five rows: "
        f"ours {quality(project(process, new[:5], is_robust=False), new[:5])}; "
        f"GPy {quality(peer['one_X'], new[:5])}"
    )
    ours = quality(project(process, new, is_robust=False), new)
    print(
        f"{len(case['Y'])} active, 200 rows: {1e3 * many:.1f} ms, "
        f"GPy {1e3 * float(peer['many_s']):.0f} ms: {float(peer['many_s']) / many:.1f} x "
        f"(>= {WANTED_ROWS[len(case['Y'])]}); ours {ours}; "
        f"GPy {quality(peer['many_X'], new)}"
    )
    rough = min_time(lambda: project_roughly(process, new), n=5)
    print(
        f"    the first stage alone, which is below the f of GPy: {1e3 * rough:.1f} ms, "
        f"{float(peer['many_s']) / rough:.1f} x; {quality(project_roughly(process, new), new)}"
    )


def project_roughly(process: Predictor, rows: Array) -> Array:
    """Return the latents after the first stage of a projection."""
    start, _ = initial_latents(process, rows)
    return refine_latents(process, rows, start, is_robust=True, tolerance=ROBUST_TOLERANCE)[0]


def time_methods(case: dict[str, Array]) -> None:
    """Print the time per call of a model with 40 active rows of the source and 40 of the target."""
    tasks = TaskSet((Task.from_rows("a", case["Y"]), Task.from_rows("b", case["new"])))
    rng = np.random.default_rng(0)
    model = TLVM().fit(tasks, TLVMParams(source="b"), trace=Trace(), rng=rng)
    rows = np.repeat(case["new"], 5, axis=0) + 0.1 * rng.standard_normal((1000, 256))
    for method in ("transform", "reconstruct"):
        for task, n_active in (("b", 40), ("a", 80)):
            call = getattr(model, method)
            one = per_call(lambda c=call, t=task: c(rows[:1], task=t), n=5, n_inside=20)
            many = min_time(lambda c=call, t=task: c(rows, task=t), n=3)
            print(
                f"{method:12} {n_active} active rows, L = {L}, D = 256: one row "
                f"{1e3 * one:.3f} ms (< 1), 1000 rows {many:.3f} s (< 0.5)"
            )


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with usps.npz")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "peers")
    parser.add_argument("--quick", action="store_true", help="40 and 100 rows only, once")
    args = parser.parse_args()
    if not (args.data / "usps.npz").exists():
        sys.exit(f"{args.data} does not contain usps.npz")
    warm.warm_latent()
    cases = make_cases(args.data, (40, 100) if args.quick else SIZES)
    args.folder.mkdir(exist_ok=True)
    answers = run_peer(cases, environment_of("GPy", args.folder) / "bin" / "python")
    print("   r  same value        value + gradient, ours, GPy          to GPy's value, ours, GPy"
          "                                 value, ours, GPy")  # fmt: skip
    for case, peer in zip(cases, answers, strict=True):
        compare_descent(case, peer)
    for case, peer in zip(cases, answers, strict=True):
        if "one_s" in peer:
            compare_projection(case, peer)
    time_methods(cases[0])


if __name__ == "__main__":
    main()
