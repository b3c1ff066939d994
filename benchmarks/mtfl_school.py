"""MTFL on School: exam scores of pupils of 139 schools, ten official splits.

The data are ``school.npz`` (ILEA, as shared by Argyriou, Evgeniou, Pontil). Regularisation is
selected by leave-one-out inside the training pupils. There are two scores, which differ by 14
points: "per task" is the mean over schools, weighted by size, of 1 - SSE/SST of the school;
"global" is 1 - SSE/SST of all test pupils.
"""

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.baselines.linear import MeanRegularised, Ridge
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table
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
def run(context: Context) -> list[Block]:
    """Return the table, and whether MTFL is better than ridge regression."""
    splits = school(context.folder("school.npz"))[: 2 if context.is_quick else None]
    found = {name: [_measure(name, *split) for split in splits] for name in METHODS}
    ridge = np.array(found["ridge per task"])[:, 0]
    rows = []
    for name, measured in found.items():
        per_task, in_all, gammas, times = np.array(measured).T
        t = paired_t(per_task - ridge) if name != "ridge per task" else None
        rows.append(
            (
                name,
                100 * float(per_task.mean()),
                100 * float(per_task.std(ddof=1)),
                100 * float(in_all.mean()),
                t,
                float(np.median(gammas)),
                float(times.min()),
            )
        )
    columns = (
        "explained variance", "per task, %", "deviation", "global, %", "t against ridge", "gamma",
        "fit, CPU s",
    )  # fmt: skip
    table = Table(columns=columns, rows=tuple(rows), higher_is_better=("per task, %",))
    gain = rows[0][1] - 100 * float(ridge.mean())
    text = f"MTFL explains more variance per task than ridge regression; here by {gain:.1f} points."
    return [table, Claim(text=text, is_confirmed=gain > 0)]


def _measure(name: str, train: TaskSet, test: TaskSet) -> tuple[float, float, float, float]:
    """Return both scores, the regularisation and the CPU time in seconds."""
    algorithm, values = METHODS[name]
    params, started = algorithm.Params(**values), time.process_time()
    model = algorithm.fit(train, params, trace=Trace(), rng=np.random.default_rng(0))
    seconds = time.process_time() - started
    gamma = float(model.fit_info.get("ridge", model.fit_info["gamma"]))
    return (*explained(model, test), gamma, seconds)
