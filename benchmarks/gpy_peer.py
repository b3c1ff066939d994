"""GPy's part of ``tlvm_vs_gpy.py``, for an environment that has GPy but not this project.

python gpy_peer.py cases.npz answers.npz
"""

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import GPy
import numpy as np

warnings.simplefilter("ignore")


def min_time(call: Callable[[], object], *, n: int) -> float:
    """Return the minimum CPU time of n calls, in seconds."""
    times = []
    for _ in range(n):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def answer(case: Mapping[str, Any], *, is_projected: bool) -> dict[str, Any]:
    """Return GPy's likelihood, times, optimum and projections for rows Y from latents X."""
    Y, X, new = case["Y"], case["X"], case["new"]
    model = GPy.models.GPLVM(Y, X.shape[1], X=X.copy(), kernel=GPy.kern.RBF(X.shape[1]))
    model.likelihood.variance = 1.0
    start = model.optimizer_array.copy()
    nudge = [1.0]

    def evaluate() -> None:
        nudge[0] += 1e-9  # because GPy caches the value at the last point
        model._objective_grads(start * nudge[0])  # noqa: SLF001 - GPy's optimisers call it

    found: dict[str, Any] = {"value_at_start": -float(model.log_likelihood())}
    found["evaluate_s"] = min_time(evaluate, n=30 if len(Y) < 200 else 7)
    model.optimizer_array = start
    started = time.process_time()
    model.optimize("lbfgs", max_iters=1000)
    found["optimise_s"] = time.process_time() - started
    found["value"] = -float(model.log_likelihood())
    kernel = model.kern
    found["theta"] = np.log(
        [
            float(kernel.variance[0]),
            1.0 / float(kernel.lengthscale[0]) ** 2,
            float(model.likelihood.variance[0]),
        ]
    )
    found["X"] = np.asarray(model.X)
    if not is_projected:
        return found
    times, latents = [], []
    for row in new[:5]:
        started = time.process_time()
        inferred, _ = model.infer_newX(row[np.newaxis])
        times.append(time.process_time() - started)
        latents.append(np.asarray(inferred)[0])
    found["one_s"], found["one_X"] = float(np.median(times)), np.array(latents)
    started = time.process_time()
    inferred, _ = model.infer_newX(new)
    found["many_s"], found["many_X"] = time.process_time() - started, np.asarray(inferred)
    return found


def main() -> None:
    cases, answers = np.load(sys.argv[1], allow_pickle=False), {}
    for i in range(int(cases["n_cases"])):
        case = {name: cases[f"{name}.{i}"] for name in ("Y", "X", "new")}
        found = answer(case, is_projected=bool(cases[f"is_projected.{i}"]))
        answers |= {f"{name}.{i}": value for name, value in found.items()}
        print(f"GPy: case {i} done", file=sys.stderr)
    np.savez(sys.argv[2], **answers)


if __name__ == "__main__":
    main()
