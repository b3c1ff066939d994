"""Time of selection by cross-validation with folds that are prepared once, and without.

The task set is middling: 20 tasks of 100 rows and 20 columns. "Separate" fits every candidate to
every fold by ``fit``, as if it were alone; "prepared" is what ``selection="cv"`` does. Both are
CPU times of the same process, one after the other, with BLAS on one thread. "Change" is the
largest difference of the candidates' held-out losses, relative to the largest loss; "shared" is
what the candidates of a fold have in common.
"""

import time
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Plot, Table

#: Iterative solvers stop within their tolerance, wherever they start.
MAX_CHANGE = 1e-3
N_TASKS, N_ROWS, N_COLUMNS = 20, 100, 20
#: Algorithm, kind of targets, and what the candidates of a fold have in common.
CASES = (
    ("mtda", "three", "scatter matrices, eigenvectors at a ratio"),
    ("lda-tr", "three", "scatter matrices, eigenvectors at a ratio"),
    ("lda-rt", "three", "scatter matrices, directions for a gamma"),
    ("lda-null", "three", "scatter matrices, all directions"),
    ("pca-classifier", "three", "scatter matrices, all directions"),
    ("aggregate", "three", "scatter matrices, directions for a gamma and d'"),
    ("kernel-tasks", "two", "kernel matrix"),
    ("kernel-scaled", "two", "kernel matrix"),
    ("kernel-mean", "two", "kernel matrix"),
    ("fmtl", "two", "kernel matrix and its eigenvectors"),
    ("fmtl", "numbers", "kernel matrix and its eigenvectors"),
    ("logistic-regression", "two", "rows, warm starts"),
    ("shared-lasso", "numbers", "compressed rows, warm starts"),
    ("cmtl", "numbers", "compressed rows, warm starts"),
    ("gmtl", "numbers", "compressed rows, the solution for a single group"),
    ("nearest-neighbours", "numbers", "trees"),
)


def made(kind: str) -> TaskSet:
    """Return tasks with numbers, two or three classes, which share three directions."""
    rng = np.random.default_rng(0)
    U, tasks = rng.standard_normal((N_COLUMNS, 3)), []
    for t in range(N_TASKS):
        X = rng.standard_normal((N_ROWS, N_COLUMNS)) * rng.uniform(0.5, 2, N_COLUMNS)
        w = U @ rng.standard_normal(3) + 0.3 * rng.standard_normal(N_COLUMNS)
        f = X @ w + 6 * rng.standard_normal(N_ROWS)
        classes = np.digitize(f, np.quantile(f, (1 / 3, 2 / 3)))
        y = {"numbers": f, "two": (f > 0).astype(int), "three": classes}[kind]
        tasks.append(Task.from_rows(f"t{t:02}", X, y=y))
    return TaskSet(tuple(tasks))


def losses_of(fit_info: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return the held-out losses of all candidates; those of single tasks are not reported."""
    found = [fit_info[key] for key in ("cv_error", "cv_errors", "cv_loss") if key in fit_info]
    by_task = [one["cv_error"] for one in fit_info.get("by_task", {}).values()]
    return np.concatenate([*found, *by_task])


def timed(algorithm: Algorithm[Any, Any], tasks: TaskSet) -> tuple[np.ndarray[Any, Any], float]:
    """Return the losses of all candidates, and the CPU time of the fit in seconds."""
    params = algorithm.Params(selection="cv")
    started = time.process_time()
    model = algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    return losses_of(model.fit_info), time.process_time() - started


@threadpool_limits.wrap(limits=1)
def run(context: Context) -> list[Block]:
    """Return the table, and whether the prepared folds have the same losses."""
    rows, changes = [], []
    for name, kind, shared in CASES[-1:] if context.is_quick else CASES:
        algorithm, tasks = ALGORITHMS[name], made(kind)
        timed(algorithm, TaskSet(tasks.tasks[:2]))  # compile
        losses, ours = timed(algorithm, tasks)
        with patch.object(type(algorithm), "prepare_fold", Algorithm.prepare_fold):
            expected, plain = timed(algorithm, tasks)
        changes.append(float(np.abs(losses - expected).max() / np.abs(expected).max()))
        label = f"`{name}` ({kind})" if kind != "three" else f"`{name}`"
        rows.append((label, plain, ours, round(plain / ours, 2), changes[-1], shared))
    table = Table(
        columns=("algorithm", "separate, s", "prepared, s", "ratio", "change", "shared"),
        rows=tuple(rows),
        higher_is_better=("ratio",),
        plot=Plot(labels="algorithm", values="ratio"),
    )
    text = f"The losses of all candidates are the same to {MAX_CHANGE:g} of the largest."
    return [table, Claim(text=text, is_confirmed=max(changes) <= MAX_CHANGE)]
